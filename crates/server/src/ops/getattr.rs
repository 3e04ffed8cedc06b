//! GETATTR (RFC 8881 section 18.7).

use crate::attr;
use crate::engine::{Compound, Fh, OpResult};
use nfs4::{Bitmap4, Nfsstat4};
use xdr::{Decode, Decoder, Encoder};

/// Returns those of the attributes asked for that the server supports.
///
/// # Errors
/// NFS4ERR_INVAL for attributes that can only be set, NFS4ERR_DELAY while another client has a delegation for writing,
/// and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let wanted = Bitmap4::decode(args)?;
    if attr::asks_write_only(&wanted) {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    let fh = c.fh()?;
    if let Fh::Object(object) = fh {
        c.check_look_at(object, &wanted)?;
    }
    let attributes = c.attributes(fh)?;
    attr::encode(c, fh, &attributes, &wanted, reply)
}
