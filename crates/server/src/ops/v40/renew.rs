//! RENEW (RFC 7530 section 16.28).

use crate::engine::{Compound, OpResult};
use nfs4::Renew4Args;
use xdr::{Decode, Decoder, Encoder};

/// Renews the lease of a client.
///
/// # Errors
/// The errors of [`state::V40::renew_40`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let args = Renew4Args::decode(args)?;
    Ok(c.state().v40().renew_40(c.now(), &c.sender(), args.clientid)?)
}
