//! LOCKT of NFSv4.0 (RFC 7530 section 16.11).

use crate::engine::{Compound, OpResult};
use crate::ops;
use nfs4::Lockt4Args;
use xdr::{Decode, Decoder, Encoder};

/// Tests whether a lock could be granted.
///
/// # Errors
/// NFS4ERR_STALE_CLIENTID, NFS4ERR_EXPIRED, and the errors of [`ops::lockt::run`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let before = *args;
    let decoded = Lockt4Args::decode(args)?;
    c.progress.v40.client =
        Some(c.state().v40().client_of_id_40(c.now(), &c.sender(), decoded.owner.clientid)?);
    ops::lockt::run(c, &mut before.clone(), reply)
}
