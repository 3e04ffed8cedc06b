//! READ (RFC 8881 section 18.22).

use crate::engine::{Compound, OpResult};
use nfs4::Read4Args;
use vfs::OpenFile;
use xdr::{Decode, Decoder, Encoder};

/// Bytes of READ4resok before the data: eof and length.
const HEADER: usize = 8;
/// Bytes of padding behind the data, at most.
const PADDING: usize = 3;
/// Room kept behind the data for later operations and the trailer of RPCSEC_GSS: without it a reply with much
/// data would be moved once more as a whole.
const TAIL: usize = 512;
/// Offsets from here on lie behind the end of any file.
const OFFSET_MAX: u64 = i64::MAX as u64;

/// Reads straight into the reply.
///
/// # Errors
/// Those of stateids, NFS4ERR_OPENMODE, NFS4ERR_LOCKED, NFS4ERR_REP_TOO_BIG, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Read4Args::decode(args)?;
    let file = c.file_to_read(args.stateid)?;
    let room = c.room(reply).saturating_sub(HEADER + PADDING);
    let wanted = args.count.min(c.nfs.config.read_max);
    let wanted = u64::from(wanted).min(OFFSET_MAX.saturating_sub(args.offset));
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let start = reply.len();
    reply.boolean(true).u32(0);
    let read = read_at(&*file, args.offset, wanted.min(room), reply)?;
    let eof = is_eof(&*file, &args, read, wanted.min(room))?;
    if !eof && read < wanted {
        return Err(c.too_big().into());
    }
    reply.patch_u32(start, eof.into());
    reply.patch_u32(start + 4, u32::try_from(read).unwrap_or(u32::MAX));
    Ok(())
}

/// Appends at most `count` bytes of the file and their padding to the reply.
fn read_at(file: &dyn OpenFile, offset: u64, count: usize, reply: &mut Encoder) -> vfs::VfsResult<usize> {
    if count == 0 {
        return Ok(0);
    }
    let bytes = reply.as_mut_vec();
    let start = bytes.len();
    bytes.reserve(count.saturating_add(TAIL));
    bytes.resize(start + count, 0);
    let read = file.read_at(bytes.get_mut(start..).unwrap_or_default(), offset)?;
    reply.truncate(start + read);
    reply.pad(read);
    Ok(read)
}

/// Whether the end of the file was reached: fewer bytes than asked for say so by themselves, an exact fit has
/// to be held against the size.
fn is_eof(file: &dyn OpenFile, args: &Read4Args, read: usize, asked: usize) -> vfs::VfsResult<bool> {
    if read < asked || args.offset >= OFFSET_MAX {
        return Ok(true);
    }
    let end = args.offset.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
    Ok(end >= file.getattr()?.size)
}
