//! Paths of the pseudo file system.

/// Longest pseudo path in components.
pub const PSEUDO_DEPTH_MAX: usize = 64;
/// Longest component of a pseudo path in bytes.
pub const PSEUDO_NAME_MAX: usize = 255;

/// Returns a pseudo path in the one form "/" or "/a/b". `None` if it is not absolute, too deep, or
/// has a name that NFS does not allow.
pub(crate) fn normalised(path: &str) -> Option<String> {
    let names: Vec<&str> = path.strip_prefix('/')?.split('/').filter(|name| !name.is_empty()).collect();
    let bad =
        |name: &&str| matches!(*name, "." | "..") || name.len() > PSEUDO_NAME_MAX || name.contains('\0');
    if names.len() > PSEUDO_DEPTH_MAX || names.iter().any(bad) {
        return None;
    }
    Some(format!("/{}", names.join("/")))
}

/// Hashes a path to a fileid (FNV-1a, 63 bits, above the reserved cookies): the same on every
/// machine.
pub(crate) fn path_hash(path: &str) -> u64 {
    let hash = path.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash >> 1).max(3)
}
