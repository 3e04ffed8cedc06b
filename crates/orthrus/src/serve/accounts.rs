//! The name service, asked as the server.

use identity::{Identity, IdentitySource, NssSource, SourceError};

/// Queries the system's name service with the server's own rights. A serving thread has the rights
/// of its last caller, which may not suffice for a module of the name service.
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
