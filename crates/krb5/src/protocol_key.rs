//! The protocol key of a context.

/// The key of a context that all others are derived from (RFC 4121 section 2).
#[derive(Clone, Copy)]
pub enum ProtocolKey<'a> {
    /// The subkey that the acceptor asserted.
    AcceptorSubkey(&'a [u8]),
    /// The initiator's subkey, or else the session key of its ticket: the acceptor asserted none.
    InitiatorKey(&'a [u8]),
}

impl<'a> ProtocolKey<'a> {
    /// Returns the bytes of the key, a secret.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::AcceptorSubkey(key) | Self::InitiatorKey(key) => key,
        }
    }
}
