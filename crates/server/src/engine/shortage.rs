//! What runs short is taken first from clients whose leases have run out (RFC 8881 section 8.4.3):
//! a removed file that such a client has open still fills the disk, and its descriptors are missing
//! to others.

use super::{Compound, DeferReason, Fh, FileKey, OpResult};

/// What a backend has run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Space or quota of a file system. An operation that fails for it has changed nothing, and may
    /// be run again.
    Space,
    /// Descriptors or memory of the server.
    Descriptors,
}

/// Clients that go together when descriptors run short.
const RELEASED_MAX: usize = 16;

/// Where clients have the files open that are to be closed.
enum Where {
    Anywhere,
    FileSystemOf(FileKey),
    Nowhere,
}

impl Compound<'_> {
    /// Runs something, and where it fails for lack of space, again as often as clients give way
    /// whose leases have run out: first one, the next time twice as many.
    ///
    /// # Errors
    /// Those of `run`, and [`OpStop::Deferred`].
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
                    // What was done so far need not be harmless to repeat: the client comes again.
                    self.expired_release(RELEASED_MAX, Where::Anywhere)?;
                    return Err(stop);
                }
                _ => return Err(stop),
            }
        }
    }

    /// A file of the file system that is full.
    fn full_space(&self) -> Where {
        match &self.progress.current {
            Some(Fh::Object(object)) => Where::FileSystemOf(object.key()),
            _ => Where::Nowhere,
        }
    }

    /// Ends what up to `count` clients hold whose leases have run out, of those that have files
    /// open, or files of one file system. Tells whether there were any.
    ///
    /// # Errors
    /// [`OpStop::Deferred`], since files are closed and records go from stable storage.
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

    /// Makes room for one more open, where the server's limit was in the way.
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
