//! The attribute fs_locations, and the attributes of absent file systems (RFC 8881 sections 11.16
//! and 11.4; RFC 7530 sections 8.8 and 8.3).

use crate::engine::{Compound, Fh, Object, OpResult};
use nfs4::{
    Bitmap4, FATTR4_FS_LOCATIONS, FATTR4_FS_LOCATIONS_INFO, FATTR4_FS_STATUS, FATTR4_FSID,
    FATTR4_MOUNTED_ON_FILEID, FATTR4_RDATTR_ERROR, Nfsstat4,
};
use vfs::{LocationGroup, Place, group_locations, path_names};
use xdr::Encoder;

/// Attributes whose request shows that the client expects an absent file system. The server
/// supports the first of them.
const OF_LOCATIONS: Bitmap4 = Bitmap4::of(&[FATTR4_FS_LOCATIONS, FATTR4_FS_LOCATIONS_INFO, FATTR4_FS_STATUS]);

/// Attributes of an absent file system that the server supports. Others are not available even
/// where they are known.
const OF_ABSENT: Bitmap4 =
    Bitmap4::of(&[FATTR4_FSID, FATTR4_RDATTR_ERROR, FATTR4_FS_LOCATIONS, FATTR4_MOUNTED_ON_FILEID]);

/// Returns whether a request for these attributes may succeed in an absent file system (RFC 8881
/// section 11.4.1). NFSv4.0 has only fs_locations (RFC 7530 section 8.3.1).
pub fn asks_locations(minor: u32, wanted: &Bitmap4) -> bool {
    match minor {
        0 => wanted.contains(FATTR4_FS_LOCATIONS),
        _ => !wanted.and(&OF_LOCATIONS).is_empty(),
    }
}

/// Returns the attributes of an object in an absent file system. Only its root has a
/// mounted_on_fileid: the fileid is in the file system above.
pub fn supported_absent(object: &Object) -> Bitmap4 {
    let mut all = OF_ABSENT;
    if !object.is_root() {
        all.clear(FATTR4_MOUNTED_ON_FILEID);
    }
    all
}

/// Encodes the attributes of an object in an absent file system that are wanted and available, with
/// `error` as rdattr_error.
pub fn encode_absent(
    c: &Compound<'_>,
    object: &Object,
    wanted: &Bitmap4,
    error: Nfsstat4,
    reply: &mut Encoder,
) {
    let mask = wanted.and(&supported_absent(object));
    reply.value(&mask);
    let length_at = reply.len();
    reply.u32(0);
    for attribute in &mask {
        match attribute {
            FATTR4_FSID => {
                reply.u64(object.export.id.into()).u64(0);
            }
            FATTR4_RDATTR_ERROR => {
                reply.u32(error as u32);
            }
            FATTR4_FS_LOCATIONS => encode_groups(
                &object.export.pseudo_path,
                &object.export.location_groups(c.progress.exports.addresses()),
                reply,
            ),
            _ => {
                let fileid = c.progress.exports.pseudo().fileid(Place::Export(object.export.id));
                reply.u64(fileid.unwrap_or_default());
            }
        }
    }
    let length = reply.len() - length_at - 4;
    reply.patch_u32(length_at, u32::try_from(length).unwrap_or(u32::MAX));
}

/// Returns whether the server knows the root path of a filehandle's file system. It does not for
/// submounts, whose fs_locations is unsupported.
pub(super) fn has_root_path(fh: &Fh) -> bool {
    match fh {
        Fh::Pseudo(_) => true,
        Fh::Object(object) => object.export.backend.part(&object.handle) == 0,
    }
}

/// Encodes fs_locations of a present file system: the server's own addresses, by which clients
/// discover trunking (RFC 8881 section 11.5.2), and the file system's other locations.
///
/// # Errors
/// As [`Compound::await_client`].
pub(super) fn encode_present(c: &Compound<'_>, fh: &Fh, reply: &mut Encoder) -> OpResult {
    let addresses = c.progress.exports.addresses();
    match fh {
        Fh::Object(object) => {
            let export = &object.export;
            encode_groups(&export.pseudo_path, &export.location_groups(addresses), reply);
        }
        Fh::Pseudo(fileid) => {
            let root = c.await_client(|exports, peer| exports.pseudo().root_path(*fileid, peer))?;
            encode_groups(&root, &group_locations(Some(&root), addresses, &[]), reply);
        }
    }
    Ok(())
}

/// Encodes fs_locations4 of a file system whose root is at `root` in this server's namespace.
fn encode_groups(root: &str, groups: &[LocationGroup<'_>], reply: &mut Encoder) {
    encode_path(root, reply);
    reply.array_len(groups.len());
    for group in groups {
        reply.array_len(group.servers.len());
        for server in &group.servers {
            reply.opaque(server.as_bytes());
        }
        encode_path(group.path, reply);
    }
}

/// Encodes a path as pathname4.
fn encode_path(path: &str, reply: &mut Encoder) {
    reply.array_len(path_names(path).count());
    for name in path_names(path) {
        reply.opaque(name.as_bytes());
    }
}
