//! The form in which Linux stores access control lists in extended attributes.

use crate::PosixAcl;

/// Version of the kernel's format.
const VERSION: u32 = 2;
/// The number in entries that name no user or group.
const NOBODY: u32 = u32::MAX;
/// Bytes of one entry: tag and rights of 16 bits, number of 32, little endian.
const ENTRY: usize = 8;
/// The kinds of entries (`e_tag` of posix_acl_xattr.h).
mod tag {
    pub(super) const USER_OBJ: u16 = 0x01;
    pub(super) const USER: u16 = 0x02;
    pub(super) const GROUP_OBJ: u16 = 0x04;
    pub(super) const GROUP: u16 = 0x08;
    pub(super) const MASK: u16 = 0x10;
    pub(super) const OTHER: u16 = 0x20;
}

impl PosixAcl {
    /// Returns the list as the attributes `system.posix_acl_access` and `system.posix_acl_default`
    /// have it (posix_acl_xattr.h of Linux).
    pub fn to_xattr(&self) -> Vec<u8> {
        let list = self;
        let mut bytes = VERSION.to_le_bytes().to_vec();
        let mut entry = |tag: u16, rights: u8, number: u32| {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&u16::from(rights & 7).to_le_bytes());
            bytes.extend_from_slice(&number.to_le_bytes());
        };
        entry(tag::USER_OBJ, list.owner, NOBODY);
        list.users.iter().for_each(|(uid, rights)| entry(tag::USER, *rights, *uid));
        entry(tag::GROUP_OBJ, list.group, NOBODY);
        list.groups.iter().for_each(|(gid, rights)| entry(tag::GROUP, *rights, *gid));
        if let Some(mask) = list.mask {
            entry(tag::MASK, mask, NOBODY);
        }
        entry(tag::OTHER, list.other, NOBODY);
        bytes
    }

    /// Reads such an attribute; `None` for bytes that are no list.
    pub fn from_xattr(bytes: &[u8]) -> Option<Self> {
        let (version, entries) = bytes.split_first_chunk()?;
        if u32::from_le_bytes(*version) != VERSION || !entries.len().is_multiple_of(ENTRY) {
            return None;
        }
        let mut list = Self::default();
        for entry in entries.chunks_exact(ENTRY) {
            let [tag_low, tag_high, rights, _, number @ ..] = entry.first_chunk::<ENTRY>()?;
            let (rights, number) = (rights & 7, u32::from_le_bytes(*number));
            match u16::from_le_bytes([*tag_low, *tag_high]) {
                tag::USER_OBJ => list.owner = rights,
                tag::USER => drop(list.users.insert(number, rights)),
                tag::GROUP_OBJ => list.group = rights,
                tag::GROUP => drop(list.groups.insert(number, rights)),
                tag::MASK => list.mask = Some(rights),
                tag::OTHER => list.other = rights,
                _ => return None,
            }
        }
        Some(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let list = PosixAcl {
            owner: 7,
            users: [(1000, 6), (1001, 0)].into(),
            group: 5,
            groups: [(2000, 4)].into(),
            mask: Some(6),
            other: 1,
        };
        assert_eq!(PosixAcl::from_xattr(&list.to_xattr()), Some(list));
        assert_eq!(
            PosixAcl::from_xattr(&PosixAcl::of_mode(0o640).to_xattr()),
            Some(PosixAcl::of_mode(0o640))
        );
    }

    #[test]
    fn an_attribute_that_is_no_list_gives_none() {
        for bytes in
            [&[][..], &[2, 0, 0], &[3, 0, 0, 0], &[2, 0, 0, 0, 1], &[2, 0, 0, 0, 3, 0, 7, 0, 0, 0, 0, 0]]
        {
            assert_eq!(PosixAcl::from_xattr(bytes), None, "{bytes:?}");
        }
    }
}
