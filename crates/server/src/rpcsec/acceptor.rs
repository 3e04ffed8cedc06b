//! The server's interfaces to Kerberos and to the site's accounts.

use identity::{Mapped, Mapper, PrincipalError, Wait};
use std::time::Duration;

/// Accepts security contexts with the server's key.
pub trait ContextAcceptor: Send + Sync {
    /// Checks the token of a client and establishes a context in one step, as Kerberos does.
    ///
    /// # Errors
    /// [`AcceptError`] explains the fault of the token or of the server's key; a failure leaves no
    /// state behind.
    fn accept(&self, token: &[u8]) -> Result<Accepted, AcceptError>;
}

impl<F: Fn(&[u8]) -> Result<Accepted, AcceptError> + Send + Sync> ContextAcceptor for F {
    fn accept(&self, token: &[u8]) -> Result<Accepted, AcceptError> {
        self(token)
    }
}

/// The result of accepting a client's token.
#[derive(Debug)]
pub struct Accepted {
    /// The token to return to the client.
    pub token: Vec<u8>,
    /// The client's principal, such as `alice@REALM`.
    pub principal: String,
    /// The services that got the client's ticket in its name, by constrained delegation.
    pub delegated_through: Vec<String>,
    /// The acceptor's keys of the context.
    pub keys: krb5::ContextKeys,
    /// The remaining lifetime of the client's ticket.
    pub lifetime: Duration,
    /// The sequence number of the first token that the server sends.
    pub send_sequence: u64,
}

/// The reason why a context was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AcceptError {
    /// Major status for the client (RFC 2744 section 3.9.1).
    pub major: u32,
    /// Minor status for the client.
    pub minor: u32,
    /// Cause and remedy, for the server's log.
    pub message: String,
    /// Whether the cause lies with the server and passes: the client is to try again.
    pub is_temporary: bool,
}

/// Maps principals to accounts: when a context is accepted, and from time to time while it lives.
pub trait Identities: Send + Sync {
    /// Looks up the account of a principal, and waits a bounded time.
    ///
    /// # Errors
    /// With `Refused` the context is refused; with `Source` its client is to try again.
    fn resolve(&self, principal: &str, now: Duration) -> Result<Mapped, PrincipalError>;

    /// Looks up the account of a principal without waiting; `None` while the lookup runs. The
    /// caller then polls again.
    fn poll(&self, principal: &str, now: Duration) -> Option<Result<Mapped, PrincipalError>> {
        Some(self.resolve(principal, now))
    }
}

impl Identities for Mapper {
    fn resolve(&self, principal: &str, now: Duration) -> Result<Mapped, PrincipalError> {
        self.principal(principal, now)
    }

    fn poll(&self, principal: &str, now: Duration) -> Option<Result<Mapped, PrincipalError>> {
        self.principal_within(principal, now, Wait::Never)
    }
}

impl<T: Identities + ?Sized> Identities for std::sync::Arc<T> {
    fn resolve(&self, principal: &str, now: Duration) -> Result<Mapped, PrincipalError> {
        (**self).resolve(principal, now)
    }

    fn poll(&self, principal: &str, now: Duration) -> Option<Result<Mapped, PrincipalError>> {
        (**self).poll(principal, now)
    }
}
