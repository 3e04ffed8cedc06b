//! What a COMPOUND of NFSv4.0 has instead of a session (RFC 7530 section 15.2).

use super::{Call, Compound, Nfs, OpError};
use nfs4::{Nfsstat4, Stateid4};
use state::ClientKey;
use std::cell::Cell;

/// What only a COMPOUND of NFSv4.0 needs.
#[derive(Clone, Debug, Default)]
pub struct Of40 {
    /// The client that an operation has named, by its id or a stateid.
    pub client: Option<ClientKey>,
    /// Whether an operation was run that must not be run twice, so that the reply is kept for a
    /// copy of the request.
    pub once: Cell<bool>,
}

impl Nfs {
    /// Most bytes of COMPOUND4res without a session's limits.
    pub(crate) fn reply_max_40(&self, call: &Call<'_>) -> usize {
        let whole = usize::try_from(self.config.limits.response_size_max).unwrap_or(usize::MAX);
        whole.saturating_sub(call.reply_overhead)
    }
}

impl Compound<'_> {
    /// Who looks at or changes a file, where there is no session. Before an operation has named its
    /// client it is the connection: it stands for nobody who could hold anything.
    ///
    /// # Errors
    /// NFS4ERR_OP_NOT_IN_SESSION since NFSv4.1.
    pub(super) fn client_40(&self) -> Result<ClientKey, OpError> {
        if self.progress.minor > 0 {
            return Err(Nfsstat4::NFS4ERR_OP_NOT_IN_SESSION.into());
        }
        Ok(self.progress.v40.client.unwrap_or_else(|| ClientKey::of_connection(self.call.connection.0)))
    }

    /// The client whose stateid comes with I/O: the session's, or in NFSv4.0 whoever was given it;
    /// its lease is renewed.
    ///
    /// # Errors
    /// Those of [`state::State::client_of_stateid_40`].
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
