//! Images of backchannels, and of callbacks that are in flight.

use super::{BackCall, BackSlot, BackSlots, PathStatus, UNTRIED, UP};
use crate::order::Leaf;
use crate::sessions::image::SecurityImage;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::table::image::KeyImage;
use crate::{BackChannel, CallbackSecurity, Callbacks};
use image::{ImageError, ensure};
use minicbor::{Decode, Encode};
use std::hash::Hash;

/// One slot of a backchannel. The callback in flight that keeps it busy has an image of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct BackSlotImage {
    #[n(0)]
    next: u32,
    #[n(1)]
    misordered: bool,
}

impl BackSlots {
    pub(crate) fn image(&self) -> Vec<BackSlotImage> {
        let Self(slots) = self;
        let image = |slot: &BackSlot| {
            let BackSlot { next, busy: _, misordered } = *slot;
            BackSlotImage { next, misordered }
        };
        slots.lock().iter().map(image).collect()
    }

    /// Restores slots without callbacks.
    pub(crate) fn restore(images: Vec<BackSlotImage>, count: u32) -> Result<Self, ImageError> {
        ensure(images.len() <= count as usize, "a backchannel with too many slots")?;
        let slot = |BackSlotImage { next, misordered }| BackSlot { next, busy: false, misordered };
        Ok(Self(Leaf::new(Mutex::new(images.into_iter().map(slot).collect()))))
    }

    /// Takes a slot for a callback that is in flight.
    fn take_again(&self, slot: u32) -> Result<(), ImageError> {
        let mut slots = self.0.lock();
        let slot = slots.get_mut(slot as usize).filter(|slot| !slot.busy);
        slot.ok_or(ImageError::Inconsistent("the slot of a callback"))?.busy = true;
        Ok(())
    }
}

impl PathStatus {
    /// Returns the flags, and when the last context for callbacks ends.
    pub(crate) fn image(&self) -> (u32, u64) {
        let Self { flags, contexts_until } = self;
        (flags.load(Relaxed), contexts_until.load(Relaxed))
    }

    /// Restores the status of a backchannel that is not known to work.
    pub(crate) fn restore(flags: u32, contexts_until: u64) -> Self {
        Self { flags: AtomicU32::new(flags), contexts_until: AtomicU64::new(contexts_until) }
    }

    /// Notes whether the backchannel works, without a change that SEQUENCE reports; returns it.
    pub(crate) fn restore_up(&self, up: bool) -> bool {
        let flags = self.flags.load(Relaxed);
        self.flags.store(if up { flags | UP } else { flags & !(UP | UNTRIED) }, Relaxed);
        up
    }
}

/// A callback that is in flight.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BackCallImage {
    #[n(0)]
    session: KeyImage,
    #[n(1)]
    slotid: u32,
    #[n(2)]
    sequenceid: u32,
    #[n(3)]
    highest_slotid: u32,
    #[n(4)]
    program: u32,
    #[n(5)]
    security: Vec<SecurityImage>,
    #[n(6)]
    minor_version: u32,
    #[n(7)]
    connection: u64,
}

impl BackCall {
    /// Makes an image of the callback, for [`Callbacks::restore_call`]. `None` for one of a session
    /// that is gone: its answer does not matter.
    pub fn image(&self) -> Option<BackCallImage> {
        let Self { session, slotid, sequenceid, highest_slotid, channel } = self;
        let BackChannel { program, security, minor_version, connection } = channel;
        (!session.activity.is_closed()).then(|| BackCallImage {
            session: session.key.into(),
            slotid: *slotid,
            sequenceid: *sequenceid,
            highest_slotid: *highest_slotid,
            program: *program,
            security: security.iter().map(SecurityImage::of).collect(),
            minor_version: *minor_version,
            connection: *connection,
        })
    }
}

impl<F: Clone + Eq + Hash, O> Callbacks<'_, F, O> {
    /// Restores a callback that is in flight, which keeps its slot busy.
    ///
    /// # Errors
    /// The part that is inconsistent.
    pub fn restore_call(&self, image: BackCallImage) -> Result<BackCall, ImageError> {
        let session = self.state.sessions.get(image.session.into());
        let session = session.ok_or(ImageError::Inconsistent("the session of a callback"))?;
        session.back_slots.take_again(image.slotid)?;
        let security = image.security.into_iter().map(CallbackSecurity::from).collect();
        let channel = BackChannel {
            program: image.program,
            security,
            minor_version: image.minor_version,
            connection: image.connection,
        };
        let BackCallImage { slotid, sequenceid, highest_slotid, .. } = image;
        Ok(BackCall { session, slotid, sequenceid, highest_slotid, channel })
    }
}
