//! IO_ADVISE (RFC 7862 section 15.5).

use crate::engine::{Compound, OpResult};
use nfs4::{Bitmap4, IoAdvise4Args};
use xdr::{Decode, Decoder, Encoder};

/// Takes the advice and follows none of it, which the empty set of hints says.
///
/// # Errors
/// NFS4ERR_BAD_STATEID for a current stateid where there is none.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = IoAdvise4Args::decode(args)?;
    c.resolve(args.iaa_stateid)?;
    reply.value(&Bitmap4::default());
    Ok(())
}
