//! Images of used slots with their cached replies.

use super::{Slot, SlotState, Slots};
use crate::{Principal, Protection};
use image::{ImageError, SharedBytes, ensure};
use minicbor::{Decode, Encode};

/// A slot that was used, with its number.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct SlotImage {
    #[n(0)]
    slot: u32,
    #[n(1)]
    sequence: u32,
    #[n(2)]
    fingerprint: u64,
    #[n(3)]
    principal: Option<SharedBytes>,
    #[n(4)]
    protection: Option<ProtectionImage>,
    /// The cached reply, if there is one.
    #[n(5)]
    reply: Option<SharedBytes>,
}

/// The protection of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub(crate) enum ProtectionImage {
    #[n(0)]
    None,
    #[n(1)]
    Authentication,
    #[n(2)]
    Integrity,
    #[n(3)]
    Privacy,
}

impl From<Protection> for ProtectionImage {
    fn from(protection: Protection) -> Self {
        match protection {
            Protection::None => Self::None,
            Protection::Authentication => Self::Authentication,
            Protection::Integrity => Self::Integrity,
            Protection::Privacy => Self::Privacy,
        }
    }
}

impl From<ProtectionImage> for Protection {
    fn from(image: ProtectionImage) -> Self {
        match image {
            ProtectionImage::None => Self::None,
            ProtectionImage::Authentication => Self::Authentication,
            ProtectionImage::Integrity => Self::Integrity,
            ProtectionImage::Privacy => Self::Privacy,
        }
    }
}

/// Slots of one session in an image.
const SLOTS_MAX: u32 = 1 << 16;

impl Slots {
    pub(crate) fn image(&self, count: u32) -> Result<Vec<SlotImage>, ImageError> {
        let Self { chunks: _ } = self;
        let mut images = Vec::new();
        for slot in 0..count {
            let Some(used) = self.lock_used(slot) else { continue };
            let Slot { sequence, state, fingerprint, principal, protection } = &*used;
            let reply = match state {
                SlotState::Fresh => continue,
                SlotState::Running => return Err(ImageError::Busy("a request")),
                SlotState::Uncached => None,
                SlotState::Cached(reply) => Some(SharedBytes(reply.clone())),
            };
            images.push(SlotImage {
                slot,
                sequence: *sequence,
                fingerprint: *fingerprint,
                principal: principal.as_ref().map(|principal| SharedBytes(principal.0.clone())),
                protection: protection.map(ProtectionImage::from),
                reply,
            });
        }
        Ok(images)
    }

    /// Restores so many slots; returns them with the bytes of their replies.
    pub(crate) fn restore(images: Vec<SlotImage>, count: u32) -> Result<(Self, usize), ImageError> {
        ensure((1..=SLOTS_MAX).contains(&count), "the number of a session's slots")?;
        let slots = Self::new(count);
        let mut cached = 0;
        for SlotImage { slot, sequence, fingerprint, principal, protection, reply } in images {
            ensure(slot < count, "a slot that its session does not have")?;
            let place = slots.lock(slot);
            let mut place = place.ok_or(ImageError::Inconsistent("the number of a slot"))?;
            ensure(matches!(place.state, SlotState::Fresh), "a slot is listed twice")?;
            cached += reply.as_ref().map_or(0, |reply| reply.0.len());
            *place = Slot {
                sequence,
                state: reply.map_or(SlotState::Uncached, |reply| SlotState::Cached(reply.0)),
                fingerprint,
                principal: principal.map(|principal| Principal(principal.0)),
                protection: protection.map(Protection::from),
            };
        }
        Ok((slots, cached))
    }
}
