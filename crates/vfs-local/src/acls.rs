//! Access control lists, as the kernel keeps them in extended attributes. The kernel checks
//! permissions and enforces the lists.

use crate::{LocalBackend, cache::CachedObject, errno::vfs_error};
use rustix::{
    buffer::spare_capacity,
    fs::{FileType, XattrFlags, getxattr, removexattr, setxattr},
    io::Errno,
};
use vfs::{ACL_ENTRIES_MAX, Acls, PosixAcl, VfsError, VfsResult};

/// The list that is enforced.
const ACCESS: &str = "system.posix_acl_access";
/// The list that new objects of a directory get.
const DEFAULT: &str = "system.posix_acl_default";
/// Version of the kernel's format.
const VERSION: u32 = 2;
/// The number in entries that name no user or group.
const NOBODY: u32 = u32::MAX;
/// Bytes of one entry: tag and rights of 16 bits, number of 32, little endian.
const ENTRY: usize = 8;
/// Most bytes of a list.
const SIZE_MAX: usize = 64 << 10;

/// The kinds of entries (`e_tag` of posix_acl_xattr.h).
mod tag {
    pub(super) const USER_OBJ: u16 = 0x01;
    pub(super) const USER: u16 = 0x02;
    pub(super) const GROUP_OBJ: u16 = 0x04;
    pub(super) const GROUP: u16 = 0x08;
    pub(super) const MASK: u16 = 0x10;
    pub(super) const OTHER: u16 = 0x20;
}

impl LocalBackend {
    pub(crate) fn read_acls(&self, object: &CachedObject) -> VfsResult<Acls> {
        if object.file_type == FileType::Symlink || !self.features.acls {
            return Err(VfsError::Notsupp);
        }
        let path = self.path_of(object);
        let default = match object.file_type {
            FileType::Directory => read(&path, DEFAULT)?,
            _ => None,
        };
        Ok(Acls { access: read(&path, ACCESS)?, default })
    }

    /// Says whether a directory gives new objects their permissions.
    pub(crate) fn has_default_acl(&self, directory: &CachedObject) -> bool {
        self.features.acls && read(&self.path_of(directory), DEFAULT).is_ok_and(|list| list.is_some())
    }

    /// Sets or takes away both lists, with the rights of the thread.
    pub(crate) fn write_acls(&self, object: &CachedObject, acls: &Acls) -> VfsResult<()> {
        if object.file_type == FileType::Symlink || !self.features.acls {
            return Err(VfsError::Notsupp);
        }
        let path = self.path_of(object);
        write(&path, ACCESS, acls.access.as_ref())?;
        match (object.file_type, &acls.default) {
            (FileType::Directory, default) => write(&path, DEFAULT, default.as_ref()),
            (_, None) => Ok(()),
            (_, Some(_)) => Err(VfsError::Inval),
        }
    }
}

fn read(path: &str, name: &str) -> VfsResult<Option<PosixAcl>> {
    let mut bytes = Vec::with_capacity(SIZE_MAX);
    match getxattr(path, name, spare_capacity(&mut bytes)) {
        Ok(_) => decode(&bytes).map(Some).ok_or(VfsError::Io),
        Err(Errno::NODATA) => Ok(None),
        Err(errno) => Err(vfs_error(errno)),
    }
}

fn write(path: &str, name: &str, list: Option<&PosixAcl>) -> VfsResult<()> {
    let done = match list {
        Some(list) if list.named() > ACL_ENTRIES_MAX => return Err(VfsError::Nospc),
        Some(list) => setxattr(path, name, &encode(list), XattrFlags::empty()),
        None => removexattr(path, name),
    };
    match done {
        Err(Errno::NODATA) => Ok(()),
        // The file system has no room for so many entries.
        Err(Errno::TOOBIG | Errno::RANGE) => Err(VfsError::Nospc),
        done => done.map_err(vfs_error),
    }
}

fn encode(list: &PosixAcl) -> Vec<u8> {
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

fn decode(bytes: &[u8]) -> Option<PosixAcl> {
    let (version, entries) = bytes.split_first_chunk()?;
    if u32::from_le_bytes(*version) != VERSION || !entries.len().is_multiple_of(ENTRY) {
        return None;
    }
    let mut list = PosixAcl::default();
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
        assert_eq!(decode(&encode(&list)), Some(list));
        assert_eq!(decode(&encode(&PosixAcl::of_mode(0o640))), Some(PosixAcl::of_mode(0o640)));
    }

    #[test]
    fn what_is_not_a_list_is_none() {
        for bytes in
            [&[][..], &[2, 0, 0], &[3, 0, 0, 0], &[2, 0, 0, 0, 1], &[2, 0, 0, 0, 3, 0, 7, 0, 0, 0, 0, 0]]
        {
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
    }
}
