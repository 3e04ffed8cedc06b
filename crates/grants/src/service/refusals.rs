//! Requests that the grant service refuses.

use crate::mint::MintError;
use crate::store::GrantStoreError;
use crate::table::GrantRefusal;
use crate::wire::GrantReply;

/// The outcome of a request: a reply, or a refusal with its permanence.
pub(super) type Answer = Result<GrantReply, RefusedRequest>;

pub(super) struct RefusedRequest {
    transient: bool,
    text: String,
}

impl RefusedRequest {
    /// Returns a refusal for a request that can never succeed as it is.
    pub(super) fn permanent(text: impl Into<String>) -> Self {
        Self { transient: false, text: text.into() }
    }

    /// Returns a refusal for a request that can succeed later.
    pub(super) fn transient(text: impl Into<String>) -> Self {
        Self { transient: true, text: text.into() }
    }

    /// Returns the refusal after a failure to write a file.
    pub(super) fn unwritable() -> Self {
        Self::transient("the grant service cannot write its store")
    }

    /// Logs the refusal, and returns the reply.
    pub(super) fn reply(self, peer: &str) -> GrantReply {
        tracing::warn!("{peer} is refused: {}", self.text);
        GrantReply::Refused { transient: self.transient, text: self.text }
    }
}

impl From<GrantRefusal> for RefusedRequest {
    fn from(refusal: GrantRefusal) -> Self {
        Self::permanent(refusal.to_string())
    }
}

impl From<GrantStoreError> for RefusedRequest {
    fn from(error: GrantStoreError) -> Self {
        tracing::error!("the store failed: {error}");
        Self::unwritable()
    }
}

impl From<MintError> for RefusedRequest {
    fn from(error: MintError) -> Self {
        Self { transient: error.is_transient(), text: error.to_string() }
    }
}
