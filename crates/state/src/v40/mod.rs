//! NFSv4.0 (RFC 7530): clients without sessions, and state-owners with sequence numbers.
//!
//! Opens, locks, share reservations, leases and the grace period are the same as in the other minor
//! versions. This module has server-wide state used only for NFSv4.0:
//!
//! - `clients`: SETCLIENTID and its confirmation;
//! - `owners`, `sequence`: the sequence numbers of open-owners and lock-owners, with the last reply
//!   to each;
//! - `opens`: OPEN_CONFIRM and RELEASE_LOCKOWNER;
//! - `stateids`: the client of a stateid in a request without a session.
//!
//! Clients of NFSv4.0 get no delegations, so there is no reason to call them back.

mod clients;
pub(crate) mod image;
mod opens;
mod owners;
mod sequence;
mod stateids;

pub use crate::opens::OwnerKind;
pub(crate) use clients::NAME_PREFIX;
pub use clients::{Setclientid, SetclientidOk};
pub use owners::StateOwner;
pub use sequence::{Begin, Replay, Request, Turn};

use crate::order::Leaf;
use crate::sessions::SessionActivity;
use crate::slab::SlabKey;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use crate::sync::{Mutex, RwLock};
use crate::{ClientKey, Clientid4};
use owners::OwnerLedger;
use stateids::Gone;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;

/// The part of a stateid that identifies its state.
pub(crate) type Other = [u8; 12];

/// Server-wide state used only for NFSv4.0.
#[derive(Debug, Default)]
pub(crate) struct V40Table {
    /// Confirmed clients by the id that they were given.
    ids: Leaf<RwLock<BTreeMap<Clientid4, ClientKey>>>,
    /// Owners with a CLOSE as their last request, by the closed stateid, so that a copy of it finds
    /// its reply. One an owner.
    closed: Leaf<Mutex<BTreeMap<Other, Weak<StateOwner>>>>,
    /// Stateids of removed clients.
    gone: Leaf<Mutex<Gone>>,
    /// State-owners of all clients, for the limit.
    owners: AtomicUsize,
}

impl V40Table {
    /// Counts the state-owners of all clients.
    pub(crate) fn owners(&self) -> usize {
        self.owners.load(Relaxed)
    }
}

/// The part of a client that only NFSv4.0 has.
#[derive(Debug, Default)]
pub(crate) struct V40Client {
    /// When the lease was renewed; it has no session that would tell.
    pub(crate) activity: SessionActivity,
    /// Changes under the registry.
    confirm: Leaf<Mutex<Confirm>>,
    /// Whether the client is on stable storage.
    pub(crate) recorded: AtomicBool,
    ledger: Leaf<Mutex<OwnerLedger>>,
    /// Opens that wait for OPEN_CONFIRM, and how many.
    unconfirmed: Leaf<Mutex<BTreeSet<SlabKey>>>,
    unconfirmed_count: AtomicUsize,
    /// Whether a user by AUTH_SYS has opened something: Linux with a keytab creates its client by
    /// Kerberos and mounts by AUTH_SYS, and counts on the lease that its users' operations renew.
    has_claimed_users: AtomicBool,
}

/// The setclientid_confirm values of a client (RFC 7530 section 16.33.5).
#[derive(Clone, Copy, Debug, Default)]
struct Confirm {
    current: [u8; 8],
    /// That of a SETCLIENTID that came for the confirmed client since: an update of its callback.
    pending: Option<[u8; 8]>,
}

impl V40Client {
    fn has_unconfirmed(&self, open: SlabKey) -> bool {
        self.unconfirmed_count.load(Relaxed) > 0 && self.unconfirmed.lock().contains(&open)
    }

    /// Notes that an open waits for OPEN_CONFIRM.
    fn note_unconfirmed(&self, open: SlabKey) {
        let mut all = self.unconfirmed.lock();
        all.insert(open);
        self.unconfirmed_count.store(all.len(), Relaxed);
    }

    /// Forgets that an open waited for OPEN_CONFIRM.
    fn forget_unconfirmed(&self, open: SlabKey) {
        let mut all = self.unconfirmed.lock();
        all.remove(&open);
        self.unconfirmed_count.store(all.len(), Relaxed);
    }
}
