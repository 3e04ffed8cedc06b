//! A way for files to get to the server and back: the project's client, cp on a mount, or scp.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::{CpuUse, Pattern};

/// The figures of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Carried {
    /// How long it took, from its beginning until the data was where it belongs.
    pub time: Duration,
    /// Processor time of both ends.
    pub used: CpuUse,
}

impl Carried {
    /// Adds the figures of the next copy.
    pub fn add(&mut self, other: Self) {
        let sum = |own: Option<Duration>, more: Option<Duration>| own.zip(more).map(|(own, more)| own + more);
        self.time += other.time;
        self.used.client = sum(self.used.client, other.used.client);
        self.used.server = sum(self.used.server, other.used.server);
        self.used.machine = sum(self.used.machine, other.used.machine);
        self.used.stages = match (self.used.stages, other.used.stages) {
            (Some(own), Some(more)) => Some(own.and(&more)),
            (own, more) => own.or(more),
        };
    }

    /// Returns the start value of a sum.
    pub fn nothing() -> Self {
        let zero = Some(Duration::ZERO);
        Self {
            time: Duration::ZERO,
            used: CpuUse { client: zero, server: zero, machine: zero, stages: None },
        }
    }
}

/// A variant of the comparison. Names are files and folders in its own folder at the server.
///
/// # Errors
/// Every method fails with the error of the server, the system, or the program that copies.
pub trait Carrier {
    /// Copies a file, or a folder with its files, to the server as `name`. `None` when `stop` was
    /// set meanwhile.
    fn put(&mut self, source: &Path, name: &str, stop: &AtomicBool) -> Result<Option<Carried>>;

    /// Compares the copy `name` with its source. Not timed.
    ///
    /// # Errors
    /// Names the first difference.
    fn compare(&mut self, source: &Path, name: &str, stop: &AtomicBool) -> Result<()>;

    /// Reads the file `name` and checks that it holds the pattern. `None` when `stop` was set
    /// meanwhile.
    ///
    /// # Errors
    /// The server's, wrong data, or that this way does not read.
    fn get(&mut self, _name: &str, _pattern: Pattern, _stop: &AtomicBool) -> Result<Option<Carried>> {
        bail!("this way only copies to the server")
    }

    /// Drops the client's cache of the file `name`, if it has one.
    fn forget(&mut self, _name: &str) -> Result<()> {
        Ok(())
    }

    /// Returns where the file `name` is on this machine's disks beneath the server, where that is
    /// known.
    fn beneath(&self, _name: &str) -> Option<PathBuf> {
        None
    }

    /// Returns the free bytes at the destination; `None` if the server does not report them.
    fn free(&mut self) -> Result<Option<u64>>;

    /// Removes a copy. One that is not there is no error. Not timed.
    fn remove(&mut self, name: &str) -> Result<()>;

    /// Abandons the session after a failure, and removes its files if it can; returns false if some
    /// remain.
    ///
    /// # Errors
    /// When the server is gone.
    fn give_up(&mut self) -> Result<bool> {
        Ok(self.finish().is_ok())
    }

    /// Removes all that it has made at the server, and ends.
    fn finish(&mut self) -> Result<()>;
}
