//! Attributes: conversion between the backend's form and fattr4 (RFC 8881 section 5).

pub mod acl;
mod decode;
mod encode;
mod locations;
mod open_arguments;

pub use decode::{Settable, Subject, decode};
pub use encode::encode;
pub use locations::{asks_locations, encode_absent, supported_absent};

use crate::engine::Fh;
use nfs4::{
    Bitmap4, FATTR4_ACL, FATTR4_ACLSUPPORT, FATTR4_CANSETTIME, FATTR4_CASE_INSENSITIVE,
    FATTR4_CASE_PRESERVING, FATTR4_CHANGE, FATTR4_CHANGE_ATTR_TYPE, FATTR4_CHOWN_RESTRICTED,
    FATTR4_CLONE_BLKSIZE, FATTR4_FH_EXPIRE_TYPE, FATTR4_FILEHANDLE, FATTR4_FILEID, FATTR4_FILES_AVAIL,
    FATTR4_FILES_FREE, FATTR4_FILES_TOTAL, FATTR4_FS_CHARSET_CAP, FATTR4_FS_LAYOUT_TYPES,
    FATTR4_FS_LOCATIONS, FATTR4_FSID, FATTR4_HOMOGENEOUS, FATTR4_LEASE_TIME, FATTR4_LINK_SUPPORT,
    FATTR4_MAXFILESIZE, FATTR4_MAXLINK, FATTR4_MAXNAME, FATTR4_MAXREAD, FATTR4_MAXWRITE, FATTR4_MODE,
    FATTR4_MODE_UMASK, FATTR4_MOUNTED_ON_FILEID, FATTR4_NAMED_ATTR, FATTR4_NO_TRUNC, FATTR4_NUMLINKS,
    FATTR4_OPEN_ARGUMENTS, FATTR4_OWNER, FATTR4_OWNER_GROUP, FATTR4_QUOTA_AVAIL_HARD,
    FATTR4_QUOTA_AVAIL_SOFT, FATTR4_QUOTA_USED, FATTR4_RAWDEV, FATTR4_RDATTR_ERROR, FATTR4_SIZE,
    FATTR4_SPACE_AVAIL, FATTR4_SPACE_FREE, FATTR4_SPACE_FREED, FATTR4_SPACE_TOTAL, FATTR4_SPACE_USED,
    FATTR4_SUPPATTR_EXCLCREAT, FATTR4_SUPPORTED_ATTRS, FATTR4_SYMLINK_SUPPORT, FATTR4_TIME_ACCESS,
    FATTR4_TIME_ACCESS_SET, FATTR4_TIME_CREATE, FATTR4_TIME_DELTA, FATTR4_TIME_METADATA, FATTR4_TIME_MODIFY,
    FATTR4_TIME_MODIFY_SET, FATTR4_TYPE, FATTR4_UNIQUE_HANDLES, FATTR4_XATTR_SUPPORT,
};
use vfs::Features;

/// Attributes that clients may send and no file system can set. macOS and Windows send the time of
/// creation with every copy of a file: an error would fail the copy. attrset leaves them out (RFC
/// 8881 section 18.30.3).
const IGNORED: Bitmap4 = Bitmap4::of(&[FATTR4_TIME_CREATE]);

/// Attributes that SETATTR can set.
pub const SETTABLE: Bitmap4 = Bitmap4::of(&[
    FATTR4_SIZE,
    FATTR4_MODE,
    FATTR4_OWNER,
    FATTR4_OWNER_GROUP,
    FATTR4_TIME_ACCESS_SET,
    FATTR4_TIME_MODIFY_SET,
    FATTR4_MODE_UMASK,
    FATTR4_ACL,
]);

/// Attributes that exclusive creation can set: not the times, which hold the verifier
/// (suppattr_exclcreat, RFC 8881 section 5.8.1.14).
pub const EXCLUSIVE_CREATE: Bitmap4 =
    Bitmap4::of(&[FATTR4_SIZE, FATTR4_MODE, FATTR4_OWNER, FATTR4_OWNER_GROUP, FATTR4_MODE_UMASK]);

/// Attributes that can only be set, not read.
const WRITE_ONLY: Bitmap4 = Bitmap4::of(&[FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET, FATTR4_MODE_UMASK]);

/// Attributes that need a query of the file system as a whole.
const OF_FILE_SYSTEM: Bitmap4 = Bitmap4::of(&[
    FATTR4_FILES_AVAIL,
    FATTR4_FILES_FREE,
    FATTR4_FILES_TOTAL,
    FATTR4_MAXFILESIZE,
    FATTR4_MAXLINK,
    FATTR4_MAXNAME,
    FATTR4_SPACE_AVAIL,
    FATTR4_SPACE_FREE,
    FATTR4_SPACE_TOTAL,
]);

/// Attributes that NFSv4.2 adds.
const OF_MINOR_2: Bitmap4 = Bitmap4::of(&[
    FATTR4_OPEN_ARGUMENTS,
    FATTR4_SPACE_FREED,
    FATTR4_CHANGE_ATTR_TYPE,
    FATTR4_MODE_UMASK,
    FATTR4_XATTR_SUPPORT,
]);

/// Additional attributes of file systems with access control lists. dacl and sacl are absent,
/// because the server has no automatic inheritance and no AUDIT or ALARM entries.
const OF_ACLS: Bitmap4 = Bitmap4::of(&[FATTR4_ACL, FATTR4_ACLSUPPORT]);

