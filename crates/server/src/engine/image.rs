//! The image of the server, for the next process.
//!
//! It is made while no call runs. Open files, leases and locks of file systems do not go into it:
//! the caller keeps them, and the image has their numbers.

mod objects;

pub use objects::{InboundObjects, ObjectsImage, OutboundObjects};

use super::fh::image::FileKeyImage;
use super::former_exports::{FormerExports, FormerKeys, HandleKeyImage};
use super::local_locks::{LateRangesImage, LocalLocks, LocalLocksImage};
use super::offload::image::{BackgroundCopyImage, OffloadsImage};
use super::program_waits::ProgramWaits;
use super::program_waits::image::FileWaitsImage;
use super::replies::Replies;
use super::replies::image::ReplyImage;
use super::{BackgroundCopy, FileKey, Nfs, OpenPayload};
use crate::callback::CallbacksImage;
use image::{ImageError, ensure};
use minicbor::{Decode, Encode};
use state::StateImage;
use std::sync::Arc;
use std::time::Duration;
use vfs::{Broken, Lease, OpenFile, RangeLocks};

/// Keeps the objects of backends for the next process, and numbers them. The same object has one
/// number.
pub trait ObjectsOut {
    /// Keeps an open file.
    fn file(&mut self, key: &FileKey, file: &Arc<dyn OpenFile>) -> u32;

    /// Keeps a lease of the kernel.
    fn lease(&mut self, key: &FileKey, lease: &Arc<dyn Lease>) -> u32;

    /// Keeps the locks on a file.
    fn locks(&mut self, key: &FileKey, locks: &Arc<dyn RangeLocks>) -> u32;
}

/// The source of the objects that the previous process kept.
pub trait ObjectsIn {
    /// Returns an open file.
    ///
    /// # Errors
    /// [`ImageError::Inconsistent`] for a number that stands for none.
    fn file(&mut self, key: &FileKey, number: u32) -> Result<Arc<dyn OpenFile>, ImageError>;

    /// Returns a lease, which reports its end to `broken`.
    ///
    /// # Errors
    /// As [`ObjectsIn::file`].
    fn lease(&mut self, key: &FileKey, number: u32, broken: Broken) -> Result<Arc<dyn Lease>, ImageError>;

    /// Returns the locks on a file.
    ///
    /// # Errors
    /// As [`ObjectsIn::file`].
    fn locks(&mut self, key: &FileKey, number: u32) -> Result<Arc<dyn RangeLocks>, ImageError>;
}

/// The files of an open or a delegation, by the caller's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct PayloadImage {
    #[n(0)]
    read: Option<u32>,
    #[n(1)]
    write: Option<u32>,
    #[n(2)]
    user: Option<u32>,
    #[n(3)]
    lease: Option<u32>,
}

/// The image of a server.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct NfsImage {
    #[n(0)]
    state: StateImage<FileKeyImage>,
    #[n(1)]
    payloads: Vec<PayloadImage>,
    #[n(2)]
    write_verifier: u64,
    #[n(3)]
    callbacks: CallbacksImage,
    #[n(4)]
    local_locks: LocalLocksImage,
    #[n(5)]
    program_waits: Vec<FileWaitsImage>,
    #[n(6)]
    replies: Vec<ReplyImage>,
    #[n(7)]
    offloads: OffloadsImage,
    #[n(8)]
    copies: Vec<BackgroundCopyImage>,
    /// Files that a file system breaks a delegation of, and the time in nanoseconds until others
    /// proceed.
    #[n(9)]
    breaks: Vec<(FileKeyImage, u64)>,
    /// Whether file systems hold the locks of clients.
    #[n(10)]
    locks_locally: Option<bool>,
    #[n(11)]
    handle_keys: Option<Vec<HandleKeyImage>>,
    /// Unlocked ranges that the kernel still holds for clients.
    #[n(12)]
    late_ranges: Option<LateRangesImage>,
    /// Files with state that their backend does not have.
    #[n(13)]
    lost_files: Option<Vec<FileKeyImage>>,
}

/// The parts of a restored server that are to be resumed once the process serves.
#[derive(Debug)]
pub struct Resumed {
    /// The callbacks in flight, for [`Nfs::restore_callbacks`].
    pub callbacks: CallbacksImage,
    /// The background copies, for [`Nfs::resume_copies`].
    pub copies: Vec<Box<BackgroundCopy>>,
}

impl Nfs {
    /// Makes an image of the server, whose client records are written by now. `copies` are the
    /// background copies that wait for their next piece. No call runs meanwhile.
    ///
    /// # Errors
    /// [`ImageError::Busy`].
    pub fn image(
        &self,
        copies: &[Box<BackgroundCopy>],
        objects: &mut dyn ObjectsOut,
    ) -> Result<NfsImage, ImageError> {
        let Self {
            config,
            exports,
            former,
            identity: _,
            choices: _,
            start: _,
            filehandle_key: _,
            state,
            started: _,
            recording: _,
            sync_failures: _,
            callbacks,
            offloads,
            names,
            breaks,
            local_locks,
            program_waits,
            replies,
            // These counters and samples begin anew.
            outcomes: _,
            refusals: _,
            busy_files: _,
            // Connected by each process.
            observation: _,
            records: _,
            random: _,
        } = self;
        if names.are_held() {
            return Err(ImageError::Busy("a change of a name"));
        }
        let mut payloads = Vec::new();
        let state = state.image(
            |key| FileKeyImage::from(key),
            |key, payload| {
                payloads.push(payload.image(key, objects));
                payloads.len() as u32 - 1
            },
        )?;
        let (local_locks, late_ranges) = local_locks.image(objects)?;
        Ok(NfsImage {
            state,
            payloads,
            write_verifier: self.last_write_verifier(),
            callbacks: callbacks.image(),
            local_locks,
            program_waits: program_waits.image(objects),
            replies: replies.image(),
            offloads: offloads.image(),
            copies: copies.iter().map(|copy| copy.image(objects)).collect(),
            breaks: breaks.image(),
            locks_locally: Some(config.local_locks),
            handle_keys: Some(HandleKeyImage::of_all(&exports.snapshot())),
            late_ranges: Some(late_ranges),
            lost_files: Some(former.lost_files()),
        })
    }

