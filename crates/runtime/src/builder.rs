//! Builds a server from its exports and its environment.

use crate::{Executor, NfsService};
use identity::{Mapper, Rules, StaticSource};
use image::ImageError;
use server::dispatch::{Clock, Environment, Random, Server};
use server::engine::{
    ClientRecords, Nfs, NfsConfig, NfsImage, NfsParts, NoRecords, ObjectsIn, Resumed, Start,
};
use server::metrics::Metrics;
use server::rpcsec::{ContextAcceptor, ContextsImage, Identities, Rpcsec, RpcsecLimits};
use std::sync::Arc;
use vfs::Exports;

/// Wires the parts of a server. The program, the simulator, fuzz targets, benches and tests all use
/// it.
pub struct Builder {
    exports: Arc<Exports>,
    start: Start,
    clock: Box<Clock>,
    random: Arc<Random>,
    config: NfsConfig,
    identity: Arc<Mapper>,
    records: Box<dyn ClientRecords>,
    kerberos: Option<Kerberos>,
    real_time: bool,
}

/// The parts of a server that accepts Kerberos contexts.
struct Kerberos {
    acceptor: Box<dyn ContextAcceptor>,
    identities: Box<dyn Identities>,
    limits: RpcsecLimits,
}

impl Builder {
    /// Starts with a server that supports only AUTH_SYS, maps no names and keeps no client records.
    pub fn new(exports: Arc<Exports>, start: Start, environment: Environment) -> Self {
        let Environment { clock, random } = environment;
        Self {
            exports,
            start,
            clock,
            random: random.into(),
            config: NfsConfig::default(),
            identity: Arc::new(Mapper::new(Rules::default(), StaticSource::default())),
            records: Box::new(NoRecords),
            kerberos: None,
            real_time: false,
        }
    }

    /// Sets the server's names and limits.
    pub fn config(self, config: NfsConfig) -> Self {
        Self { config, ..self }
    }

    /// Maps the names of users and groups.
    pub fn identity(self, identity: Arc<Mapper>) -> Self {
        Self { identity, ..self }
    }

    /// Sets the store for the clients that may reclaim after a restart.
    pub fn records(self, records: Box<dyn ClientRecords>) -> Self {
        Self { records, ..self }
    }

    /// Accepts RPCSEC_GSS contexts of principals that `identities` maps.
    pub fn kerberos(
        self,
        acceptor: Box<dyn ContextAcceptor>,
        identities: Box<dyn Identities>,
        limits: RpcsecLimits,
    ) -> Self {
        Self { kerberos: Some(Kerberos { acceptor, identities, limits }), ..self }
    }

    /// Says that the environment's clock goes with real time. Without that, the time that records
    /// wait for a tick is not counted.
    pub fn real_time(self) -> Self {
        Self { real_time: true, ..self }
    }

    /// Builds only the engine, which runs COMPOUNDs.
    pub fn engine(self) -> Nfs {
        self.parts().0
    }

    /// Builds a server whose caller drives it tick by tick.
    pub fn server(mut self) -> Server<Nfs> {
        let (metrics, tenants) = (Arc::new(Metrics::default()), self.config.tenants.clone());
        let rpcsec = self.rpcsec(&metrics);
        let (engine, environment) = self.parts();
        Server::new(engine, rpcsec, environment, metrics, tenants)
    }

    /// Builds a server that goes on with images, and the parts that are to be resumed.
    pub(crate) fn restore(
        mut self,
        nfs: NfsImage,
        contexts: Option<ContextsImage>,
        objects: &mut dyn ObjectsIn,
    ) -> Result<(Server<Nfs>, Resumed), ImageError> {
        let (metrics, tenants) = (Arc::new(Metrics::default()), self.config.tenants.clone());
        let rpcsec = self.rpcsec(&metrics);
        let (parts, environment) = self.nfs_parts();
        if let (Some(rpcsec), Some(contexts)) = (&rpcsec, contexts) {
            rpcsec.restore(contexts, (environment.clock)())?;
        }
        let (engine, resumed) = Nfs::restore(nfs, parts, objects)?;
        Ok((Server::new(engine, rpcsec, environment, metrics, tenants), resumed))
    }

    /// Returns whether the environment's clock goes with real time.
    pub(crate) fn is_real_time(&self) -> bool {
        self.real_time
    }

    fn rpcsec(&mut self, metrics: &Arc<Metrics>) -> Option<Rpcsec> {
        self.kerberos.take().map(|Kerberos { acceptor, identities, limits }| {
            Rpcsec::new(acceptor, identities, limits, metrics.clone(), self.config.tenants.clone())
        })
    }

    fn nfs_parts(self) -> (NfsParts, Environment) {
        let Self { config, start, exports, identity, records, clock, random, .. } = self;
        let numbers = random.clone();
        let random_number = Box::new(move || number(&*numbers));
        let parts = NfsParts { config, start, exports, identity, records, random: random_number };
        (parts, Environment { clock, random: Box::new(move |bytes| random(bytes)) })
    }

    fn parts(self) -> (Nfs, Environment) {
        let (parts, environment) = self.nfs_parts();
        (Nfs::start(parts, (environment.clock)()), environment)
    }

    /// Builds the service for a network layer; `executor` runs deferred calls.
    pub fn service<E: Executor>(self, executor: &E) -> Arc<NfsService<E>> {
        let real_time = self.real_time;
        NfsService::start(self.server(), executor, real_time)
    }
}

/// Draws a random number from the environment.
fn number(random: &Random) -> u64 {
    let mut bytes = [0; 8];
    random(&mut bytes);
    u64::from_ne_bytes(bytes)
}
