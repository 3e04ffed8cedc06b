//! Encodes fattr4 directly into the reply (RFC 8881 section 3.3.7), with values in the order of
//! their numbers.

use super::open_arguments::OPEN_ARGUMENTS;
use super::{
    EXCLUSIVE_CREATE, OF_FILE_SYSTEM, OF_QUOTAS,
    acl::{self, Ace},
    features, locations, supported, supported_of,
};
use crate::engine::{Compound, Fh, OpError, OpResult, names};
use nfs4::{Bitmap4, ChangeAttrType4, NfsFtype4, Nfsstat4};
use vfs::{Acls, Attributes, Features, FileType, FsStat, PSEUDO_FSID, Quota, SecFlavor, Timestamp, VfsError};
use xdr::Encoder;

/// FH4_PERSISTENT: filehandles live as long as their objects.
const FH_EXPIRE_TYPE: u32 = nfs4::FH4_PERSISTENT;
/// Attributes that depend on whether the root path of the file system is known.
const OF_ROOT_PATH: Bitmap4 = Bitmap4::of(&[nfs4::FATTR4_SUPPORTED_ATTRS, nfs4::FATTR4_FS_LOCATIONS]);
/// Granularity of times, in nanoseconds.
const TIME_DELTA: Timestamp = Timestamp { seconds: 0, nanoseconds: 1 };

/// Encodes the attributes of an object that are wanted and supported. The file system is queried
/// only for attributes that need it.
///
/// # Errors
/// The backend's, and [`OpStop::Deferred`] for names that are not in a cache.
pub fn encode(
    c: &Compound<'_>,
    fh: &Fh,
    attributes: &Attributes,
    wanted: &Bitmap4,
    reply: &mut Encoder,
) -> OpResult {
    let features = features(fh);
    // Whether an object is on a submount is looked up only if it matters.
    let supported = match wanted.and(&OF_ROOT_PATH).is_empty() {
        true => supported(c.progress.minor, features),
        false => supported_of(c.progress.minor, fh),
    };
    let mut mask = wanted.and(&supported);
    if attributes.btime.is_none() {
        mask.clear(nfs4::FATTR4_TIME_CREATE);
    }
    mask = mask.and(&nfs4::attributes::GETTABLE);
    let quota = if mask.and(&OF_QUOTAS).is_empty() { None } else { quota(c, fh)? };
    if quota.is_none() {
        mask = mask.and_not(&OF_QUOTAS);
    }
    let quota = quota.unwrap_or_default();
    // Names are looked up before anything is written, since a lookup may defer the operation.
    let owner = mask.contains(nfs4::FATTR4_OWNER).then(|| c.owner(attributes.uid)).transpose()?;
    let group = mask.contains(nfs4::FATTR4_OWNER_GROUP).then(|| c.owner_group(attributes.gid)).transpose()?;
    let (owner, group) = (owner.unwrap_or_default(), group.unwrap_or_default());
    let mut acl = Encoder::new();
    if mask.contains(nfs4::FATTR4_ACL) {
        acl::wire::encode(c, &list(c, fh, attributes)?, &mut acl)?;
    }
    let mut places = Encoder::new();
    if mask.contains(nfs4::FATTR4_FS_LOCATIONS) {
        locations::encode_present(c, fh, &mut places)?;
    }
    let whole = if mask.and(&OF_FILE_SYSTEM).is_empty() { FsStat::default() } else { statfs(fh)? };
    let subject =
        EncodedObject { c, fh, attributes, whole, features, supported, owner, group, acl, places, quota };
    reply.value(&mask);
    let length_at = reply.len();
    reply.u32(0);
    for attribute in &mask {
        subject.encode(attribute, reply);
    }
    let length = reply.len() - length_at - 4;
    reply.patch_u32(length_at, u32::try_from(length).unwrap_or(u32::MAX));
    Ok(())
}

/// Returns an object's access control list, or the one equivalent to its mode.
fn list(c: &Compound<'_>, fh: &Fh, attributes: &Attributes) -> OpResult<Vec<Ace>> {
    let acls = match fh {
        Fh::Pseudo(_) => Acls::default(),
        Fh::Object(object) => {
            // The kernel may have to read it from disk.
            c.check_disk(object)?;
            match object.export.backend.acls(&object.handle) {
                Err(VfsError::Notsupp) => Acls::default(),
                acls => acls?,
            }
        }
    };
    Ok(acl::from_posix(&acls, attributes.mode, attributes.file_type == FileType::Directory))
}

/// Returns the remaining quota of an object, if quotas apply and the caller may know them.
fn quota(c: &Compound<'_>, fh: &Fh) -> OpResult<Option<Quota>> {
    let Fh::Object(object) = fh else { return Ok(None) };
    // The kernel may have to read it from disk.
    c.check_disk(object)?;
    Ok(object.export.backend.quota(&c.caller(object), &object.handle)?)
}

