//! What is left of a context after it has been established.

use std::fmt;
use std::time::Duration;

/// The result of context establishment, of either side.
pub struct Established {
    /// The last token for the peer: the acceptor's reply (AP-REP). Empty when there is nothing to
    /// send.
    pub token: Vec<u8>,
    /// The peer's principal with its realm: `alice@EXAMPLE.ORG`,
    /// `nfs/server.example.org@EXAMPLE.ORG`. An initiator whose host has no realm in krb5.conf sees
    /// an empty one behind the `@`.
    pub principal: String,
    /// The keys of the per-message tokens, for this side's role.
    pub keys: krb5::ContextKeys,
    /// The encryption type of those keys: 17 to 20.
    pub enctype: i32,
    /// How long the context may be used: the ticket's remaining life, clock skew included.
    pub lifetime: Duration,
    /// The first sequence number to use in tokens that this side makes (RFC 4121 section 4.2.1).
    pub send_sequence: u64,
}

impl fmt::Debug for Established {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Established")
            .field("principal", &self.principal)
            .field("enctype", &self.enctype)
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}
