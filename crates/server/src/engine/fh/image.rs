//! The image of a file's key.

use super::FileKey;
use image::{ImageError, SharedBytes};
use minicbor::{Decode, Encode};
use vfs::{Identity, ObjectHandle};

/// The key of a file in an image.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct FileKeyImage {
    #[n(0)]
    export: u32,
    #[n(1)]
    handle: SharedBytes,
    /// The number of the file system, and the bytes to skip.
    #[n(2)]
    identity: Option<(u64, u32)>,
    /// Whether other servers serve the file system, too.
    #[n(3)]
    shared: Option<bool>,
}

impl From<&FileKey> for FileKeyImage {
    fn from(key: &FileKey) -> Self {
        let FileKey { export, handle, identity } = key;
        let shared = identity.map(|identity| identity.shared);
        let identity = identity.map(|Identity { device, skip, shared: _ }| (device, skip as u32));
        Self { export: *export, handle: SharedBytes::from(handle.as_bytes()), identity, shared }
    }
}

impl TryFrom<FileKeyImage> for FileKey {
    type Error = ImageError;

    fn try_from(FileKeyImage { export, handle, identity, shared }: FileKeyImage) -> Result<Self, ImageError> {
        let handle = ObjectHandle::new(&handle.0).ok_or(ImageError::Inconsistent("the handle of a file"))?;
        let shared = shared.unwrap_or_default();
        let identity = identity.map(|(device, skip)| Identity { device, skip: skip as usize, shared });
        Ok(Self { export, handle, identity })
    }
}
