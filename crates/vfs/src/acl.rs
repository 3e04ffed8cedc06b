//! Access control lists as Linux file systems have them (POSIX 1003.1e draft 17, acl(5)).

use crate::Caller;
use std::collections::BTreeMap;

/// Rights as in a permission class of the mode.
pub const ACL_READ: u8 = 4;
/// Write, or change the entries of a directory.
pub const ACL_WRITE: u8 = 2;
/// Execute, or search a directory.
pub const ACL_EXECUTE: u8 = 1;
/// The largest number of named entries in one list; more do not fit into an extended attribute of
/// Linux.
pub const ACL_ENTRIES_MAX: usize = 8000;

/// One list. Rights are 3 bits each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PosixAcl {
    /// Rights of the owner: 4 reads, 2 writes, 1 executes.
    pub owner: u8,
    /// Rights of users by number, limited by `mask`.
    pub users: BTreeMap<u32, u8>,
    /// Rights of the owning group, limited by `mask`.
    pub group: u8,
    /// Rights of groups by number, limited by `mask`.
    pub groups: BTreeMap<u32, u8>,
    /// Limits users, groups and the owning group; present if the list has named entries.
    pub mask: Option<u8>,
    /// Rights of all other users.
    pub other: u8,
}

impl PosixAcl {
    /// Returns the list that is equivalent to a mode.
    pub fn of_mode(mode: u32) -> Self {
        let class = |shift: u32| ((mode >> shift) & 7) as u8;
        Self { owner: class(6), group: class(3), other: class(0), ..Self::default() }
    }

    /// Returns the nine permission bits that go with the list: the mask stands for the group's.
    pub fn mode(&self) -> u32 {
        let class = |rights: u8, shift: u32| u32::from(rights & 7) << shift;
        class(self.owner, 6) | class(self.mask.unwrap_or(self.group), 3) | class(self.other, 0)
    }

    /// Changes the list as chmod(2) does.
    pub fn set_mode(&mut self, mode: u32) {
        let of = Self::of_mode(mode);
        (self.owner, self.other) = (of.owner, of.other);
        match &mut self.mask {
            Some(mask) => *mask = of.group,
            None => self.group = of.group,
        }
    }

    /// Returns whether it says no more than a mode could.
    pub fn is_minimal(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty() && self.mask.is_none()
    }

    /// Returns how many entries name a user or a group.
    pub fn named(&self) -> usize {
        self.users.len() + self.groups.len()
    }

    /// Returns the list by which Linux decides. It looks at no list while the group bits of the
    /// mode, which are the mask, are zero: then the mode alone decides, and named users and groups
    /// have the rights of others.
    pub fn in_force(&self) -> Self {
        if self.mask == Some(0) { Self::of_mode(self.mode()) } else { self.clone() }
    }

    /// Returns the rights that Linux gives a caller other than the superuser on an object of this
    /// owner and group (acl(5), access check algorithm, and [`PosixAcl::in_force`]).
    pub fn rights_of(&self, caller: &Caller, uid: u32, gid: u32) -> u8 {
        if caller.uid == uid {
            return self.owner;
        }
        if self.mask == Some(0) {
            return if caller.is_member(gid) { 0 } else { self.other };
        }
        if let Some(rights) = self.users.get(&caller.uid) {
            return self.masked(*rights);
        }
        let own = caller.is_member(gid).then_some(self.group);
        let named = self.groups.iter().filter(|(gid, _)| caller.is_member(**gid)).map(|(_, rights)| *rights);
        let of_groups = own.into_iter().chain(named).reduce(|all, more| all | more);
        of_groups.map_or(self.other, |rights| self.masked(rights))
    }

    /// Limits rights by the mask.
    pub fn masked(&self, rights: u8) -> u8 {
        rights & self.mask.unwrap_or(7)
    }
}

/// Both lists of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acls {
    /// The list that decides about access; `None` if the mode alone decides.
    pub access: Option<PosixAcl>,
    /// The list that new objects in a directory inherit.
    pub default: Option<PosixAcl>,
}
