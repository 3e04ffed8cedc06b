//! Lists clients, opens and delegations for an administrator.

use crate::engine::{FileKey, Nfs, OpenPayload};
use state::{Listed, ListedClient, ListedDelegation, ListedOpen};
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

    /// Lists at most `max` opens with their locks.
    pub fn list_opens(&self, max: usize) -> Listed<ListedOpen<ListedFile>> {
        self.state.list_opens(max, |key, payload| ListedFile::new(key, Some(payload)))
    }

    /// Lists at most `max` delegations.
    pub fn list_delegations(&self, max: usize) -> Listed<ListedDelegation<ListedFile>> {
        self.state.list_delegations(max, ListedFile::new)
    }
}
