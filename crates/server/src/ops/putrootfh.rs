//! PUTROOTFH and PUTPUBFH (RFC 8881 sections 18.21 and 18.20): the public filehandle is the root's.

use crate::engine::{Compound, OpResult};
use xdr::{Decoder, Encoder};

/// Makes the root of the namespace the current filehandle.
///
/// # Errors
/// NFS4ERR_WRONGSEC.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let fh = c.root()?;
    c.put(fh, args)
}