/// Additional attributes of file systems with quotas.
const OF_QUOTAS: Bitmap4 =
    Bitmap4::of(&[FATTR4_QUOTA_AVAIL_HARD, FATTR4_QUOTA_AVAIL_SOFT, FATTR4_QUOTA_USED]);

/// Additional attributes in NFSv4.2 of file systems in which files can share blocks.
const OF_CLONES: Bitmap4 = Bitmap4::of(&[FATTR4_CLONE_BLKSIZE]);

/// Attributes that NFSv4.1 can read or set on every file system.
const OF_MINOR_1: Bitmap4 = Bitmap4::of(&[
    FATTR4_SUPPORTED_ATTRS,
    FATTR4_TYPE,
    FATTR4_FH_EXPIRE_TYPE,
    FATTR4_CHANGE,
    FATTR4_SIZE,
    FATTR4_LINK_SUPPORT,
    FATTR4_SYMLINK_SUPPORT,
    FATTR4_NAMED_ATTR,
    FATTR4_FSID,
    FATTR4_UNIQUE_HANDLES,
    FATTR4_LEASE_TIME,
    FATTR4_RDATTR_ERROR,
    FATTR4_CANSETTIME,
    FATTR4_CASE_INSENSITIVE,
    FATTR4_CASE_PRESERVING,
    FATTR4_CHOWN_RESTRICTED,
    FATTR4_FILEHANDLE,
    FATTR4_FILEID,
    FATTR4_FS_LOCATIONS,
    FATTR4_HOMOGENEOUS,
    FATTR4_MAXREAD,
    FATTR4_MAXWRITE,
    FATTR4_MODE,
    FATTR4_NO_TRUNC,
    FATTR4_NUMLINKS,
    FATTR4_OWNER,
    FATTR4_OWNER_GROUP,
    FATTR4_RAWDEV,
    FATTR4_SPACE_USED,
    FATTR4_TIME_ACCESS,
    FATTR4_TIME_ACCESS_SET,
    FATTR4_TIME_CREATE,
    FATTR4_TIME_DELTA,
    FATTR4_TIME_METADATA,
    FATTR4_TIME_MODIFY,
    FATTR4_TIME_MODIFY_SET,
    FATTR4_MOUNTED_ON_FILEID,
    FATTR4_FS_LAYOUT_TYPES,
    FATTR4_SUPPATTR_EXCLCREAT,
    FATTR4_FS_CHARSET_CAP,
])
.or(&OF_FILE_SYSTEM);

/// Attributes that NFSv4.1 adds: the last one of NFSv4.0 is mounted_on_fileid.
const ADDED_BY_MINOR_1: Bitmap4 =
    Bitmap4::of(&[FATTR4_FS_LAYOUT_TYPES, FATTR4_SUPPATTR_EXCLCREAT, FATTR4_FS_CHARSET_CAP]);

/// Returns supported_attrs of a minor version on a file system with a known root path.
pub fn supported(minor: u32, features: Features) -> Bitmap4 {
    let mut all = OF_MINOR_1;
    if features.acls {
        all = all | OF_ACLS;
    }
    if features.quotas {
        all = all | OF_QUOTAS;
    }
    if minor == 0 {
        all = all.and_not(&ADDED_BY_MINOR_1);
    }
    if minor >= 2 {
        all = all | OF_MINOR_2;
    }
    if minor >= 2 && features.clone_block > 0 {
        all = all | OF_CLONES;
    }
    all
}

/// Returns supported_attrs of a filehandle.
pub fn supported_of(minor: u32, fh: &Fh) -> Bitmap4 {
    let mut all = supported(minor, features(fh));
    if !locations::has_root_path(fh) {
        all.clear(FATTR4_FS_LOCATIONS);
    }
    all
}

/// Returns the features of a filehandle's file system; the pseudo file system has none.
pub fn features(fh: &Fh) -> Features {
    match fh {
        Fh::Pseudo(_) => Features::default(),
        Fh::Object(object) => object.export.backend.features_of(&object.handle),
    }
}

/// Returns whether the bitmap has attributes that can only be set: NFS4ERR_INVAL (RFC 8881 section
/// 5.5). Attributes that the minor version lacks are left out of the reply instead.
pub fn asks_write_only(minor: u32, wanted: &Bitmap4) -> bool {
    let known = supported(minor, Features::default());
    !wanted.and(&WRITE_ONLY).and(&known).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_required_attribute_is_supported() // RFC 8881 section 5.6
    {
        let least = supported(1, Features::default());
        assert!(nfs4::attributes::REQUIRED.is_subset_of(&least));
        assert!(least.is_subset_of(&supported(2, Features::default())));
        let first =
            supported(0, Features { acls: true, quotas: true, clone_block: 4096, ..Features::default() });
        assert!(
            first.iter().all(|attribute| attribute <= nfs4::FATTR4_MOUNTED_ON_FILEID),
            "RFC 7530 section 5.6"
        );
        assert!(EXCLUSIVE_CREATE.is_subset_of(&SETTABLE));
        let most = Features { acls: true, ..Features::default() };
        assert!(SETTABLE.is_subset_of(&supported(2, most)));
        let accepted = SETTABLE.or(&IGNORED);
        assert!(supported(2, most).and(&nfs4::attributes::SETTABLE).is_subset_of(&accepted));
    }
}
