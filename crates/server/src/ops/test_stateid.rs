//! TEST_STATEID (RFC 8881 section 18.48).

use crate::engine::{Compound, OpResult};
use nfs4::Stateid4;
use xdr::{Decode, Decoder, Encoder};

/// Stateids of one TEST_STATEID.
const STATEIDS_MAX: usize = 4096;
/// Size of a stateid on the wire, in bytes.
const STATEID_SIZE: usize = 16;

/// Returns a status for each stateid.
///
/// # Errors
/// NFS4ERR_BADXDR.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let count = args.array_len_of(STATEIDS_MAX, STATEID_SIZE)?;
    if c.room(reply) < 4 + 4 * count {
        return Err(c.too_big().into());
    }
    let client = c.client()?;
    reply.array_len(count);
    for _ in 0..count {
        let stateid = Stateid4::decode(args)?;
        reply.u32(c.state().test_stateid(client, &stateid) as u32);
    }
    Ok(())
}
