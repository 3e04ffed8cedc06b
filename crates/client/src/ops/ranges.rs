//! Blocking ALLOCATE, DEALLOCATE, SEEK, READ_PLUS, IO_ADVISE, COPY and CLONE of NFSv4.2.

use nfs4::*;

use crate::client::Client;
use crate::error::Error;
use crate::reply::{Results, nothing};

/// A position in an open file.
#[derive(Clone, Copy, Debug)]
pub struct FilePosition<'a> {
    /// The filehandle of the file.
    pub handle: &'a [u8],
    /// The stateid of an open that permits the operation.
    pub stateid: Stateid4,
    /// Offset of the range, in bytes.
    pub offset: u64,
}

impl Client {
    /// Reserves space for a range, and extends the file if necessary.
    pub fn allocate(&mut self, at: FilePosition<'_>, length: u64) -> Result<(), Error> {
        let args = Allocate4Args { aa_stateid: at.stateid, aa_offset: at.offset, aa_length: length };
        self.on(at.handle, &NfsArgop4::OP_ALLOCATE(args), nothing)
    }

    /// Punches a hole into a range.
    pub fn deallocate(&mut self, at: FilePosition<'_>, length: u64) -> Result<(), Error> {
        let args = Deallocate4Args { da_stateid: at.stateid, da_offset: at.offset, da_length: length };
        self.on(at.handle, &NfsArgop4::OP_DEALLOCATE(args), nothing)
    }

    /// Finds the next data or hole. The result says whether only the end of the file was found.
    ///
    /// # Errors
    /// The errors of SEEK; NFS4ERR_NXIO beyond the end.
    pub fn seek(&mut self, at: FilePosition<'_>, what: DataContent4) -> Result<SeekRes4, Error> {
        let args = Seek4Args { sa_stateid: at.stateid, sa_offset: at.offset, sa_what: what };
        self.on(at.handle, &NfsArgop4::OP_SEEK(args), |results, number| results.take(number))
    }

    /// Reads at most `count` bytes as segments of data and holes.
    pub fn read_plus(&mut self, at: FilePosition<'_>, count: u32) -> Result<ReadPlusRes4<'static>, Error> {
        let args = ReadPlus4Args { rpa_stateid: at.stateid, rpa_offset: at.offset, rpa_count: count };
        self.on(at.handle, &NfsArgop4::OP_READ_PLUS(args), |results, number| {
            Ok(results.take::<ReadPlusRes4<'_>>(number)?.into_owned())
        })
    }

    /// Sends IO_ADVISE_type4 hints for a range; returns the subset that the server follows.
    pub fn advise(&mut self, at: FilePosition<'_>, count: u64, hints: Bitmap4) -> Result<Bitmap4, Error> {
        let args = IoAdvise4Args {
            iaa_stateid: at.stateid,
            iaa_offset: at.offset,
            iaa_count: count,
            iaa_hints: hints,
        };
        self.on(at.handle, &NfsArgop4::OP_IO_ADVISE(args), |results, number| {
            Ok(results.take::<IoAdvise4Resok>(number)?.ior_hints)
        })
    }

    /// Copies bytes from file to file on the server and waits for the end; a length of 0 means up
    /// to the end of the source. The server may copy fewer bytes: see `cr_response.wr_count`.
    pub fn copy(
        &mut self,
        from: FilePosition<'_>,
        to: FilePosition<'_>,
        count: u64,
    ) -> Result<Copy4Resok, Error> {
        self.copy_with(from, to, count, true)
    }

    /// Copies like [`Client::copy`], but permits an asynchronous copy. Then the result has a
    /// `wr_callback_id`, and CB_OFFLOAD reports the end (see [`Client::on_callback`]).
    pub fn begin_copy(
        &mut self,
        from: FilePosition<'_>,
        to: FilePosition<'_>,
        count: u64,
    ) -> Result<Copy4Resok, Error> {
        self.copy_with(from, to, count, false)
    }

    /// Returns the progress of an asynchronous copy, and its status if it has ended.
    pub fn copy_status(&mut self, handle: &[u8], stateid: Stateid4) -> Result<OffloadStatus4Resok, Error> {
        let operation = NfsArgop4::OP_OFFLOAD_STATUS(OffloadStatus4Args { osa_stateid: stateid });
        self.on(handle, &operation, |results, number| results.take(number))
    }

    /// Cancels an asynchronous copy.
    pub fn cancel_copy(&mut self, handle: &[u8], stateid: Stateid4) -> Result<(), Error> {
        let operation = NfsArgop4::OP_OFFLOAD_CANCEL(OffloadCancel4Args { oca_stateid: stateid });
        self.on(handle, &operation, nothing)
    }

    fn copy_with(
        &mut self,
        from: FilePosition<'_>,
        to: FilePosition<'_>,
        count: u64,
        synchronous: bool,
    ) -> Result<Copy4Resok, Error> {
        let args = Copy4Args {
            ca_src_stateid: from.stateid,
            ca_dst_stateid: to.stateid,
            ca_src_offset: from.offset,
            ca_dst_offset: to.offset,
            ca_count: count,
            ca_consecutive: true,
            ca_synchronous: synchronous,
            ca_source_server: Vec::new(),
        };
        self.between(from, to, &NfsArgop4::OP_COPY(args), |results, number| results.take(number))
    }

    /// Calls an operation from the saved filehandle to the current one.
    fn between<T>(
        &mut self,
        from: FilePosition<'_>,
        to: FilePosition<'_>,
        operation: &NfsArgop4<'_>,
        read: impl Fn(&mut Results<'_>, NfsOpnum4) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.perform(
            |compound| compound.putfh(from.handle).savefh().putfh(to.handle).operation(operation),
            |reply| {
                let mut results = reply.results();
                results.done(NfsOpnum4::OP_PUTFH)?.done(NfsOpnum4::OP_SAVEFH)?;
                read(results.done(NfsOpnum4::OP_PUTFH)?, operation.discriminant())
            },
        )
    }

    /// Clones a range of another file by sharing its blocks; a length of 0 means up to the source's
    /// end.
    pub fn clone_range(
        &mut self,
        from: FilePosition<'_>,
        to: FilePosition<'_>,
        count: u64,
    ) -> Result<(), Error> {
        let args = Clone4Args {
            cl_src_stateid: from.stateid,
            cl_dst_stateid: to.stateid,
            cl_src_offset: from.offset,
            cl_dst_offset: to.offset,
            cl_count: count,
        };
        self.between(from, to, &NfsArgop4::OP_CLONE(args), nothing)
    }
}
