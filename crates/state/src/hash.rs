//! A keyed hasher. Clients choose the hashed bytes, so the key must be unknown to them; the caller
//! supplies it.

use siphasher::sip::SipHasher13;
use std::hash::BuildHasher;

/// Builds SipHash-1-3 with the key of this start of the server.
#[derive(Clone, Debug)]
pub(crate) struct Keyed(pub(crate) [u8; 16]);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.0)
    }
}
