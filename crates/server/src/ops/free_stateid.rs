//! FREE_STATEID (RFC 8881 section 18.38).

use crate::engine::{Compound, OpResult};
use nfs4::FreeStateid4Args;
use xdr::{Decode, Decoder, Encoder};

/// Frees a stateid without locks, or a revoked one.
///
/// # Errors
/// The errors of [`state::State::free_stateid`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let args = FreeStateid4Args::decode(args)?;
    let stateid = c.resolve(args.fsa_stateid)?;
    let client = c.client()?;
    c.with_effects(|state, effects| state.free_stateid(client, &stateid, effects))?;
    Ok(())
}
