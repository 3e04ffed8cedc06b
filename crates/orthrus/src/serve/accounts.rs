//! The name service, asked as the server.

use identity::{Identity, IdentitySource, NssSource, SourceError};

/// Queries the system's name service with the server's own rights. A thread of the
/// lookups has the rights of the thread that started it, perhaps those of a caller, which may not
/// suffice for a module of the name service.
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
