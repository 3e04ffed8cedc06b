//! librados: objects of a pool, and commands for the monitors.
//!
//! [`Rados::load`] loads the library, [`RadosCluster::connect`] connects to a cluster, and a
//! [`RadosPool`] reads and writes objects in atomic steps. A call waits for the cluster as long as
//! [`RadosOptions::timeout`] says, and then fails with `ETIMEDOUT`.
#![allow(unsafe_code, reason = "C functions of Ceph's library")]

mod connection;
mod pool;
mod raw;
mod watch;

pub use connection::{RadosCluster, RadosError, RadosOptions};
pub use pool::{ObjectContent, OmapEntry, RadosPool, WriteStep};
pub use watch::ObjectWatch;

use crate::LibraryError;
use std::sync::OnceLock;

/// librados, loaded at run time.
#[derive(Clone, Copy, Debug)]
pub struct Rados(&'static raw::RadosFunctions);

impl Rados {
    /// Loads the library, once for the process.
    ///
    /// # Errors
    /// A library that is missing or too old, with the package to install.
    pub fn load() -> Result<Self, LibraryError> {
        static LOADED: OnceLock<Result<raw::RadosFunctions, LibraryError>> = OnceLock::new();
        match LOADED.get_or_init(raw::RadosFunctions::find) {
            Ok(functions) => Ok(Self(functions)),
            Err(error) => Err(error.clone()),
        }
    }
}
