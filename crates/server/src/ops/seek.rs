//! SEEK (RFC 7862 section 15.11).

use crate::engine::{Compound, OpResult};
use nfs4::{DataContent4, Seek4Args};
use vfs::Extent;
use xdr::{Decode, Decoder, Encoder};

/// Finds the next data or hole. Where only the end of the file is found, its virtual hole included, sr_eof says so.
///
/// # Errors
/// Those of stateids, NFS4ERR_OPENMODE, NFS4ERR_LOCKED, NFS4ERR_NXIO for an offset that is not in the file, and the
/// backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Seek4Args::decode(args)?;
    let file = c.file_to_read(args.sa_stateid)?;
    let what = match args.sa_what {
        DataContent4::NFS4_CONTENT_DATA => Extent::Data,
        DataContent4::NFS4_CONTENT_HOLE => Extent::Hole,
    };
    let found = file.seek(what, args.sa_offset)?;
    let size = file.getattr()?.size;
    let offset = found.unwrap_or(size);
    reply.boolean(offset >= size).u64(offset);
    Ok(())
}
