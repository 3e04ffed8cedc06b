//! State of a COMPOUND of NFSv4.0, in place of a session (RFC 7530 section 15.2).

use super::{Call, Compound, Nfs, OpError};
use nfs4::{Nfsstat4, Stateid4};
use state::ClientKey;
use std::cell::Cell;

/// The part of the state that only NFSv4.0 uses.
#[derive(Clone, Debug, Default)]
pub struct Of40 {
    /// The client that an operation has named, by its client ID or a stateid.
    pub client: Option<ClientKey>,
    /// Whether an operation has run that must not run twice, so that the reply is cached for a copy
    /// of the request.
    pub once: Cell<bool>,
}

impl Nfs {
    /// Returns the limit of COMPOUND4res in bytes, without a session.
    pub(crate) fn reply_max_40(&self, call: &Call<'_>) -> usize {
        let whole = usize::try_from(self.config.limits.response_size_max).unwrap_or(usize::MAX);
        whole.saturating_sub(call.reply_overhead)
    }
}

impl Compound<'_> {
    /// Returns the client of a call without a session. Before an operation has named it, the
    /// connection takes its place: a client key that can hold no state.
    ///
    /// # Errors
    /// NFS4ERR_OP_NOT_IN_SESSION since NFSv4.1.
    pub(super) fn client_40(&self) -> Result<ClientKey, OpError> {
        if self.progress.minor > 0 {
            return Err(Nfsstat4::NFS4ERR_OP_NOT_IN_SESSION.into());
        }
        Ok(self.progress.v40.client.unwrap_or_else(|| ClientKey::of_connection(self.call.connection.0)))
    }

    /// Returns the client of a stateid used for I/O: the session's, or in NFSv4.0 the holder of the
    /// stateid, whose lease is renewed.
    ///
    /// # Errors
    /// The errors of the state's `client_of_stateid_40`.
    pub fn client_of(&self, stateid: &Stateid4) -> Result<ClientKey, OpError> {
        match &self.progress.session {
            Some(session) => Ok(session.client),
            None if self.progress.minor == 0 => {
                Ok(self.state().v40().client_of_stateid_40(self.now(), &self.sender(), stateid)?)
            }
            None => self.client_40(),
        }
    }
}
