//! Resources taken back from clients with expired leases (RFC 8881 section 8.4.3): a removed file
//! that such a client has open still fills the disk, and holds a descriptor.

use super::{Compound, DeferReason, Fh, FileKey, OpResult};

/// A resource that a backend lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Space or quota of a file system. An operation that fails for it has changed nothing, and may
    /// run again.
    Space,
    /// File descriptors or memory of the server process.
    Descriptors,
}

/// Clients released at once when descriptors run short.
const RELEASED_MAX: usize = 16;

/// The files whose holders give way.
enum Where {
    Anywhere,
    FileSystemOf(FileKey),
    Nowhere,
}

impl Compound<'_> {
    /// Runs a step. If it fails for lack of space, clients with expired leases are released and it
    /// runs again: first one client, then twice as many each time.
    ///
    /// # Errors
    /// The errors of `run`, and [`OpStop::Deferred`].
    pub fn with_room<R>(&mut self, mut run: impl FnMut(&mut Self) -> OpResult<R>) -> OpResult<R> {
        let mut count = 1;
        loop {
            let stop = match run(self) {
                Ok(done) => return Ok(done),
                Err(stop) => stop,
            };
            match stop.shortage() {
                Some(Shortage::Space) if self.expired_release(count, self.full_space())? => {
                    count *= 2;
                }
                Some(Shortage::Descriptors) => {
                    // The step may not be idempotent, so it is left to the client to retry.
                    self.expired_release(RELEASED_MAX, Where::Anywhere)?;
                    return Err(stop);
                }
                _ => return Err(stop),
            }
        }
    }

    /// Returns the file system of the current filehandle, which is full.
    fn full_space(&self) -> Where {
        match &self.progress.current {
            Some(Fh::Object(object)) => Where::FileSystemOf(object.key()),
            _ => Where::Nowhere,
        }
    }

    /// Releases all state of up to `count` clients with expired leases that have files open,
    /// anywhere or on one file system. Returns whether there were any.
    ///
    /// # Errors
    /// [`OpStop::Deferred`], since files are closed and records are removed from stable storage.
    fn expired_release(&self, count: usize, place: Where) -> OpResult<bool> {
        let meant = |file: &FileKey| match &place {
            Where::Anywhere => true,
            Where::FileSystemOf(key) => file.shares_space_with(key),
            Where::Nowhere => false,
        };
        if !self.state().leases().has_expired(self.now(), meant) {
            return Ok(false);
        }
        if !self.may_wait() {
            return Err(DeferReason::CurrentExport.into());
        }
        let released = self
            .with_effects(|state, effects| state.leases().release_expired(self.now(), count, meant, effects));
        if released > 0 {
            tracing::info!(clients = released, "clients with expired leases gave way to a shortage");
        }
        Ok(released > 0)
    }

    /// Makes room for one more open after the server's limit was reached.
    ///
    /// # Errors
    /// As [`Compound::with_room`].
    pub fn expired_make_room_for_open(&self) -> OpResult<bool> {
        if !self.state().leases().has_expired(self.now(), |_| true) {
            return Ok(false);
        }
        if !self.may_wait() {
            return Err(DeferReason::CurrentExport.into());
        }
        Ok(self.with_effects(|state, effects| {
            state.clients().make_room_for_open(self.now(), &self.sender(), effects)
        }))
    }
}
