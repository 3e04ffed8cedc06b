//! Lists clients, sessions, opens and delegations for an administrator, and revokes them.

use crate::engine::{FileKey, Nfs, OpenPayload};
use state::{
    Listed, ListedClient, ListedDelegation, ListedOpen, ListedSession, Principal, RevokeError, Revoked,
    RevokedCounts,
};
use std::sync::Arc;
use std::time::Duration;
use vfs::OpenFile;

/// A file that a client has open.
#[derive(Clone)]
pub struct ListedFile {
    /// The number of its export.
    pub export: u32,
    /// The open file; `None` where a delegation was revoked.
    pub open: Option<Arc<dyn OpenFile>>,
}

impl ListedFile {
    fn new(key: &FileKey, payload: Option<&OpenPayload>) -> Self {
        Self { export: key.export, open: payload.and_then(OpenPayload::any).cloned() }
    }
}

impl Nfs {
    /// Lists at most `max` clients.
    pub fn list_clients(&self, now: Duration, max: usize) -> Listed<ListedClient> {
        self.state.list_clients(now, max)
    }

    /// Lists at most `max` sessions.
    pub fn list_sessions(&self, max: usize) -> Listed<ListedSession> {
        self.state.list_sessions(max)
    }

    /// Lists at most `max` opens with their locks.
    pub fn list_opens(&self, max: usize) -> Listed<ListedOpen<ListedFile>> {
        self.state.list_opens(max, |key, payload| ListedFile::new(key, Some(payload)))
    }

    /// Lists at most `max` delegations.
    pub fn list_delegations(&self, max: usize) -> Listed<ListedDelegation<ListedFile>> {
        self.state.list_delegations(max, ListedFile::new)
    }

    /// Removes a client with all of its state. Returns false if there is no such client.
    pub fn evict(&self, client: u64, now: Duration) -> bool {
        self.with_effects(now, |state, effects| state.leases().evict(client, effects))
    }

    /// Revokes the open, lock stateid or delegation with this stateid (RFC 8881 section 8.4.2.4).
    ///
    /// # Errors
    /// See [`RevokeError`].
    pub fn revoke(&self, other: [u8; 12], now: Duration) -> Result<Revoked, RevokeError> {
        self.with_effects(now, |state, effects| state.leases().revoke(other, effects))
    }

    /// Revokes all opens and delegations of a principal: see
    /// [`state::Leases::revoke_principal`].
    pub fn revoke_principal(&self, principal: &Principal, now: Duration) -> RevokedCounts {
        self.with_effects(now, |state, effects| state.leases().revoke_principal(principal, effects))
    }
}
