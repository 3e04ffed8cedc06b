//! Images of NFSv4.0 clients and of their state-owners.

use super::owners::{OwnerLedger, StateOwner};
use super::sequence::{OwnerSequence, Replay, Request};
use super::stateids::GONE_MAX;
use super::{Confirm, OwnerKind, V40Client, V40Table};
use crate::clients::image::RestoredClients;
use crate::order::Leaf;
use crate::sessions::{SessionActivity, nanoseconds};
use crate::stateids::StateRef;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::table::image::KeyImage;
use crate::{ClientKey, Nfsstat4, Principal};
use image::{ImageError, SharedBytes, ensure};
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The part of a client that only NFSv4.0 has.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct V40ClientImage {
    #[n(0)]
    renewed: u64,
    #[cbor(n(1), with = "minicbor::bytes")]
    confirm: [u8; 8],
    #[cbor(n(2), with = "minicbor::bytes")]
    pending: Option<[u8; 8]>,
    #[n(3)]
    recorded: bool,
    #[n(4)]
    owners: Vec<StateOwnerImage>,
    #[n(5)]
    swept: u64,
    #[n(6)]
    unconfirmed: Vec<KeyImage>,
    #[n(7)]
    has_claimed_users: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct StateOwnerImage {
    /// Whether it is a lock-owner.
    #[n(0)]
    locks: bool,
    #[n(1)]
    name: SharedBytes,
    #[n(2)]
    used: u64,
    #[n(3)]
    seqid: Option<u32>,
    #[n(4)]
    confirmed: bool,
    #[n(5)]
    unconfirmed: Option<KeyImage>,
    #[n(6)]
    principal: Option<SharedBytes>,
    #[cbor(n(7), with = "minicbor::bytes")]
    closed: Option<[u8; 12]>,
    #[n(8)]
    last: Option<LastImage>,
}

/// The last request of an owner, and its reply.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct LastImage {
    #[n(0)]
    operation: u32,
    #[n(1)]
    fingerprint: u64,
    #[n(2)]
    status: u32,
    #[n(3)]
    body: SharedBytes,
    #[n(4)]
    filehandle: SharedBytes,
}

/// The stateids of removed clients, the oldest first; true stands for a lock stateid.
pub(crate) type GoneImage = Vec<(bool, KeyImage)>;

impl V40Client {
    pub(crate) fn image(&self) -> Result<V40ClientImage, ImageError> {
        let Self {
            activity,
            confirm,
            recorded,
            ledger,
            unconfirmed,
            unconfirmed_count: _,
            has_claimed_users,
        } = self;
        if activity.running() != 0 {
            return Err(ImageError::Busy("a request"));
        }
        let Confirm { current, pending } = *confirm.lock();
        let ledger = ledger.lock();
        let OwnerLedger { all, swept } = &*ledger;
        Ok(V40ClientImage {
            renewed: nanoseconds(activity.renewed()),
            confirm: current,
            pending,
            recorded: recorded.load(Relaxed),
            owners: all.values().map(|owner| owner.image()).collect::<Result<_, _>>()?,
            swept: nanoseconds(*swept),
            unconfirmed: {
                drop(ledger);
                unconfirmed.lock().iter().map(|key| (*key).into()).collect()
            },
            has_claimed_users: has_claimed_users.load(Relaxed),
        })
    }
}

impl StateOwner {
    fn image(&self) -> Result<StateOwnerImage, ImageError> {
        let Self { client: _, kind, name, used, sequence } = self;
        let sequence = sequence.try_lock().map_err(|_| ImageError::Busy("a request"))?;
        let OwnerSequence { seqid, confirmed, unconfirmed, principal, closed, last } = &*sequence;
        Ok(StateOwnerImage {
            locks: *kind == OwnerKind::Lock,
            name: SharedBytes(Arc::clone(name)),
            used: used.load(Relaxed),
            seqid: *seqid,
            confirmed: *confirmed,
            unconfirmed: unconfirmed.map(KeyImage::from),
            principal: principal.as_ref().map(|principal| SharedBytes(Arc::clone(&principal.0))),
            closed: *closed,
            last: last.as_ref().map(|(request, replay)| {
                let Request { operation, fingerprint } = *request;
                let Replay { status, body, filehandle } = replay;
                let (body, filehandle) = (SharedBytes::from(&**body), SharedBytes::from(&**filehandle));
                LastImage { operation, fingerprint, status: *status as u32, body, filehandle }
            }),
        })
    }

