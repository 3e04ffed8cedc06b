//! The name service, asked as the server.

use identity::{Identity, IdentitySource, NssSource, SourceError};

/// Asks the system's name service with the server's own rights: a thread that serves has those of
/// its last caller, who may not be allowed to read what a module of the name service reads.
pub(super) struct ServerAccounts;

impl ServerAccounts {
    fn source() -> NssSource {
        vfs_local::become_server();
        NssSource
    }
}

impl IdentitySource for ServerAccounts {
    fn identity(&self, user: &str) -> Result<Option<Identity>, SourceError> {
        Self::source().identity(user)
    }

    fn uid(&self, user: &str) -> Result<Option<u32>, SourceError> {
        Self::source().uid(user)
    }

    fn gid(&self, group: &str) -> Result<Option<u32>, SourceError> {
        Self::source().gid(group)
    }

    fn user(&self, uid: u32) -> Result<Option<String>, SourceError> {
        Self::source().user(uid)
    }

    fn group(&self, gid: u32) -> Result<Option<String>, SourceError> {
        Self::source().group(gid)
    }
}
