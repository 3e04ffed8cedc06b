//! The image in a sealed file that exists in memory alone.

use crate::messages::HandoverImage;
use image::ImageError;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, memfd_create};
use rustix::io::{Errno, pread};
use std::fs::File;
use std::io;
use std::thread;
use zeroize::Zeroizing;

/// Bytes of an image: far more than the limits of clients and connections allow.
pub const IMAGE_SIZE_MAX: u64 = 16 << 30;

/// The seals of an image: it cannot change any more.
const SEALS: SealFlags =
    SealFlags::SEAL.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::WRITE);

/// Writes an image to a file that never reaches a disk by a name.
///
/// # Errors
/// The error of the kernel, which may have no memory left.
pub fn write_image(image: &HandoverImage) -> io::Result<OwnedFd> {
    let file = memfd_create("handover", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(file);
    image::write(image, &mut file)?;
    fcntl_add_seals(&file, SEALS)?;
    Ok(file.into())
}

/// Reads an image. A thread overwrites its bytes in memory, for which clients need not wait.
///
/// # Errors
/// A file that is not sealed or too large, and bytes that are no image.
pub fn read_image(file: impl AsFd) -> Result<HandoverImage, ImageError> {
    let failed = |error: Errno| ImageError::Encoding(format!("it cannot be read: {error}"));
    let size = fstat(&file).map_err(failed)?.st_size;
    let size = u64::try_from(size).ok().filter(|size| *size <= IMAGE_SIZE_MAX);
    let size = size.ok_or(ImageError::Inconsistent("an image that is too large"))?;
    if !fcntl_get_seals(&file).map_err(failed)?.contains(SEALS) {
        return Err(ImageError::Inconsistent("an image that may still change"));
    }
    let size = usize::try_from(size).map_err(|_| ImageError::Inconsistent("an image that is too large"))?;
    let mut bytes = Zeroizing::new(vec![0; size]);
    let mut done = 0;
    while done < size {
        let rest = bytes.get_mut(done..).unwrap_or_default();
        match pread(&file, rest, done as u64) {
            Ok(0) => return Err(ImageError::Inconsistent("an image that is cut off")),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    let image = HandoverImage::read(&bytes);
    // Without a thread they are overwritten here.
    let _ = thread::Builder::new().name("overwrite".into()).spawn(move || drop(bytes));
    image
}
