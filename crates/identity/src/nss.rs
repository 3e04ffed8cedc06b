//! The system's name service: files, SSSD, LDAP and other services in `/etc/nsswitch.conf`.

use std::ffi::CString;

use nix::errno::Errno;
use nix::unistd::{Gid, getgrouplist};

use crate::accounts::{GroupEntry, UserEntry};
use crate::{Identity, IdentitySource, SourceError};

/// Looks up accounts with getpwnam_r, getgrouplist and their siblings.
///
/// Only the answer "not found" of the last service of a line of nsswitch.conf means that an account
/// does not exist. glibc returns it as success without a result. Every error number is a failure:
/// libnss-ldapd, for one, reports a directory that does not answer as ENOENT.
///
/// glibc hides a failure in three cases. If another service follows the one that failed, as in
/// `ldap files`, the answer of the last one counts, unless `[UNAVAIL=return TRYAGAIN=return]`
/// stands between them. A module may set no error number. And a module may itself report "not
/// found" when it is unavailable.
#[derive(Clone, Copy, Debug, Default)]
pub struct NssSource;

/// A group id that no site uses. Looking it up shows whether all groups can be found now.
const PROBE_GID: u32 = u32::MAX - 1;

impl IdentitySource for NssSource {
    fn identity(&self, user: &str) -> Result<Option<Identity>, SourceError> {
        let Some(account) = found(UserEntry::from_name(user), user)? else { return Ok(None) };
        let name = CString::new(user).map_err(|_| failed(user, Errno::EINVAL))?;
        // getgrouplist reports no failure and returns the groups that it has found. A lookup before
        // and after it shows whether the services of groups work.
        self.group(PROBE_GID)?;
        let groups = getgrouplist(&name, Gid::from_raw(account.gid)).map_err(|errno| failed(user, errno))?;
        self.group(PROBE_GID)?;
        Ok(Some(Identity {
            uid: account.uid,
            gid: account.gid,
            groups: groups.into_iter().map(Gid::as_raw).collect(),
        }))
    }

    fn uid(&self, user: &str) -> Result<Option<u32>, SourceError> {
        Ok(found(UserEntry::from_name(user), user)?.map(|account| account.uid))
    }

    fn gid(&self, group: &str) -> Result<Option<u32>, SourceError> {
        Ok(found(GroupEntry::from_name(group), group)?.map(|account| account.gid))
    }

    fn user(&self, uid: u32) -> Result<Option<String>, SourceError> {
        Ok(found(UserEntry::from_uid(uid), uid)?.map(|account| account.name))
    }

    fn group(&self, gid: u32) -> Result<Option<String>, SourceError> {
        Ok(found(GroupEntry::from_gid(gid), gid)?.map(|account| account.name))
    }
}

/// Converts a result: only success without a result is the absence of an account.
fn found<T>(result: Result<Option<T>, Errno>, what: impl ToString) -> Result<Option<T>, SourceError> {
    result.map_err(|errno| failed(what, errno))
}

fn failed(what: impl ToString, errno: Errno) -> SourceError {
    SourceError {
        what: what.to_string(),
        why: format!("a service of nsswitch.conf is unavailable ({errno})"),
    }
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
