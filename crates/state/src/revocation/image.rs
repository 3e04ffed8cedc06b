//! Images of revoked stateids.

use super::RevokedTable;
use crate::ClientKey;
use crate::clients::image::RestoredClients;
use crate::order::Leaf;
use crate::slab::SlabKey;
use crate::stateids::StateRef;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::table::image::KeyImage;
use image::{ImageError, ensure};
use minicbor::{Decode, Encode};
use nfs4::SEQ4_STATUS_ADMIN_STATE_REVOKED;
use std::collections::BTreeMap;

/// A stateid that was revoked and is not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct RevokedImage {
    #[n(0)]
    state: StateRefImage,
    #[n(1)]
    client: KeyImage,
}

/// Names state that an administrator can revoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) enum StateRefImage {
    #[n(0)]
    Open(#[n(0)] KeyImage),
    #[n(1)]
    Lock(#[n(0)] KeyImage),
    #[n(2)]
    Delegation(#[n(0)] KeyImage),
}

impl StateRefImage {
    /// Makes the image of anything but a copy.
    pub(crate) fn of(state: StateRef) -> Option<Self> {
        Some(match state {
            StateRef::Open(key) => Self::Open(key.into()),
            StateRef::Lock(key) => Self::Lock(key.into()),
            StateRef::Delegation(key) => Self::Delegation(key.into()),
            StateRef::Copy(_) => return None,
        })
    }
}

impl From<StateRefImage> for StateRef {
    fn from(image: StateRefImage) -> Self {
        match image {
            StateRefImage::Open(key) => Self::Open(key.into()),
            StateRefImage::Lock(key) => Self::Lock(key.into()),
            StateRefImage::Delegation(key) => Self::Delegation(key.into()),
        }
    }
}

impl RevokedTable {
    pub(crate) fn image(&self) -> Vec<RevokedImage> {
        let Self { count: _, all } = self;
        let all = all.lock();
        let image = |(state, client): (&StateRef, &ClientKey)| {
            Some(RevokedImage { state: StateRefImage::of(*state)?, client: client.0.into() })
        };
        all.iter().filter_map(image).collect()
    }

    /// Restores the stateids; `is_valid` tells whether state has the key.
    pub(crate) fn restore(
        images: Vec<RevokedImage>,
        clients: &RestoredClients,
        is_valid: impl Fn(StateRef) -> bool,
    ) -> Result<Self, ImageError> {
        let mut all = BTreeMap::new();
        for RevokedImage { state, client } in images {
            let client: SlabKey = client.into();
            let owner = &clients.get(client)?.record;
            owner.status.fetch_or(SEQ4_STATUS_ADMIN_STATE_REVOKED, Relaxed);
            let state = StateRef::from(state);
            ensure(!is_valid(state), "a stateid that is valid and revoked")?;
            ensure(all.insert(state, ClientKey(client)).is_none(), "a stateid that was revoked twice")?;
        }
        Ok(Self { count: AtomicUsize::new(all.len()), all: Leaf::new(Mutex::new(all)) })
    }
}
