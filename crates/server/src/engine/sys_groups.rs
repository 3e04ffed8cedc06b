//! The groups of AUTH_SYS callers (RFC 5531 appendix A): a credential has room for 16.

use super::Nfs;
use identity::Mapper;
use std::str::FromStr;

/// The source of the groups of AUTH_SYS callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SysGroups {
    /// The credential, which the client makes.
    #[default]
    Client,
    /// The server's accounts, by the uid of the credential.
    Server,
}

impl FromStr for SysGroups {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "client" => Ok(Self::Client),
            "server" => Ok(Self::Server),
            other => Err(format!("{other:?} is no choice of groups; there are client and server")),
        }
    }
}

impl Nfs {
    /// Returns the accounts whose groups AUTH_SYS callers have; `None` if they have those of their
    /// credentials.
    pub fn sys_accounts(&self) -> Option<&Mapper> {
        self.choices.server_groups().then_some(&*self.identity)
    }
}
