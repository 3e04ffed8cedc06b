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
    state: RevokedRef,
    #[n(1)]
    client: KeyImage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
enum RevokedRef {
    #[n(0)]
    Open(#[n(0)] KeyImage),
    #[n(1)]
    Lock(#[n(0)] KeyImage),
    #[n(2)]
    Delegation(#[n(0)] KeyImage),
}

impl RevokedTable {
    pub(crate) fn image(&self) -> Vec<RevokedImage> {
        let Self { count: _, all } = self;
        let kind = |state: StateRef| {
            Some(match state {
                StateRef::Open(key) => RevokedRef::Open(key.into()),
                StateRef::Lock(key) => RevokedRef::Lock(key.into()),
                StateRef::Delegation(key) => RevokedRef::Delegation(key.into()),
                // Copies are not revoked.
                StateRef::Copy(_) => return None,
            })
        };
        let all = all.lock();
        let images = all
            .iter()
            .map(|(state, client)| Some(RevokedImage { state: kind(*state)?, client: client.0.into() }));
        images.flatten().collect()
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
            let state = match state {
                RevokedRef::Open(key) => StateRef::Open(key.into()),
                RevokedRef::Lock(key) => StateRef::Lock(key.into()),
                RevokedRef::Delegation(key) => StateRef::Delegation(key.into()),
            };
            ensure(!is_valid(state), "a stateid that is valid and revoked")?;
            ensure(all.insert(state, ClientKey(client)).is_none(), "a stateid that was revoked twice")?;
        }
        Ok(Self { count: AtomicUsize::new(all.len()), all: Leaf::new(Mutex::new(all)) })
    }
}
