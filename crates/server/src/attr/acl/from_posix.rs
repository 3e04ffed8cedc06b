//! Conversion of POSIX lists to NFSv4 lists.

use super::{ANYBODYS, Ace, INHERIT, OWNERS, Who, mask_of};
use nfs4::ACE4_INHERIT_ONLY_ACE;
use vfs::{Acls, PosixAcl};

/// Converts the POSIX lists of an object to an NFSv4 list. Without a POSIX list, the mode is
/// converted.
///
/// POSIX stops at the first class that a caller is in, while NFSv4 goes on to EVERYONE@. So rights
/// that a class lacks and a later one has are denied in between. All groups allow before any
/// denies, since POSIX grants the rights of any group.
pub fn from_posix(acls: &Acls, mode: u32, directory: bool) -> Vec<Ace> {
    let of_mode = PosixAcl::of_mode(mode);
    let mut list = List { aces: Vec::new(), directory, flag: 0 };
    list.add(&acls.access.as_ref().unwrap_or(&of_mode).in_force());
    if let Some(default) = &acls.default {
        list.flag = INHERIT | ACE4_INHERIT_ONLY_ACE;
        list.add(default);
    }
    list.aces
}

struct List {
    aces: Vec<Ace>,
    directory: bool,
    flag: u32,
}

impl List {
    fn add(&mut self, acl: &PosixAcl) {
        let group = acl.masked(acl.group);
        let users: Vec<(u32, u8)> = acl.users.iter().map(|(uid, own)| (*uid, acl.masked(*own))).collect();
        let groups: Vec<(u32, u8)> = acl.groups.iter().map(|(gid, own)| (*gid, acl.masked(*own))).collect();
        let of_groups = groups.iter().fold(group | acl.other, |all, (_, rights)| all | rights);
        let of_users = users.iter().fold(of_groups, |all, (_, rights)| all | rights);
        self.deny(Who::Owner, of_users & !acl.owner);
        self.allow(Who::Owner, acl.owner);
        for (uid, rights) in users {
            self.deny(Who::User(uid), of_groups & !rights);
            self.allow(Who::User(uid), rights);
        }
        self.allow(Who::Group, group);
        groups.iter().for_each(|(gid, rights)| self.allow(Who::NamedGroup(*gid), *rights));
        self.deny(Who::Group, acl.other & !group);
        groups.iter().for_each(|(gid, rights)| self.deny(Who::NamedGroup(*gid), acl.other & !rights));
        self.allow(Who::Everyone, acl.other);
    }

    fn allow(&mut self, who: Who, rights: u8) {
        let owners = if who == Who::Owner { OWNERS } else { 0 };
        let mask = mask_of(rights, self.directory) | ANYBODYS | owners;
        self.aces.push(Ace { who, allow: true, mask, flag: self.flag });
    }

    fn deny(&mut self, who: Who, rights: u8) {
        if rights != 0 {
            let mask = mask_of(rights, self.directory);
            self.aces.push(Ace { who, allow: false, mask, flag: self.flag });
        }
    }
}
