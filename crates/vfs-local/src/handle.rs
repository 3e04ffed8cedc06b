//! The handles that clients carry: the kernel's handle and the inode number.

use crate::sys::{FS_HANDLE_MAX, FsHandle, HANDLE_PREFIX};
use vfs::{ObjectHandle, VfsError, VfsResult};

/// Tells this layout from others.
const VERSION: u8 = 1;

/// Packs a handle; the inode number lets a server without root find the object again.
///
/// # Errors
/// `Notsupp` for a kind of handle that no file system of Linux has.
pub(crate) fn encode(ino: u64, handle: &FsHandle) -> VfsResult<ObjectHandle> {
    let kind = u16::try_from(handle.kind).map_err(|_| VfsError::Notsupp)?;
    let mut bytes = Vec::with_capacity(HANDLE_PREFIX + handle.len);
    bytes.push(VERSION);
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&ino.to_be_bytes());
    bytes.extend_from_slice(handle.bytes.get(..handle.len).unwrap_or_default());
    ObjectHandle::new(&bytes).ok_or(VfsError::Notsupp)
}

/// Unpacks a handle that a client sent.
///
/// # Errors
/// `Badhandle` for bytes that this backend cannot have made.
pub(crate) fn decode(handle: &ObjectHandle) -> VfsResult<(u64, FsHandle)> {
    let (prefix, rest) = handle.as_bytes().split_first_chunk::<HANDLE_PREFIX>().ok_or(VfsError::Badhandle)?;
    let [VERSION, k0, k1, ino @ ..] = *prefix else { return Err(VfsError::Badhandle) };
    let mut bytes = [0; FS_HANDLE_MAX];
    bytes.get_mut(..rest.len()).ok_or(VfsError::Badhandle)?.copy_from_slice(rest);
    let kind = i32::from(u16::from_be_bytes([k0, k1]));
    Ok((u64::from_be_bytes(ino), FsHandle { kind, len: rest.len(), bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_comes_back_as_it_went() {
        let mut bytes = [0; FS_HANDLE_MAX];
        bytes[..8].copy_from_slice(b"12345678");
        let handle = FsHandle { kind: 0x81, len: 8, bytes };
        let packed = encode(u64::MAX - 1, &handle).unwrap();
        assert_eq!(packed.as_bytes().len(), HANDLE_PREFIX + 8);
        assert_eq!(decode(&packed), Ok((u64::MAX - 1, handle)));
    }

    #[test]
    fn the_longest_handle_of_a_file_system_fits() {
        let handle = FsHandle { kind: 1, len: FS_HANDLE_MAX, bytes: [7; FS_HANDLE_MAX] };
        assert_eq!(encode(2, &handle).unwrap().as_bytes().len(), vfs::OBJECT_HANDLE_MAX);
    }

    #[test]
    fn a_handle_that_is_too_short_or_of_another_version_is_bad() {
        for bytes in [&[][..], &[1; HANDLE_PREFIX - 1], &[2; 20], &[0; 96]] {
            assert_eq!(decode(&ObjectHandle::new(bytes).unwrap()), Err(VfsError::Badhandle));
        }
    }
}
