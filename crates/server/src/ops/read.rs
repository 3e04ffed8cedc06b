//! READ (RFC 8881 section 18.22).

use crate::engine::{Compound, DeferReason, OpResult};
use nfs4::{Nfsstat4, Read4Args};
use vfs::{Eof, FileData, OFFSET_MAX, OpenFile};
use xdr::{Decode, Decoder, Encoder};

/// Bytes of READ4resok before the data: eof and length.
const HEADER: usize = 8;
/// Largest padding behind the data, in bytes.
const PADDING: usize = 3;
/// Bytes reserved behind the data for later operations and the trailer of RPCSEC_GSS. Without them
/// a large reply would be moved once more as a whole.
const TAIL: usize = 512;
/// Reads directly into the reply; where blocking is not allowed, only cached data.
///
/// # Errors
/// The errors of stateids, NFS4ERR_LOCKED, NFS4ERR_REP_TOO_BIG, and the
/// backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Read4Args::decode(args)?;
    let file = c.file_to_read(args.stateid)?;
    let room = c.room(reply).saturating_sub(HEADER + PADDING);
    let wanted = args.count.min(c.nfs.config.read_max);
    let wanted = u64::from(wanted).min(OFFSET_MAX.saturating_sub(args.offset));
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let count = wanted.min(room);
    if c.may_attach(count) && pipes::FileData::fits(args.offset, count) {
        wait_for_pages(c, &*file, args.offset, count)?;
        if let Some((data, eof)) = file.splice_at(count, args.offset)? {
            return attach(c, reply, data, eof, wanted);
        }
    }
    let start = reply.len();
    reply.boolean(true).u32(0);
    let bytes = reply.as_mut_vec();
    rpc::memory::reserve(bytes, count.saturating_add(TAIL));
    let eof = match c.may_wait() {
        true => file.read_at(bytes, count, args.offset)?,
        false => file.read_now(bytes, count, args.offset)?.ok_or(DeferReason::CurrentExport)?,
    };
    let read = reply.len() - start - HEADER;
    let eof = eof.is_reached();
    if !eof && read < wanted {
        return Err(c.too_big().into());
    }
    reply.pad(read);
    reply.patch_u32(start, eof.into());
    reply.patch_u32(start + 4, u32::try_from(read).unwrap_or(u32::MAX));
    Ok(())
}

/// Defers a READ that takes pages of the file, since a page that is missing would be waited for.
/// Such a READ is brief where the ends of the range are cached.
fn wait_for_pages(c: &Compound<'_>, file: &dyn OpenFile, offset: u64, count: usize) -> OpResult {
    if c.may_wait() || !c.object(Nfsstat4::NFS4ERR_ISDIR)?.export.backend.may_wait() {
        return Ok(());
    }
    let mut byte = Vec::with_capacity(1);
    for at in [offset, offset.saturating_add(count as u64).saturating_sub(1)] {
        byte.clear();
        file.read_now(&mut byte, 1, at)?.ok_or(DeferReason::CurrentExport)?;
    }
    Err(DeferReason::Brief.into())
}

/// Writes the result, with the data outside of the reply's buffer.
fn attach(c: &mut Compound<'_>, reply: &mut Encoder, data: FileData, eof: Eof, wanted: usize) -> OpResult {
    let (read, eof) = (data.len(), eof.is_reached());
    if !eof && read < wanted {
        return Err(c.too_big().into());
    }
    reply.boolean(eof).u32(u32::try_from(read).unwrap_or(u32::MAX));
    c.attach(reply, data);
    reply.pad(read);
    Ok(())
}
