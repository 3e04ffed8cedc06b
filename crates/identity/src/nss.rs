//! The system's name service: files, SSSD, LDAP and other services in `/etc/nsswitch.conf`.

use std::ffi::CString;

use nix::errno::Errno;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

use crate::{Identity, IdentitySource, SourceError};

/// Looks up accounts with getpwnam_r, getgrouplist and their siblings.
#[derive(Clone, Copy, Debug, Default)]
pub struct NssSource;

impl IdentitySource for NssSource {
    fn identity(&self, user: &str) -> Result<Option<Identity>, SourceError> {
        let Some(account) = found(User::from_name(user), user)? else { return Ok(None) };
        let name = CString::new(user).map_err(|_| failed(user, Errno::EINVAL))?;
        let groups = getgrouplist(&name, account.gid).map_err(|errno| failed(user, errno))?;
        Ok(Some(Identity {
            uid: account.uid.as_raw(),
            gid: account.gid.as_raw(),
            groups: groups.into_iter().map(Gid::as_raw).collect(),
        }))
    }

    fn uid(&self, user: &str) -> Result<Option<u32>, SourceError> {
        Ok(found(User::from_name(user), user)?.map(|account| account.uid.as_raw()))
    }

    fn gid(&self, group: &str) -> Result<Option<u32>, SourceError> {
        Ok(found(Group::from_name(group), group)?.map(|account| account.gid.as_raw()))
    }

    fn user(&self, uid: u32) -> Result<Option<String>, SourceError> {
        Ok(found(User::from_uid(Uid::from_raw(uid)), uid)?.map(|account| account.name))
    }

    fn group(&self, gid: u32) -> Result<Option<String>, SourceError> {
        Ok(found(Group::from_gid(Gid::from_raw(gid)), gid)?.map(|account| account.name))
    }
}

/// Converts a result: some name service modules report an absent account as an error.
fn found<T>(result: Result<Option<T>, Errno>, what: impl ToString) -> Result<Option<T>, SourceError> {
    match result {
        Ok(account) => Ok(account),
        Err(Errno::ENOENT | Errno::ESRCH) => Ok(None),
        Err(errno) => Err(failed(what, errno)),
    }
}

fn failed(what: impl ToString, errno: Errno) -> SourceError {
    SourceError { what: what.to_string(), why: errno.desc().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_both_ways_and_a_made_up_name_is_not() {
        assert_eq!(NssSource.uid("root"), Ok(Some(0)));
        assert_eq!(NssSource.user(0), Ok(Some("root".to_owned())));
        assert_eq!(NssSource.identity("no-such-user-here"), Ok(None));
        assert_eq!(NssSource.user(3_999_999_999), Ok(None));
        assert_eq!(NssSource.gid("no-such-group-here"), Ok(None));
    }

    #[test]
    fn an_identity_has_its_primary_group() {
        let root = NssSource.identity("root").unwrap().unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
    }
}
