//! Conversion of NFSv4 lists to POSIX lists.

use super::{Ace, INHERIT, Who, rights_of};
use nfs4::{ACE4_INHERIT_ONLY_ACE, ACE4_NO_PROPAGATE_INHERIT_ACE};
use std::collections::BTreeMap;
use vfs::{Acls, PosixAcl};

/// The reason why a list cannot be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// NFS4ERR_ATTRNOTSUPP: POSIX lists cannot express it.
    Unsupported,
    /// NFS4ERR_INVAL: it has no meaning for this object.
    Invalid,
}

/// Converts an NFSv4 list to POSIX lists that never grant more. `owner` and `group` are the
/// object's, or `None` where they are not known yet.
///
/// # Errors
/// [`Unfit`]. Not supported are inheritance by files or directories alone or by one generation, and
/// a DENY that POSIX could express only by denying rights to others that have them.
pub fn to_posix(
    aces: &[Ace],
    directory: bool,
    owner: Option<u32>,
    group: Option<u32>,
) -> Result<Acls, Unfit> {
    aces.iter().try_for_each(|ace| check_flag(ace, directory))?;
    let effective: Vec<Ace> =
        aces.iter().filter(|ace| ace.flag & ACE4_INHERIT_ONLY_ACE == 0).copied().collect();
    let access = AclSource { aces: &effective, directory, owner, group }.list()?;
    let inherited: Vec<Ace> = aces.iter().filter(|ace| ace.flag & INHERIT != 0).copied().collect();
    if inherited.is_empty() {
        return Ok(Acls { access: Some(access), default: None });
    }
    // The owner of objects created there is not known.
    let mut default = AclSource { aces: &inherited, directory, owner: None, group: None }.list()?;
    let special = |ace: &Ace| matches!(ace.who, Who::Owner | Who::Group | Who::Everyone);
    if !inherited.iter().any(special) {
        (default.owner, default.group, default.other) = (access.owner, access.group, access.other);
        set_mask(&mut default);
    }
    Ok(Acls { access: Some(access), default: Some(default) })
}

/// Gives a list with named users or groups a mask that limits none of them. It is not empty if
/// others have rights: Linux would not look at the list, and give those rights to users who are
/// denied them.
fn set_mask(list: &mut PosixAcl) {
    if list.named() > 0 {
        let named = list.users.values().chain(list.groups.values());
        let all = named.fold(list.group, |mask, rights| mask | rights);
        list.mask = Some(if all == 0 { list.other } else { all });
    }
}

fn check_flag(ace: &Ace, directory: bool) -> Result<(), Unfit> {
    let known = INHERIT | ACE4_INHERIT_ONLY_ACE | ACE4_NO_PROPAGATE_INHERIT_ACE;
    if ace.flag & known != 0 && !directory {
        return Err(Unfit::Invalid);
    }
    let inherit = ace.flag & INHERIT;
    if ace.flag & !(INHERIT | ACE4_INHERIT_ONLY_ACE) != 0 || (inherit != 0 && inherit != INHERIT) {
        return Err(Unfit::Unsupported);
    }
    if ace.flag & ACE4_INHERIT_ONLY_ACE != 0 && inherit == 0 {
        return Err(Unfit::Invalid);
    }
    Ok(())
}

/// A set of users to which exactly one entry of a POSIX list applies.
#[derive(Clone, Copy, Debug)]
enum Class {
    Owner,
    User(u32),
    Group,
    NamedGroup(u32),
    Other,
}

/// A user or group that entries name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    User(u32),
    Group(u32),
}

/// Whether an entry applies to all of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Applies {
    Always,
    /// To the members that are also in another class.
    Perhaps,
    Never,
}

struct AclSource<'a> {
    aces: &'a [Ace],
    directory: bool,
    owner: Option<u32>,
    group: Option<u32>,
}

impl<'a> AclSource<'a> {
    fn list(&self) -> Result<PosixAcl, Unfit> {
        let mut list = PosixAcl {
            owner: self.rights(Class::Owner, self.aces)?,
            group: self.rights(Class::Group, self.aces)?,
            other: self.rights(Class::Other, self.aces)?,
            ..PosixAcl::default()
        };
        for (named, aces) in self.named() {
            match named {
                Named::User(uid) => list.users.insert(uid, self.rights(Class::User(uid), aces)?),
                Named::Group(gid) => list.groups.insert(gid, self.rights(Class::NamedGroup(gid), aces)?),
            };
        }
        set_mask(&mut list);
        Ok(list)
    }

