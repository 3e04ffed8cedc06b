//! SETCLIENTID_CONFIRM (RFC 7530 section 16.34).

use crate::engine::{Compound, OpResult};
use nfs4::SetclientidConfirm4Args;
use xdr::{Decode, Decoder, Encoder};

/// Confirms a client, and removes all state of its earlier incarnation.
///
/// # Errors
/// The errors of [`state::V40::setclientid_confirm`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, _: &mut Encoder) -> OpResult {
    let args = SetclientidConfirm4Args::decode(args)?;
    let (sender, confirm) = (c.sender(), args.setclientid_confirm);
    let (confirmed, rival) = c.with_effects(|state, effects| {
        let confirmed = state.v40().setclientid_confirm(c.now(), &sender, args.clientid, confirm, effects);
        (confirmed, effects.rival.take())
    });
    rival.iter().for_each(|rival| c.note_rival(rival));
    Ok(confirmed?)
}
