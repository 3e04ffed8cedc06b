//! SAVEFH (RFC 8881 section 18.28).

use crate::engine::{Compound, OpResult};
use xdr::{Decoder, Encoder};

/// Saves the current filehandle with its stateid.
///
/// # Errors
/// NFS4ERR_NOFILEHANDLE.
pub fn run(c: &mut Compound<'_>, _: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    c.progress.saved = Some(c.fh()?.clone());
    c.progress.saved_stateid = c.progress.stateid;
    Ok(())
}
