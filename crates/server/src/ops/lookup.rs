//! LOOKUP (RFC 8881 section 18.13).

use crate::engine::{Compound, OpResult, names};
use xdr::{Decoder, Encoder};

/// Moves the current filehandle to a name in its directory, or into an export mounted there.
///
/// # Errors
/// The errors of names, NFS4ERR_NOENT, NFS4ERR_NOTDIR, NFS4ERR_SYMLINK, NFS4ERR_WRONGSEC, and the
/// backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let name = args.opaque(usize::MAX)?;
    let child = c.lookup(c.fh()?, names::component(name)?)?;
    c.check_flavor(&child)?;
    c.set_current(child);
    Ok(())
}
