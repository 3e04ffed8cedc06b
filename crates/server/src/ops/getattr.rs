//! GETATTR (RFC 8881 section 18.7).

use crate::attr;
use crate::engine::{Compound, Fh, OpResult};
use nfs4::{Bitmap4, Nfsstat4};
use xdr::{Decode, Decoder, Encoder};

/// Returns the requested attributes that the server supports.
///
/// # Errors
/// NFS4ERR_INVAL for attributes that can only be set, NFS4ERR_MOVED in an absent file system unless
/// its locations are requested (section 11.4.1), NFS4ERR_DELAY when the holder of a write
/// delegation is slow to answer CB_GETATTR, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let wanted = Bitmap4::decode(args)?;
    if attr::asks_write_only(c.progress.minor, &wanted) {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    let fh = c.fh()?;
    if let Fh::Object(object) = fh
        && fh.is_absent()
    {
        if !attr::asks_locations(c.progress.minor, &wanted) {
            return Err(Nfsstat4::NFS4ERR_MOVED.into());
        }
        attr::encode_absent(c, object, &wanted, Nfsstat4::NFS4_OK, reply);
        return Ok(());
    }
    let attributes = c.attributes_with(fh, &wanted)?;
    attr::encode(c, fh, &attributes, &wanted, reply)
}
