//! Images of copies. They are made while no piece is being copied.

use super::{CopyPhase, CopyRecord, CopyTable};
use crate::clients::image::RestoredClients;
use crate::delegations::image::ReferringImage;
use crate::order::Held;
use crate::revocation::image::StateRefImage;
use crate::stateids::StateRef;
use crate::sync::atomic::AtomicUsize;
use crate::table::Table;
use crate::table::image::{KeyImage, TableImage};
use crate::{ClientKey, Nfsstat4, Principal, ReferringCall};
use image::{ImageError, SharedBytes};
use minicbor::{Decode, Encode};
use std::sync::Arc;

/// One copy, with the image `F` of the name of the file that is written to.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct CopyImage<F> {
    #[n(0)]
    client: KeyImage,
    #[n(1)]
    file: F,
    #[n(2)]
    user: SharedBytes,
    #[n(3)]
    count: u64,
    #[n(4)]
    phase: CopyPhaseImage,
    #[n(5)]
    begun: Option<ReferringImage>,
    #[cbor(n(6), with = "minicbor::bytes")]
    verifier: [u8; 8],
    #[n(7)]
    access: Option<Vec<StateRefImage>>,
    #[n(8)]
    revoked: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
enum CopyPhaseImage {
    #[n(0)]
    Waiting,
    #[n(1)]
    Stopped,
    /// It has ended with this status.
    #[n(2)]
    Ended(#[n(0)] u32),
}

impl<F> CopyTable<F> {
    pub(crate) fn image<G>(&self, name: impl Fn(&F) -> G) -> Result<TableImage<CopyImage<G>>, ImageError> {
        let Self { table, count: _ } = self;
        let image = table.image(|_, copy| {
            let CopyRecord { client, file, user, access, revoked, count, phase, begun, verifier } = copy;
            let phase = match *phase {
                CopyPhase::Waiting => CopyPhaseImage::Waiting,
                CopyPhase::Copying | CopyPhase::Cancelled => return Err(ImageError::Busy("a copy")),
                CopyPhase::Stopped => CopyPhaseImage::Stopped,
                CopyPhase::Ended(status) => CopyPhaseImage::Ended(status as u32),
            };
            Ok(CopyImage {
                client: client.0.into(),
                file: name(file),
                user: SharedBytes(Arc::clone(&user.0)),
                count: *count,
                phase,
                begun: begun.map(ReferringImage::of),
                verifier: *verifier,
                access: Some(access.iter().copied().filter_map(StateRefImage::of).collect()),
                revoked: Some(*revoked),
            })
        });
        image.try_map(|_, copy: Result<_, ImageError>| copy)
    }

    pub(crate) fn restore<G>(
        image: TableImage<CopyImage<G>>,
        clients: &RestoredClients,
        mut name: impl FnMut(G) -> Result<F, ImageError>,
    ) -> Result<Self, ImageError> {
        let table = Table::restore(image, |key, copy: CopyImage<G>| {
            let client = copy.client.into();
            clients.get(client)?.record.lock_any(&mut Held::nothing()).copies.insert(key);
            let status =
                |status| Nfsstat4::from_u32(status).ok_or(ImageError::Inconsistent("a copy's status"));
            Ok(CopyRecord {
                client: ClientKey(client),
                file: name(copy.file)?,
                user: Principal(copy.user.0),
                access: copy.access.into_iter().flatten().map(StateRef::from).collect(),
                revoked: copy.revoked.unwrap_or(false),
                count: copy.count,
                phase: match copy.phase {
                    CopyPhaseImage::Waiting => CopyPhase::Waiting,
                    CopyPhaseImage::Stopped => CopyPhase::Stopped,
                    CopyPhaseImage::Ended(number) => CopyPhase::Ended(status(number)?),
                },
                begun: copy.begun.map(ReferringCall::from),
                verifier: copy.verifier,
            })
        })?;
        Ok(Self { count: AtomicUsize::new(table.len()), table })
    }
}
