//! SECINFO of NFSv4.0 (RFC 7530 section 16.31): the current filehandle is kept.

use crate::engine::{Compound, OpResult};
use xdr::{Decoder, Encoder};

/// Returns the flavors for a name in the current directory.
///
/// # Errors
/// As [`crate::ops::secinfo::run`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let current = c.progress.current.clone();
    crate::ops::secinfo::run(c, args, reply)?;
    c.progress.current = current;
    Ok(())
}
