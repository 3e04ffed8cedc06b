//! The image of a server with its contexts and counters, and the service that goes on with it.

use crate::{Builder, Executor, NfsService};
use image::ImageError;
use minicbor::{Decode, Encode};
use server::engine::{NfsImage, ObjectsIn, ObjectsOut};
use server::rpcsec::ContextsImage;
use std::sync::Arc;

/// The image of a server.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct ServerImage {
    #[n(0)]
    nfs: NfsImage,
    /// The RPCSEC_GSS contexts; nothing without Kerberos.
    #[n(1)]
    contexts: Option<ContextsImage>,
    /// Counters that go on, by name.
    #[n(2)]
    counters: Vec<(String, u64)>,
}

impl<E: Executor> NfsService<E> {
    /// Makes an image of the server. No call runs, and background copies are paused.
    ///
    /// # Errors
    /// [`ImageError::Busy`].
    pub fn image(&self, objects: &mut dyn ObjectsOut) -> Result<ServerImage, ImageError> {
        let server = self.server();
        let nfs = self.with_paused_copies(|copies| server.engine().image(copies, objects))?;
        let contexts = server.rpcsec().map(|rpcsec| rpcsec.image());
        let counters = server.metrics().snapshot().into_iter();
        let counters = counters.map(|(name, count)| (name.to_owned(), count)).collect();
        Ok(ServerImage { nfs, contexts, counters })
    }
}

impl Builder {
    /// As [`Builder::service`], of a server that goes on with the image of another process. Its
    /// background copies wait for [`NfsService::resume_copies`].
    ///
    /// # Errors
    /// The part of the image that is inconsistent.
    pub fn inherit<E: Executor>(
        self,
        executor: &E,
        image: ServerImage,
        objects: &mut dyn ObjectsIn,
    ) -> Result<Arc<NfsService<E>>, ImageError> {
        let real_time = self.is_real_time();
        let ServerImage { nfs, contexts, counters } = image;
        let (server, resumed) = self.restore(nfs, contexts, objects)?;
        server.metrics().resume(counters.iter().map(|(name, count)| (name.as_str(), *count)));
        server.engine().restore_callbacks(resumed.callbacks, server.now())?;
        let service = NfsService::start(server, executor, real_time);
        service.hold_copies(resumed.copies);
        Ok(service)
    }
}
