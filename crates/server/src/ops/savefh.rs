//! SAVEFH (RFC 8881 section 18.28).

use crate::engine::{Compound, OpResult};
use xdr::{Decoder, Encoder};

/// Saves the current filehandle with its stateid.
///
/// # Errors
/// NFS4ERR_NOFILEHANDLE.
pub fn run(c: &mut Compound<'_>, _: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    c.saved = Some(c.fh()?.clone());
    c.saved_stateid = c.stateid;
    Ok(())
}