    /// Returns the named users and groups, each with the entries that decide its rights, in their
    /// order: a few apart from its own, since a client may send thousands of names.
    fn named(&self) -> BTreeMap<Named, Vec<&'a Ace>> {
        let mut own: BTreeMap<Named, Vec<(usize, &'a Ace)>> = BTreeMap::new();
        for (at, ace) in self.aces.iter().enumerate() {
            match ace.who {
                Who::User(uid) => own.entry(Named::User(uid)).or_default().push((at, ace)),
                Who::NamedGroup(gid) => own.entry(Named::Group(gid)).or_default().push((at, ace)),
                Who::Owner | Who::Group | Who::Everyone => {}
            }
        }
        let common = self.common();
        let in_order = |(named, mut aces): (Named, Vec<(usize, &'a Ace)>)| {
            // Entries of the owning group are its own, too.
            if self.group.is_some_and(|gid| named == Named::Group(gid)) {
                return (named, self.aces.iter().collect());
            }
            aces.extend(&common);
            aces.sort_unstable_by_key(|(at, _)| *at);
            (named, aces.into_iter().map(|(_, ace)| ace).collect())
        };
        own.into_iter().map(in_order).collect()
    }

    /// Returns the entries that count for every named user or group, with their places. EVERYONE@
    /// always applies. Groups perhaps do, and then only a DENY counts. The first of either kind
    /// about a right is enough, so there are at most six.
    fn common(&self) -> Vec<(usize, &'a Ace)> {
        let (mut of_everyone, mut of_groups) = (0, 0);
        let is_first = |(_, ace): &(usize, &Ace)| {
            let seen = match ace.who {
                Who::Everyone => &mut of_everyone,
                Who::Group | Who::NamedGroup(_) if !ace.allow => &mut of_groups,
                _ => return false,
            };
            let rights = rights_of(ace, self.directory);
            let is_first = rights & !*seen != 0;
            *seen |= rights;
            is_first
        };
        self.aces.iter().enumerate().filter(is_first).collect()
    }

    /// Returns the rights that every member of a class has, by the rule of RFC 8881 section 6.2.1:
    /// each bit is decided by the first entry about it.
    fn rights<'e>(&self, class: Class, aces: impl IntoIterator<Item = &'e Ace>) -> Result<u8, Unfit> {
        let (mut allowed, mut denied, mut doubtful) = (0, 0, 0);
        for ace in aces {
            let rights = rights_of(ace, self.directory) & !(allowed | denied);
            match (self.applies(ace.who, class), ace.allow) {
                // Some of the class were denied the right that all of it are granted now.
                (Applies::Always, true) if rights & doubtful != 0 => return Err(Unfit::Unsupported),
                (Applies::Always, true) => allowed |= rights,
                (Applies::Always, false) => denied |= rights,
                (Applies::Perhaps, false) => doubtful |= rights,
                // POSIX cannot grant rights to a part of a class.
                (Applies::Perhaps, true) | (Applies::Never, _) => {}
            }
        }
        Ok(allowed)
    }

    fn applies(&self, who: Who, class: Class) -> Applies {
        let same = |known: Option<u32>, number: u32, otherwise: Applies| match known {
            Some(known) if known == number => Applies::Always,
            Some(_) => otherwise,
            None => Applies::Perhaps,
        };
        match (class, who) {
            (_, Who::Everyone) => Applies::Always,
            (Class::Owner, Who::Owner) | (Class::Group, Who::Group) => Applies::Always,
            (Class::Owner, Who::User(uid)) => same(self.owner, uid, Applies::Never),
            (Class::User(uid), Who::User(other)) if uid == other => Applies::Always,
            (Class::NamedGroup(gid), Who::NamedGroup(other)) if gid == other => Applies::Always,
            (Class::Group, Who::NamedGroup(gid)) | (Class::NamedGroup(gid), Who::Group) => {
                same(self.group, gid, Applies::Perhaps)
            }
            (Class::Owner | Class::User(_) | Class::NamedGroup(_), Who::Group | Who::NamedGroup(_)) => {
                Applies::Perhaps
            }
            // The owner, named users and members of the groups have their own entries, which come
            // first.
            _ => Applies::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{mask_of, tests::ace};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_few_entries_decide_as_all_of_them_do(
            aces in proptest::collection::vec(ace(), 0..24),
            directory: bool,
            group in proptest::option::of(11_u32..15),
        ) // RFC 8881 section 6.2.1
        {
            let source = AclSource { aces: &aces, directory, owner: None, group };
            for (named, few) in source.named() {
                let class = match named {
                    Named::User(uid) => Class::User(uid),
                    Named::Group(gid) => Class::NamedGroup(gid),
                };
                prop_assert_eq!(source.rights(class, few), source.rights(class, &aces), "{:?}", named);
            }
        }
    }

    #[test]
    fn the_entries_of_a_name_are_few_in_a_long_list() {
        let ace = |who, allow| Ace { who, allow, mask: mask_of(7, false), flag: 0 };
        let names = (0..2000).flat_map(|number| [Who::User(number), Who::NamedGroup(number)]);
        let mut aces: Vec<Ace> = names.flat_map(|who| [ace(who, false), ace(who, true)]).collect();
        aces.extend([ace(Who::Group, true), ace(Who::Everyone, true)]);
        let source = AclSource { aces: &aces, directory: false, owner: Some(1), group: Some(1) };
        let named = source.named();
        assert_eq!(named.len(), 4000);
        let entries: usize = named.values().map(Vec::len).sum();
        assert!(entries <= 2 * aces.len() + 6 * named.len(), "{entries}");
    }
}
