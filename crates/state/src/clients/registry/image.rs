//! The image of the registry. Its clients have images of their own, and its tables by name and id
//! are made again from these.

use super::{Enrolled, Registry};
use crate::sessions::nanoseconds;
use crate::sync::atomic::Ordering::Relaxed;
use crate::{ClientKey, PrincipalHash};
use image::{ImageError, SharedBytes, ensure};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The parts of the registry besides its clients.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct RegistryImage {
    #[n(0)]
    counter: u32,
    #[n(1)]
    waiting: Vec<WaitingImage>,
    #[n(2)]
    retired_at: u64,
    #[n(3)]
    draining: bool,
}

/// An owner that may still reclaim.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct WaitingImage {
    #[n(0)]
    owner: SharedBytes,
    #[cbor(n(1), with = "minicbor::bytes")]
    creator: Option<[u8; 16]>,
}

impl Registry {
    pub(crate) fn image(&self) -> Result<RegistryImage, ImageError> {
        let Self {
            clients: _,
            by_id: _,
            confirmed: _,
            unconfirmed: _,
            counter,
            waiting,
            retired_at,
            draining,
            effects,
        } = self;
        if !effects.is_empty() {
            return Err(ImageError::Busy("records of clients"));
        }
        let waiting = waiting.iter().map(|(owner, creator)| WaitingImage {
            owner: SharedBytes::from(&**owner),
            creator: creator.map(|creator| creator.0),
        });
        Ok(RegistryImage {
            counter: *counter,
            waiting: waiting.collect(),
            retired_at: nanoseconds(*retired_at),
            draining: *draining,
        })
    }

    /// Restores a registry without clients.
    pub(crate) fn restore(image: RegistryImage) -> Self {
        let RegistryImage { counter, waiting, retired_at, draining } = image;
        let waiting = waiting
            .into_iter()
            .map(|WaitingImage { owner, creator }| (Box::from(&*owner.0), creator.map(PrincipalHash)));
        Self {
            clients: BTreeMap::new(),
            by_id: BTreeMap::new(),
            confirmed: BTreeMap::new(),
            unconfirmed: BTreeMap::new(),
            counter,
            waiting: waiting.collect(),
            retired_at: Duration::from_nanos(retired_at),
            draining,
            effects: Default::default(),
        }
    }

    /// Enters a restored client.
    pub(crate) fn restore_client(&mut self, key: ClientKey, enrolled: Enrolled) -> Result<(), ImageError> {
        let record = Arc::clone(&enrolled.record);
        record.tenant.clients.fetch_add(1, Relaxed);
        let (id, owner) = (self.by_id.insert(record.id, key), Arc::clone(&record.owner));
        let name = match enrolled.confirmed {
            true => self.confirmed.insert(owner, key),
            false => self.unconfirmed.insert((owner, record.creator.hash), key),
        };
        self.clients.insert(key, enrolled);
        ensure(id.is_none() && name.is_none(), "two clients of one id or name")
    }
}
