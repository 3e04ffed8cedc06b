//! WRITE (RFC 8881 section 18.32).

use crate::engine::{Compound, OpResult};
use nfs4::{Nfsstat4, StableHow4, Write4Args};
use vfs::{OFFSET_MAX, OpenFile, VfsResult};
use xdr::{Decode, Decoder, Encoder};

/// Data in bytes that is written at once: other clients of the thread wait for no more.
const PIECE: usize = 128 << 10;

/// Writes data, and syncs it if the client asks for that.
///
/// # Errors
/// The errors of stateids, NFS4ERR_OPENMODE, NFS4ERR_LOCKED, NFS4ERR_FBIG, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Write4Args::decode(args)?;
    let file = c.file_to_write(args.stateid)?;
    let most = usize::try_from(c.nfs.config.write_max).unwrap_or(usize::MAX);
    let data = args.data.get(..most).unwrap_or(&args.data);
    let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
    if args.offset.checked_add(length).is_none_or(|end| end > OFFSET_MAX) {
        return Err(Nfsstat4::NFS4ERR_FBIG.into());
    }
    // Taken before the data is written, so that a failure in between changes the next verifier.
    let verifier = c.nfs.write_verifier(&*c.object(Nfsstat4::NFS4ERR_ISDIR)?.export.backend);
    let written = if data.is_empty() { 0 } else { write_in_pieces(c, &*file, data, args.offset)? };
    if written == 0 && !data.is_empty() {
        return Err(Nfsstat4::NFS4ERR_NOSPC.into());
    }
    let committed = match args.stable {
        StableHow4::UNSTABLE4 => StableHow4::UNSTABLE4,
        StableHow4::DATA_SYNC4 | StableHow4::FILE_SYNC4 => {
            c.nfs.synced(file.sync())?;
            StableHow4::FILE_SYNC4
        }
    };
    reply.u32(u32::try_from(written).unwrap_or(u32::MAX)).u32(committed as u32);
    reply.opaque_fixed(&verifier);
    Ok(())
}

/// Writes all of `data`, and lets the thread serve others in between. Returns the bytes written,
/// fewer only when space ran out half-way.
///
/// # Errors
/// The backend's, if nothing was written.
fn write_in_pieces(c: &Compound<'_>, file: &dyn OpenFile, data: &[u8], offset: u64) -> VfsResult<usize> {
    let Some(pause) = c.call.pause else { return file.write_at(data, offset) };
    let mut written = 0;
    for piece in data.chunks(PIECE) {
        if written > 0 {
            pause();
        }
        match file.write_at(piece, offset.saturating_add(written as u64)) {
            Ok(count) => written += count,
            Err(error) if written == 0 => return Err(error),
            // The client writes the rest again, and gets the error.
            Err(_) => break,
        }
        if !written.is_multiple_of(PIECE) {
            break;
        }
    }
    Ok(written)
}
