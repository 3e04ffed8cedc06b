//! PUTFH (RFC 8881 section 18.19).

use crate::engine::{Compound, OpResult};
use xdr::{Decoder, Encoder};

/// Sets the current filehandle.
///
/// # Errors
/// NFS4ERR_BADHANDLE for one that the server has not made, NFS4ERR_STALE for an export that is gone
/// or closed to the client, NFS4ERR_WRONGSEC.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let object = args.opaque(nfs4::NFS4_FHSIZE as usize)?;
    let fh = c.decode_fh(object)?;
    c.put(fh, args)
}