fn statfs(fh: &Fh) -> Result<FsStat, OpError> {
    match fh {
        Fh::Object(object) => Ok(object.export.backend.statfs(&object.handle)?),
        Fh::Pseudo(_) => Ok(FsStat {
            name_max: u32::try_from(names::NAME_MAX).unwrap_or(u32::MAX),
            link_max: u32::MAX,
            file_size_max: vfs::OFFSET_MAX,
            ..FsStat::default()
        }),
    }
}

/// An object whose attributes are encoded, with all values looked up.
struct EncodedObject<'s, 'c> {
    c: &'s Compound<'c>,
    fh: &'s Fh,
    attributes: &'s Attributes,
    whole: FsStat,
    features: Features,
    supported: Bitmap4,
    owner: String,
    group: String,
    /// The encoded fattr4_acl; empty where it is not wanted.
    acl: Encoder,
    /// The encoded fs_locations; empty where it is not wanted.
    places: Encoder,
    quota: Quota,
}

impl EncodedObject<'_, '_> {
    /// Encodes the value of one attribute.
    fn encode(&self, attribute: u32, reply: &mut Encoder) {
        let a = self.attributes;
        match attribute {
            nfs4::FATTR4_TYPE => reply.u32(file_type(a.file_type) as u32),
            nfs4::FATTR4_CHANGE => reply.u64(a.change),
            nfs4::FATTR4_SIZE => reply.u64(a.size),
            nfs4::FATTR4_ACL => reply.raw(self.acl.as_slice()),
            nfs4::FATTR4_FILEID => reply.u64(a.fileid),
            nfs4::FATTR4_MODE => reply.u32(a.mode),
            nfs4::FATTR4_NUMLINKS => reply.u32(a.nlink),
            nfs4::FATTR4_OWNER => reply.opaque(self.owner.as_bytes()),
            nfs4::FATTR4_OWNER_GROUP => reply.opaque(self.group.as_bytes()),
            nfs4::FATTR4_QUOTA_AVAIL_HARD => reply.u64(self.quota.avail_hard),
            nfs4::FATTR4_QUOTA_AVAIL_SOFT => reply.u64(self.quota.avail_soft),
            nfs4::FATTR4_QUOTA_USED => reply.u64(self.quota.used),
            nfs4::FATTR4_RAWDEV => reply.u32(a.rdev.0).u32(a.rdev.1),
            nfs4::FATTR4_SPACE_USED => reply.u64(a.space_used),
            nfs4::FATTR4_SPACE_FREED => reply.u64(space_freed(a)),
            nfs4::FATTR4_TIME_ACCESS => time(a.atime, reply),
            nfs4::FATTR4_TIME_CREATE => time(a.btime.unwrap_or_default(), reply),
            nfs4::FATTR4_TIME_METADATA => time(a.ctime, reply),
            nfs4::FATTR4_TIME_MODIFY => time(a.mtime, reply),
            nfs4::FATTR4_TIME_DELTA => time(TIME_DELTA, reply),
            nfs4::FATTR4_RDATTR_ERROR => reply.u32(Nfsstat4::NFS4_OK as u32),
            nfs4::FATTR4_FILEHANDLE => {
                self.c.encode_fh(self.fh, reply);
                reply
            }
            nfs4::FATTR4_FS_LOCATIONS => reply.raw(self.places.as_slice()),
            nfs4::FATTR4_MOUNTED_ON_FILEID => reply.u64(self.c.mounted_on_fileid(self.fh, a)),
            _ => self.encode_of_server(attribute, reply),
        };
    }

