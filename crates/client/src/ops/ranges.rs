//! ALLOCATE, DEALLOCATE, SEEK, READ_PLUS, IO_ADVISE, COPY and CLONE of NFSv4.2: blocking.

use nfs4::*;

use crate::client::Client;
use crate::error::Error;

/// A place in an open file.
#[derive(Clone, Copy, Debug)]
pub struct FilePosition<'a> {
    /// The file.
    pub handle: &'a [u8],
    /// Of an open that allows what is done.
    pub stateid: Stateid4,
    /// Where it begins, in bytes.
    pub offset: u64,
}

impl Client {
    /// Reserves space for a range; the file grows to hold it.
    ///
    /// # Errors
    /// Those of ALLOCATE.
    pub fn allocate(&mut self, at: FilePosition<'_>, length: u64) -> Result<(), Error> {
        let args = Allocate4Args { aa_stateid: at.stateid, aa_offset: at.offset, aa_length: length };
        self.change_file(at.handle, &NfsArgop4::OP_ALLOCATE(args), NfsOpnum4::OP_ALLOCATE)
    }

    /// Makes a hole of a range.
    ///
    /// # Errors
    /// Those of DEALLOCATE.
    pub fn deallocate(&mut self, at: FilePosition<'_>, length: u64) -> Result<(), Error> {
        let args = Deallocate4Args { da_stateid: at.stateid, da_offset: at.offset, da_length: length };
        self.change_file(at.handle, &NfsArgop4::OP_DEALLOCATE(args), NfsOpnum4::OP_DEALLOCATE)
    }

    fn change_file(
        &mut self,
        handle: &[u8],
        operation: &NfsArgop4<'_>,
        number: NfsOpnum4,
    ) -> Result<(), Error> {
        self.perform(
            |compound| {
                compound.putfh(handle).change(operation);
            },
            |reply| reply.results().done(NfsOpnum4::OP_PUTFH)?.done(number).map(drop),
        )
    }

    /// Finds the next data or hole; says whether only the end of the file was found.
    ///
    /// # Errors
    /// Those of SEEK; NFS4ERR_NXIO behind the end.
    pub fn seek(&mut self, at: FilePosition<'_>, what: DataContent4) -> Result<SeekRes4, Error> {
        let args = Seek4Args { sa_stateid: at.stateid, sa_offset: at.offset, sa_what: what };
        self.perform(
            |compound| {
                compound.putfh(at.handle).operation(&NfsArgop4::OP_SEEK(args));
            },
            |reply| reply.results().done(NfsOpnum4::OP_PUTFH)?.take(NfsOpnum4::OP_SEEK),
        )
    }

    /// Reads at most `count` bytes as data and holes.
    ///
    /// # Errors
    /// Those of READ_PLUS.
    pub fn read_plus(&mut self, at: FilePosition<'_>, count: u32) -> Result<ReadPlusRes4<'static>, Error> {
        let args = ReadPlus4Args { rpa_stateid: at.stateid, rpa_offset: at.offset, rpa_count: count };
        self.perform(
            |compound| {
                compound.putfh(at.handle).operation(&NfsArgop4::OP_READ_PLUS(args));
            },
            |reply| {
                let mut results = reply.results();
                let result: ReadPlusRes4<'_> =
                    results.done(NfsOpnum4::OP_PUTFH)?.take(NfsOpnum4::OP_READ_PLUS)?;
                Ok(result.into_owned())
            },
        )
    }

    /// Gives advice on a range, IO_ADVISE_type4 as bits; returns which of it the server follows.
    ///
    /// # Errors
    /// Those of IO_ADVISE.
    pub fn advise(&mut self, at: FilePosition<'_>, count: u64, hints: Bitmap4) -> Result<Bitmap4, Error> {
        let args = IoAdvise4Args {
            iaa_stateid: at.stateid,
            iaa_offset: at.offset,
            iaa_count: count,
            iaa_hints: hints,
        };
        self.perform(
            |compound| {
                compound.putfh(at.handle).operation(&NfsArgop4::OP_IO_ADVISE(args));
            },
            |reply| {
                let mut results = reply.results();
                let result: IoAdvise4Resok =
                    results.done(NfsOpnum4::OP_PUTFH)?.take(NfsOpnum4::OP_IO_ADVISE)?;
                Ok(result.ior_hints)
            },
        )
    }

    /// Has the server copy bytes from file to file, 0 meaning all up to the source's end, and waits
    /// for that. It may copy fewer: `cr_response.wr_count` says.
    ///
    /// # Errors
    /// Those of COPY.
    pub fn copy(
        &mut self,
        from: FilePosition<'_>,
        to: FilePosition<'_>,
        count: u64,
    ) -> Result<Copy4Resok, Error> {
        self.copy_with(from, to, count, true)
    }

    /// As [`Client::copy`], but lets the server answer before it is done: then there is a
    /// `wr_callback_id`, and CB_OFFLOAD tells of the end (see [`Client::on_callback`]).
    ///
    /// # Errors
    /// Those of COPY.
    pub fn begin_copy(
        &mut self,
        from: FilePosition<'_>,
        to: FilePosition<'_>,
        count: u64,
    ) -> Result<Copy4Resok, Error> {
        self.copy_with(from, to, count, false)
    }

    /// Asks how far a copy has come, and how it ended if it has.
    ///
    /// # Errors
    /// Those of OFFLOAD_STATUS.
    pub fn copy_status(&mut self, handle: &[u8], stateid: Stateid4) -> Result<OffloadStatus4Resok, Error> {
        let operation = NfsArgop4::OP_OFFLOAD_STATUS(OffloadStatus4Args { osa_stateid: stateid });
        self.perform(
            |compound| {
                compound.putfh(handle).operation(&operation);
            },
            |reply| reply.results().done(NfsOpnum4::OP_PUTFH)?.take(NfsOpnum4::OP_OFFLOAD_STATUS),
        )
    }

    /// Stops a copy.
    ///
    /// # Errors
    /// Those of OFFLOAD_CANCEL.
    pub fn cancel_copy(&mut self, handle: &[u8], stateid: Stateid4) -> Result<(), Error> {
        let operation = NfsArgop4::OP_OFFLOAD_CANCEL(OffloadCancel4Args { oca_stateid: stateid });
        self.change_file(handle, &operation, NfsOpnum4::OP_OFFLOAD_CANCEL)
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
        let operation = NfsArgop4::OP_COPY(args);
        self.perform(
            |compound| {
                compound.putfh(from.handle).savefh().putfh(to.handle).change(&operation);
            },
            |reply| {
                let mut results = reply.results();
                results.done(NfsOpnum4::OP_PUTFH)?.done(NfsOpnum4::OP_SAVEFH)?;
                results.done(NfsOpnum4::OP_PUTFH)?.take(NfsOpnum4::OP_COPY)
            },
        )
    }

    /// Makes a range share another file's blocks, 0 meaning all up to the source's end.
    ///
    /// # Errors
    /// Those of CLONE.
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
        self.perform(
            |compound| {
                compound.putfh(from.handle).savefh().putfh(to.handle).change(&NfsArgop4::OP_CLONE(args));
            },
            |reply| {
                let mut results = reply.results();
                results.done(NfsOpnum4::OP_PUTFH)?.done(NfsOpnum4::OP_SAVEFH)?;
                results.done(NfsOpnum4::OP_PUTFH)?.done(NfsOpnum4::OP_CLONE).map(drop)
            },
        )
    }
}
