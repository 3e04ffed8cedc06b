//! Quotas of users and groups, as the kernel counts them.

use crate::{LocalBackend, attributes::stat_fd, errno::vfs_error, identity, sys};
use rustix::fs::fstatvfs;
use std::os::fd::AsFd;
use sys::QuotaKind;
use vfs::{Caller, ObjectHandle, Quota, VfsResult};

impl LocalBackend {
    pub(crate) fn quota_of(&self, caller: &Caller, object: &ObjectHandle) -> VfsResult<Option<Quota>> {
        if !self.features.quotas {
            return Ok(None);
        }
        let object = self.resolve(object)?;
        let stat = stat_fd(&*object).map_err(vfs_error)?;
        let root = self.root.fd.as_fd();
        let asked = [(QuotaKind::User, stat.stx_uid), (QuotaKind::Group, stat.stx_gid)];
        let ask = || asked.map(|(kind, number)| sys::quota(root, kind, number));
        // The kernel reports a quota to its owner only.
        let told = if self.identities { identity::wholly_as(caller, ask)? } else { ask() };
        let whole = fstatvfs(&*object).map_err(vfs_error)?;
        let avail = whole.f_bavail.saturating_mul(whole.f_frsize);
        let told = told.into_iter().filter_map(Result::ok).map(|counted| left(&counted, avail));
        // The smallest remainder is decisive.
        Ok(told.min_by_key(|quota| quota.avail_hard))
    }
}

/// Returns the remainder of one quota, limited by the free space of the file system.
fn left(counted: &sys::Counted, avail: u64) -> Quota {
    let of = |limit: u64| if limit == 0 { avail } else { limit.saturating_sub(counted.used).min(avail) };
    Quota {
        avail_hard: of(counted.hard),
        avail_soft: of(counted.soft).min(of(counted.hard)),
        used: counted.used,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_space_is_bounded_by_quota_and_file_system() // RFC 8881 section 5.8.2.28
    {
        let counted = |used, soft, hard| sys::Counted { used, soft, hard };
        let quota = |avail_hard, avail_soft, used| Quota { avail_hard, avail_soft, used };
        assert_eq!(left(&counted(30, 50, 100), 1000), quota(70, 20, 30));
        assert_eq!(left(&counted(60, 50, 100), 10), quota(10, 0, 60));
        assert_eq!(left(&counted(60, 0, 0), 500), quota(500, 500, 60));
        assert_eq!(left(&counted(200, 0, 100), 500), quota(0, 0, 200));
    }
}
