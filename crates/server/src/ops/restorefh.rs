//! RESTOREFH (RFC 8881 section 18.27).

use crate::engine::{Compound, OpResult};
use nfs4::Nfsstat4;
use xdr::{Decoder, Encoder};

/// Restores the saved filehandle with its stateid.
///
/// # Errors
/// NFS4ERR_NOFILEHANDLE when none is saved, NFS4ERR_WRONGSEC.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let fh = c.progress.saved.clone().ok_or(Nfsstat4::NFS4ERR_NOFILEHANDLE)?;
    c.put(fh, args)?;
    c.progress.stateid = c.progress.saved_stateid;
    Ok(())
}
