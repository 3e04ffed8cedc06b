//! One blocking method per operation, as one COMPOUND with a typed result.
//!
//! A method fails with the errors of its operation (RFC 8881 section 15.2) and of [`Client::call`].
//! Methods with other errors, or with a status that has a meaning of its own, name them.

mod attributes;
mod data;
mod directory;
mod locks;
mod open;
mod ranges;
mod security;
mod xattrs;

pub use attributes::Attributes;
pub use data::{read_result, write_result};
pub use directory::Entry;
pub use locks::{Denial, Lock};
pub use open::{Create, OpenFile, OpenHow};
pub use ranges::FilePosition;
pub use security::flavor_of;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nfs4::{Getattr4Resok, Getfh4Resok, NfsArgop4, NfsFh4, NfsOpnum4};

use crate::client::Client;
use crate::compound::Compound;
use crate::engine::Ticket;
use crate::error::Error;
use crate::options::Options;
use crate::reply::{Reply, Results};

/// A filehandle of the server.
pub type Handle = NfsFh4<'static>;

/// The delay before a retry after NFS4ERR_DELAY.
const DELAY: Duration = Duration::from_millis(20);

/// The time for which calls are retried after [`Options::stop`](crate::Options::stop): enough for
/// the recall of a delegation, so that a program can still remove its files.
const STOPPED_DELAY_MAX: Duration = Duration::from_secs(1);

impl Client {
    /// Calls the COMPOUND that `build` creates and reads its reply with `read`. Retries for up to
    /// [`Options::delay_max`](crate::Options::delay_max) while the server asks the client to try
    /// later.
    ///
    /// # Errors
    /// Any error of the call or of `read`.
    pub fn perform<T>(
        &mut self,
        build: impl Fn(&mut Compound) -> &mut Compound,
        read: impl Fn(&Reply) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let build = |compound: &mut Compound| {
            build(compound);
        };
        let ticket = self.submit_built(&build)?;
        self.conclude(ticket, build, read)
    }

    /// Waits for the reply to a submitted COMPOUND and reads it with `read`. Calls the COMPOUND
    /// that `again` creates, as [`Client::perform`] does, while the server asks the client to try
    /// later.
    ///
    /// # Errors
    /// Any error of the call or of `read`.
    pub fn conclude<T>(
        &mut self,
        ticket: Ticket,
        again: impl Fn(&mut Compound),
        mut read: impl FnMut(&Reply) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (begun, mut ticket) = (Instant::now(), ticket);
        loop {
            let result = self.wait(ticket).and_then(|reply| {
                let result = read(&reply);
                self.recycle(reply);
                result
            });
            match result {
                Err(error) if error.is_temporary() && begun.elapsed() < self.delay_max() => {
                    self.engine.statistics.delays += 1;
                    std::thread::sleep(DELAY);
                    ticket = self.submit_built(&again)?;
                }
                other => return other,
            }
        }
    }

    fn submit_built(&mut self, build: &impl Fn(&mut Compound)) -> Result<Ticket, Error> {
        let mut compound = self.compound();
        build(&mut compound);
        self.submit(compound)
    }

    /// Returns for how long a call is retried at most.
    fn delay_max(&self) -> Duration {
        let Options { delay_max, stop, .. } = self.options();
        match stop {
            Some(stop) if stop.load(Ordering::Relaxed) => STOPPED_DELAY_MAX.min(*delay_max),
            _ => *delay_max,
        }
    }

    /// Calls PUTFH and an operation, and reads the result of the operation with `read`.
    fn on<T>(
        &mut self,
        handle: &[u8],
        operation: &NfsArgop4<'_>,
        read: impl Fn(&mut Results<'_>, NfsOpnum4) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.perform(
            |compound| compound.putfh(handle).operation(operation),
            |reply| read(reply.results().done(NfsOpnum4::OP_PUTFH)?, operation.discriminant()),
        )
    }
}

/// Reads the results of GETFH and GETATTR.
fn handle_and_attributes(results: &mut Results<'_>) -> Result<(Handle, Attributes), Error> {
    let handle = results.take::<Getfh4Resok<'_>>(NfsOpnum4::OP_GETFH)?.into_owned().object;
    let attributes = results.take::<Getattr4Resok<'_>>(NfsOpnum4::OP_GETATTR)?.into_owned().obj_attributes;
    Ok((handle, Attributes(attributes)))
}
