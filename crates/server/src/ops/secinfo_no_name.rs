//! SECINFO_NO_NAME (RFC 8881 section 18.45).

use super::secinfo::encode_flavors;
use crate::engine::{Compound, OpResult};
use nfs4::SecinfoStyle4;
use xdr::{Decode, Decoder, Encoder};

/// Returns the flavors for the current filehandle or for its parent directory, and consumes the
/// current filehandle.
///
/// # Errors
/// NFS4ERR_NOENT for the parent of the root, NFS4ERR_NOTDIR, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let flavors = match SecinfoStyle4::decode(args)? {
        SecinfoStyle4::SECINFO_STYLE4_CURRENT_FH => c.flavors(c.fh()?)?,
        SecinfoStyle4::SECINFO_STYLE4_PARENT => c.flavors(&c.parent(c.fh()?)?)?,
    };
    encode_flavors(&flavors, reply);
    c.progress.current = None;
    c.progress.stateid = None;
    Ok(())
}