    /// Restores callbacks in flight; the server knows its RPCSEC_GSS contexts by now.
    ///
    /// # Errors
    /// The part that is inconsistent.
    pub fn restore_callbacks(
        &self,
        image: CallbacksImage,
        now: std::time::Duration,
    ) -> Result<(), ImageError> {
        self.callbacks.restore(image, &self.state, now)
    }

    /// Resumes background copies. The runner is connected by now.
    pub fn resume_copies(&self, copies: Vec<Box<BackgroundCopy>>, clock: &dyn Fn() -> std::time::Duration) {
        for copy in copies {
            self.submit_copy(copy, clock);
        }
    }
}

impl OpenPayload {
    fn image(&self, key: &FileKey, objects: &mut dyn ObjectsOut) -> PayloadImage {
        let Self { read, write, user, lease } = self;
        let mut file = |file: &Option<Arc<dyn OpenFile>>| file.as_ref().map(|file| objects.file(key, file));
        let (read, write) = (file(read), file(write));
        let lease = lease.as_ref().map(|lease| objects.lease(key, lease));
        PayloadImage { read, write, user: *user, lease }
    }
}

impl PayloadImage {
    fn restore(
        &self,
        key: &FileKey,
        broken: impl Fn(FileKey) -> Broken,
        objects: &mut dyn ObjectsIn,
    ) -> Result<OpenPayload, ImageError> {
        let Self { read, write, user, lease } = self;
        let mut file = |number: &Option<u32>| number.map(|number| objects.file(key, number)).transpose();
        let (read, write) = (file(read)?, file(write)?);
        let lease = lease.map(|number| objects.lease(key, number, broken(*key))).transpose()?;
        Ok(OpenPayload { read, write, user: *user, lease })
    }
}

impl Nfs {
    /// Restores a server from its image. `start` is that of the stored keys; epoch, verifier and
    /// random key are those of the image.
    ///
    /// # Errors
    /// The part of the image that is inconsistent.
    pub fn restore(
        image: NfsImage,
        parts: super::nfs::NfsParts,
        objects: &mut dyn ObjectsIn,
    ) -> Result<(Self, Resumed), ImageError> {
        let mut parts = parts;
        let boot = &mut parts.start.boot;
        boot.epoch = image.state.epoch();
        boot.hash_key = image.state.hash_key().ok_or(ImageError::Inconsistent("the key of identifiers"))?;
        parts.start.write_verifier = image.write_verifier.to_be_bytes();
        let breaks = Arc::new(super::breaks::Breaks::restore(image.breaks)?);
        let mut used = vec![false; image.payloads.len()];
        let with = state::RestoreParameters {
            limits: parts.config.limits.clone(),
            principal_key: boot.principal_key,
            view: FileKey::view,
            quotas: parts.config.tenants.clone(),
        };
        let payload = |key: &FileKey, number: u32| {
            let unknown = || ImageError::Inconsistent("the files of an open");
            let used = used.get_mut(number as usize).ok_or_else(unknown)?;
            ensure(!std::mem::replace(used, true), "the files of an open are used twice")?;
            let payload = image.payloads.get(number as usize).ok_or_else(unknown)?;
            let broken = |file: FileKey| -> Broken {
                let breaks = Arc::clone(&breaks);
                Arc::new(move |break_time| breaks.push(file, break_time))
            };
            payload.restore(key, broken, objects)
        };
        let state = state::State::restore(image.state, with, FileKey::try_from, payload)?;
        parts.config.limits.lease = state.limits().lease;
        // Locks that the file system does not hold would be hidden from local programs.
        parts.config.local_locks &= image.locks_locally.unwrap_or(true) || state.counts().ranges == 0;
        let mut nfs = Self::of_parts(parts, state.with_shared(FileKey::is_shared), Duration::ZERO);
        nfs.breaks = breaks;
        let late_ranges = image.late_ranges.unwrap_or_default();
        nfs.local_locks = LocalLocks::restore(image.local_locks, late_ranges, objects)?;
        nfs.program_waits = ProgramWaits::restore(image.program_waits, objects)?;
        nfs.replies = Replies::restore(image.replies)?;
        nfs.offloads = super::Offloads::restore(image.offloads);
        let keys = FormerKeys::new(image.handle_keys);
        let lost = image.lost_files.unwrap_or_default().into_iter().map(FileKey::try_from);
        let lost = lost.collect::<Result<_, ImageError>>()?;
        nfs.former = FormerExports::inherited(&keys, &nfs.exports.snapshot(), lost);
        let copies = nfs.restore_copies(image.copies, objects, &keys)?;
        Ok((nfs, Resumed { callbacks: image.callbacks, copies }))
    }
}