    /// Encodes a value that is the same for every object of a file system.
    fn encode_of_server<'e>(&self, attribute: u32, reply: &'e mut Encoder) -> &'e mut Encoder {
        let config = &self.c.nfs.config;
        let whole = &self.whole;
        match attribute {
            nfs4::FATTR4_SUPPORTED_ATTRS => reply.value(&self.supported),
            nfs4::FATTR4_SUPPATTR_EXCLCREAT => reply.value(&EXCLUSIVE_CREATE.and(&self.supported)),
            nfs4::FATTR4_FH_EXPIRE_TYPE => reply.u32(FH_EXPIRE_TYPE),
            nfs4::FATTR4_FSID => {
                let (major, minor) = self.fsid();
                reply.u64(major).u64(minor)
            }
            nfs4::FATTR4_LEASE_TIME => {
                reply.u32(u32::try_from(config.limits.lease.as_secs()).unwrap_or(u32::MAX))
            }
            nfs4::FATTR4_MAXREAD if self.is_protected() => {
                reply.u64(config.read_protected_max.min(config.read_max).into())
            }
            nfs4::FATTR4_MAXREAD => reply.u64(config.read_max.into()),
            nfs4::FATTR4_MAXWRITE if self.is_protected() => {
                reply.u64(config.write_protected_max.min(config.write_max).into())
            }
            nfs4::FATTR4_MAXWRITE => reply.u64(config.write_max.into()),
            nfs4::FATTR4_FILES_AVAIL => reply.u64(whole.files_avail),
            nfs4::FATTR4_FILES_FREE => reply.u64(whole.files_free),
            nfs4::FATTR4_FILES_TOTAL => reply.u64(whole.files_total),
            nfs4::FATTR4_SPACE_AVAIL => reply.u64(whole.space_avail),
            nfs4::FATTR4_SPACE_FREE => reply.u64(whole.space_free),
            nfs4::FATTR4_SPACE_TOTAL => reply.u64(whole.space_total),
            nfs4::FATTR4_MAXFILESIZE => reply.u64(whole.file_size_max),
            nfs4::FATTR4_MAXLINK => reply.u32(whole.link_max),
            nfs4::FATTR4_MAXNAME => reply.u32(whole.name_max),
            nfs4::FATTR4_FS_LAYOUT_TYPES => reply.array_len(0),
            nfs4::FATTR4_FS_CHARSET_CAP => reply.u32(nfs4::FSCHARSET_CAP4_CONTAINS_NON_UTF8),
            nfs4::FATTR4_ACLSUPPORT => reply.u32(nfs4::ACL4_SUPPORT_ALLOW_ACL | nfs4::ACL4_SUPPORT_DENY_ACL),
            nfs4::FATTR4_CLONE_BLKSIZE => reply.u32(self.features.clone_block),
            nfs4::FATTR4_CHANGE_ATTR_TYPE => reply.u32(change_attr_type(self.features) as u32),
            nfs4::FATTR4_OPEN_ARGUMENTS => reply.value(&OPEN_ARGUMENTS),
            nfs4::FATTR4_XATTR_SUPPORT => reply.boolean(self.features.xattrs),
            other => reply.boolean(is_true_of_server(other)),
        }
    }

    /// Returns whether the data of this caller's requests is signed or encrypted.
    fn is_protected(&self) -> bool {
        matches!(self.c.call.security.flavor, SecFlavor::Krb5i | SecFlavor::Krb5p)
    }

    /// Returns the fsid: one for each file system of an export, and one for all pseudo directories.
    fn fsid(&self) -> (u64, u64) {
        match self.fh {
            Fh::Pseudo(_) => PSEUDO_FSID,
            Fh::Object(object) => (object.export.id.into(), object.export.backend.part(&object.handle)),
        }
    }
}

/// Returns the value of a boolean attribute. Named attributes and case folding are absent.
fn is_true_of_server(attribute: u32) -> bool {
    matches!(
        attribute,
        nfs4::FATTR4_LINK_SUPPORT
            | nfs4::FATTR4_SYMLINK_SUPPORT
            | nfs4::FATTR4_UNIQUE_HANDLES
            | nfs4::FATTR4_CANSETTIME
            | nfs4::FATTR4_CASE_PRESERVING
            | nfs4::FATTR4_CHOWN_RESTRICTED
            | nfs4::FATTR4_HOMOGENEOUS
            | nfs4::FATTR4_NO_TRUNC
    )
}

/// Returns the bytes that removing the name frees (RFC 7862 section 12.2.2): none while there are
/// other names.
fn space_freed(attributes: &Attributes) -> u64 {
    let last = attributes.nlink <= 1 || attributes.file_type == FileType::Directory;
    if last { attributes.space_used } else { 0 }
}

/// Returns the type of the change attribute. One taken from ctime decreases when the clock is set
/// back, so nothing is promised about it.
fn change_attr_type(features: Features) -> ChangeAttrType4 {
    match features.change_grows {
        true => ChangeAttrType4::NFS4_CHANGE_TYPE_IS_MONOTONIC_INCR,
        false => ChangeAttrType4::NFS4_CHANGE_TYPE_IS_UNDEFINED,
    }
}

fn time(time: Timestamp, reply: &mut Encoder) -> &mut Encoder {
    reply.i64(time.seconds).u32(time.nanoseconds)
}

fn file_type(file_type: FileType) -> NfsFtype4 {
    match file_type {
        FileType::Regular => NfsFtype4::NF4REG,
        FileType::Directory => NfsFtype4::NF4DIR,
        FileType::Symlink => NfsFtype4::NF4LNK,
        FileType::Block => NfsFtype4::NF4BLK,
        FileType::Character => NfsFtype4::NF4CHR,
        FileType::Socket => NfsFtype4::NF4SOCK,
        FileType::Fifo => NfsFtype4::NF4FIFO,
    }
}
