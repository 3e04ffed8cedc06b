//! GETFH (RFC 8881 section 18.8).

use crate::engine::{Compound, OpResult};
use xdr::{Decoder, Encoder};

/// Returns the current filehandle.
///
/// # Errors
/// NFS4ERR_NOFILEHANDLE.
pub fn run(c: &mut Compound<'_>, _: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    c.encode_fh(c.fh()?, reply);
    Ok(())
}
