//! READ (RFC 8881 section 18.22).

use crate::engine::{Compound, DeferReason, OpResult};
use nfs4::Read4Args;
use xdr::{Decode, Decoder, Encoder};

/// Bytes of READ4resok before the data: eof and length.
const HEADER: usize = 8;
/// Largest padding behind the data, in bytes.
const PADDING: usize = 3;
/// Bytes reserved behind the data for later operations and the trailer of RPCSEC_GSS. Without them
/// a large reply would be moved once more as a whole.
const TAIL: usize = 512;
/// The largest offset of a file, in bytes. READs beyond it return no data.
const OFFSET_MAX: u64 = i64::MAX as u64;

/// Reads directly into the reply; where blocking is not allowed, only data at hand.
///
/// # Errors
/// The errors of stateids, NFS4ERR_OPENMODE, NFS4ERR_LOCKED, NFS4ERR_REP_TOO_BIG, and the
/// backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Read4Args::decode(args)?;
    let file = c.file_to_read(args.stateid)?;
    let room = c.room(reply).saturating_sub(HEADER + PADDING);
    let wanted = args.count.min(c.nfs.config.read_max);
    let wanted = u64::from(wanted).min(OFFSET_MAX.saturating_sub(args.offset));
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let start = reply.len();
    reply.boolean(true).u32(0);
    let bytes = reply.as_mut_vec();
    let count = wanted.min(room);
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