    fn restore(image: StateOwnerImage, client: ClientKey) -> Result<Arc<Self>, ImageError> {
        let last = image.last.map(|last| {
            let status = Nfsstat4::from_u32(last.status);
            let status = status.ok_or(ImageError::Inconsistent("the status of a kept reply"))?;
            let LastImage { operation, fingerprint, body, filehandle, .. } = last;
            let (body, filehandle) = (Box::from(&*body.0), Box::from(&*filehandle.0));
            Ok((Request { operation, fingerprint }, Replay { status, body, filehandle }))
        });
        let sequence = OwnerSequence {
            seqid: image.seqid,
            confirmed: image.confirmed,
            unconfirmed: image.unconfirmed.map(|key| key.into()),
            principal: image.principal.map(|principal| Principal(principal.0)),
            closed: image.closed,
            last: last.transpose()?,
        };
        Ok(Arc::new(Self {
            client,
            kind: if image.locks { OwnerKind::Lock } else { OwnerKind::Open },
            name: image.name.0,
            used: AtomicU64::new(image.used),
            sequence: Mutex::new(sequence),
        }))
    }
}

impl V40ClientImage {
    pub(crate) fn restore(self, client: ClientKey) -> Result<V40Client, ImageError> {
        let mut all = BTreeMap::new();
        for owner in self.owners {
            let owner = StateOwner::restore(owner, client)?;
            let before = all.insert((owner.kind, Arc::clone(&owner.name)), owner);
            ensure(before.is_none(), "two state-owners of one name")?;
        }
        let activity = SessionActivity::default();
        activity.renew(Duration::from_nanos(self.renewed));
        let confirm = Confirm { current: self.confirm, pending: self.pending };
        let ledger = OwnerLedger { all, swept: Duration::from_nanos(self.swept) };
        let unconfirmed: std::collections::BTreeSet<_> =
            self.unconfirmed.into_iter().map(|key| key.into()).collect();
        Ok(V40Client {
            activity,
            confirm: Leaf::new(Mutex::new(confirm)),
            recorded: AtomicBool::new(self.recorded),
            ledger: Leaf::new(Mutex::new(ledger)),
            unconfirmed_count: AtomicUsize::new(unconfirmed.len()),
            unconfirmed: Leaf::new(Mutex::new(unconfirmed)),
            has_claimed_users: AtomicBool::new(self.has_claimed_users),
        })
    }
}

impl V40Table {
    pub(crate) fn image(&self) -> GoneImage {
        // The other tables and numbers are made from the clients.
        let Self { ids: _, closed: _, gone, owners: _ } = self;
        let gone = gone.lock();
        let entry = |state: &StateRef| match state {
            StateRef::Open(key) => Some((false, (*key).into())),
            StateRef::Lock(key) => Some((true, (*key).into())),
            // NFSv4.0 clients have neither.
            StateRef::Delegation(_) | StateRef::Copy(_) => None,
        };
        gone.order.iter().filter_map(entry).collect()
    }

    /// Restores the tables of NFSv4.0 clients; `confirmed` says which are confirmed.
    pub(crate) fn restore(
        image: GoneImage,
        clients: &RestoredClients,
        confirmed: impl Fn(ClientKey) -> bool,
    ) -> Result<Self, ImageError> {
        ensure(image.len() <= GONE_MAX, "too many stateids of removed clients")?;
        let table = Self::default();
        {
            let mut gone = table.gone.lock();
            for (is_lock, key) in image {
                gone.add(if is_lock { StateRef::Lock(key.into()) } else { StateRef::Open(key.into()) });
            }
        }
        for (key, client) in &clients.0 {
            let Some(v40) = &client.record.v40 else { continue };
            if confirmed(ClientKey(*key)) {
                table.ids.write().insert(client.record.id, ClientKey(*key));
            }
            let owners: Vec<_> = v40.ledger.lock().all.values().cloned().collect();
            table.owners.fetch_add(owners.len(), Relaxed);
            client.record.tenant.owners.fetch_add(owners.len(), Relaxed);
            for owner in owners {
                let closed = owner.try_turn().and_then(|turn| turn.sequence.closed);
                if let Some(closed) = closed {
                    table.closed.lock().insert(closed, Arc::downgrade(&owner));
                }
            }
        }
        Ok(table)
    }
}
