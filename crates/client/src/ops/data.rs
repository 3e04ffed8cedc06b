//! READ, WRITE and COMMIT: blocking, and submitted for the fast path.

use nfs4::*;

use crate::client::Client;
use crate::engine::{CallOptions, Ticket};
use crate::error::Error;
use crate::reply::Reply;

impl Client {
    /// Reads at most `count` bytes at `offset`. Returns the data and whether it reaches the end of
    /// the file. The server may return fewer bytes.
    pub fn read(
        &mut self,
        handle: &[u8],
        stateid: Stateid4,
        offset: u64,
        count: u32,
    ) -> Result<(Vec<u8>, bool), Error> {
        self.perform(
            |compound| compound.putfh(handle).read(stateid, offset, count),
            |reply| read_result(reply).map(|result| (result.data.to_vec(), result.eof)),
        )
    }

    /// Writes `data` at `offset`. The server may write fewer bytes.
    pub fn write(
        &mut self,
        handle: &[u8],
        stateid: Stateid4,
        offset: u64,
        stable: StableHow4,
        data: &[u8],
    ) -> Result<Write4Resok, Error> {
        self.perform(|compound| compound.putfh(handle).write(stateid, offset, stable, data), write_result)
    }

    /// Commits written data; a `count` of 0 commits everything behind `offset`. Returns the write
    /// verifier: if it differs from that of the WRITEs, they have to be repeated.
    pub fn commit(&mut self, handle: &[u8], offset: u64, count: u32) -> Result<[u8; 8], Error> {
        let operation = NfsArgop4::OP_COMMIT(Commit4Args { offset, count });
        self.on(handle, &operation, |results, number| Ok(results.take::<Commit4Resok>(number)?.writeverf))
    }

    /// Submits PUTFH and READ; [`read_result`] reads the reply.
    ///
    /// # Errors
    /// The same as [`Client::submit`].
    pub fn submit_read(
        &mut self,
        handle: &[u8],
        stateid: Stateid4,
        offset: u64,
        count: u32,
        options: CallOptions,
    ) -> Result<Ticket, Error> {
        let mut compound = self.compound();
        compound.putfh(handle).read(stateid, offset, count);
        self.submit_with(compound, options)
    }

    /// Submits PUTFH and WRITE, copying the data once; [`write_result`] reads the reply.
    ///
    /// # Errors
    /// The same as [`Client::submit`].
    pub fn submit_write(
        &mut self,
        handle: &[u8],
        stateid: Stateid4,
        offset: u64,
        stable: StableHow4,
        data: &[u8],
        options: CallOptions,
    ) -> Result<Ticket, Error> {
        let mut compound = self.compound();
        compound.putfh(handle).write(stateid, offset, stable, data);
        self.submit_with(compound, options)
    }
}

/// Reads the reply to [`Client::submit_read`], borrowing the data from the record.
pub fn read_result(reply: &Reply) -> Result<Read4Resok<'_>, Error> {
    reply.results().done(NfsOpnum4::OP_PUTFH)?.take(NfsOpnum4::OP_READ)
}

/// Reads the reply to [`Client::submit_write`].
pub fn write_result(reply: &Reply) -> Result<Write4Resok, Error> {
    reply.results().done(NfsOpnum4::OP_PUTFH)?.take(NfsOpnum4::OP_WRITE)
}
