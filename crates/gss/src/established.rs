//! Established contexts: the exported keys and the peer's name.

use crate::GssError;
use crate::ffi::{Cred, Store};
use std::fmt;
use std::time::Duration;

/// The result of context establishment, of either side.
pub struct Established {
    /// The last token for the peer: the acceptor's reply (AP-REP). Empty if there is none to send.
    pub token: Vec<u8>,
    /// The peer's principal with its realm: `alice@EXAMPLE.ORG`,
    /// `nfs/server.example.org@EXAMPLE.ORG`. The realm is empty for an initiator whose krb5.conf
    /// has no realm for the host.
    pub principal: String,
    /// The services that got the peer's ticket in its name, by constrained delegation, in order.
    /// Empty for an initiator, and for a ticket that the peer got itself.
    pub delegated_through: Vec<String>,
    /// The ticket-granting ticket that the peer has forwarded to this side, an acceptor that takes
    /// it.
    pub forwarded: Option<ForwardedTicket>,
    /// The keys of the per-message tokens, for this side's role.
    pub keys: krb5::ContextKeys,
    /// The enctype of the keys: 17 to 20.
    pub enctype: i32,
    /// The remaining lifetime of the ticket, with the clock skew; never zero.
    pub lifetime: Duration,
    /// The first sequence number of this side's tokens (RFC 4121 section 4.2.1).
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

/// A ticket-granting ticket that a peer has forwarded (RFC 4121 section 4.1.1.1).
pub struct ForwardedTicket(Cred);

impl ForwardedTicket {
    pub(crate) fn new(cred: Cred) -> Self {
        Self(cred)
    }

    /// Writes the ticket to a cache, such as `FILE:/some/path`, and replaces the one that it has.
    ///
    /// # Errors
    /// The library's, if the cache cannot be written.
    pub fn store(&self, cache: &str) -> Result<(), GssError> {
        self.0.store_into(&Store::default().with("ccache", cache)?)
    }
}
