//! LOOKUPP (RFC 8881 section 18.14).

use crate::engine::{Compound, OpResult};
use xdr::{Decoder, Encoder};

/// Moves the current filehandle to its parent directory, from the root of an export to the
/// directory above the export.
///
/// # Errors
/// NFS4ERR_NOENT at the root of the namespace, NFS4ERR_NOTDIR, NFS4ERR_WRONGSEC, and the backend's.
pub fn run(c: &mut Compound<'_>, _: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let parent = c.parent(c.fh()?)?;
    c.check_flavor(&parent)?;
    c.set_current(parent);
    Ok(())
}
