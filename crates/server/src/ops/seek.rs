//! SEEK (RFC 7862 section 15.11).

use crate::engine::{Compound, OpResult};
use nfs4::{DataContent4, Nfsstat4, Stateid4};
use vfs::Extent;
use xdr::{Decode, Decoder, Encoder};

/// Finds the next data or hole. sr_eof is set where only the end of the file is found, including
/// its virtual hole.
///
/// # Errors
/// The errors of stateids, NFS4ERR_LOCKED, NFS4ERR_NXIO for an offset beyond the
/// end of the file, NFS4ERR_UNION_NOTSUPP for a content type other than data or hole, and the
/// backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let (stateid, from, what) = (Stateid4::decode(args)?, args.u64()?, args.u32()?);
    // Decoded by hand: an unknown content type is not an error of the encoding.
    let what = match DataContent4::from_u32(what) {
        Some(DataContent4::NFS4_CONTENT_DATA) => Extent::Data,
        Some(DataContent4::NFS4_CONTENT_HOLE) => Extent::Hole,
        None => return Err(Nfsstat4::NFS4ERR_UNION_NOTSUPP.into()),
    };
    let file = c.file_to_read(stateid)?;
    let found = file.seek(what, from)?;
    let size = file.getattr()?.size;
    let offset = found.unwrap_or(size);
    reply.boolean(offset >= size).u64(offset);
    Ok(())
}
