//! Identities, contexts, and the protection of calls and replies.

mod callback;
mod confounders;
mod context;
mod identity;
mod open;
mod seal;

pub(crate) use callback::CallbackContext;
pub(crate) use confounders::Confounders;
pub use context::GssContext;
pub(crate) use context::GssInitiation;
pub(crate) use identity::Identity;
pub(crate) use open::{Expected, Incoming, open};
pub use seal::{Damage, GssCall, Head, Protection};
pub(crate) use seal::{OutgoingCall, seal};

use crate::error::Error;

/// Returns `N` random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    fill_random(&mut bytes)?;
    Ok(bytes)
}

/// Fills `bytes` with random values.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes).map_err(|cause| std::io::Error::other(cause.to_string()).into())
}
