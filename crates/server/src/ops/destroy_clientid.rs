//! DESTROY_CLIENTID (RFC 8881 section 18.50).

use crate::engine::{Compound, OpResult};
use nfs4::DestroyClientid4Args;
use xdr::{Decode, Decoder, Encoder};

/// Removes a client without sessions and state.
///
/// # Errors
/// The errors of [`state::Clients::destroy_clientid`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let args = DestroyClientid4Args::decode(args)?;
    let sender = c.sender();
    c.with_effects(|state, effects| state.clients().destroy_clientid(&sender, args.dca_clientid, effects))?;
    Ok(())
}
