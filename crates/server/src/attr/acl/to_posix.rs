//! Conversion of NFSv4 lists to POSIX lists.

use super::{Ace, INHERIT, Who, rights_of};
use nfs4::{ACE4_INHERIT_ONLY_ACE, ACE4_NO_PROPAGATE_INHERIT_ACE};
use std::collections::BTreeSet;
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

impl AclSource<'_> {
    fn list(&self) -> Result<PosixAcl, Unfit> {
        let mut list = PosixAcl {
            owner: self.rights(Class::Owner)?,
            group: self.rights(Class::Group)?,
            other: self.rights(Class::Other)?,
            ..PosixAcl::default()
        };
        let named: BTreeSet<(bool, u32)> = self
            .aces
            .iter()
            .filter_map(|ace| match ace.who {
                Who::User(uid) => Some((false, uid)),
                Who::NamedGroup(gid) => Some((true, gid)),
                _ => None,
            })
            .collect();
        for (is_group, number) in named {
            if is_group {
                list.groups.insert(number, self.rights(Class::NamedGroup(number))?);
            } else {
                list.users.insert(number, self.rights(Class::User(number))?);
            }
        }
        set_mask(&mut list);
        Ok(list)
    }

    /// Returns the rights that every member of a class has, by the rule of RFC 8881 section 6.2.1:
    /// each bit is decided by the first entry about it.
    fn rights(&self, class: Class) -> Result<u8, Unfit> {
        let (mut allowed, mut denied, mut doubtful) = (0, 0, 0);
        for ace in self.aces {
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
