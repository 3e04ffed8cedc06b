//! Client records (RFC 8881 sections 2.4 and 18.35.4) and what goes when one goes.

use crate::slab::Key;
use crate::{
    Caller, Clientid4, CreateSessionOk, Effect, Nfsstat4, Principal, Protection, Result, State, StateProtect,
};
use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// Names a client record; the operations of a COMPOUND get it from SEQUENCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientKey(pub(crate) Key);

/// One client record.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: Clientid4,
    pub(crate) owner: Arc<[u8]>,
    pub(crate) verifier: [u8; 8],
    pub(crate) principal: Principal,
    pub(crate) protect: StateProtect,
    pub(crate) confirmed: bool,
    /// The sequence id of the CREATE_SESSION slot (RFC 8881 section 18.36.4).
    pub(crate) create_sequence: u32,
    /// What a retry of the last CREATE_SESSION gets; before the first it is the contrived NFS4ERR_SEQ_MISORDERED.
    pub(crate) create_reply: Result<Box<CreateSessionOk>>,
    pub(crate) sessions: Vec<Key>,
    pub(crate) open_owners: BTreeMap<Arc<[u8]>, Key>,
    pub(crate) lock_owners: BTreeMap<Arc<[u8]>, Key>,
    pub(crate) opens: usize,
    /// Lock stateids and locked ranges together.
    pub(crate) locks: usize,
    pub(crate) renewed: Duration,
    /// COMPOUNDs that run now: the lease does not expire under them.
    pub(crate) running: u32,
    pub(crate) reclaim_complete: bool,
    /// Whether the client is on stable storage.
    pub(crate) recorded: bool,
}

impl Client {
    /// Tells whether the caller speaks for the client itself: its principal and, with SP4_MACH_CRED, protected.
    pub(crate) fn is_spoken_for_by(&self, caller: &Caller<'_>) -> bool {
        let protected = match self.protect {
            StateProtect::None => true,
            StateProtect::MachCred { .. } => caller.protection >= Protection::Integrity,
        };
        protected && self.principal == *caller.principal
    }

    /// Tells whether it holds state that others may be waiting for (RFC 8881 section 18.35.4, case 3).
    pub(crate) fn holds_state(&self) -> bool {
        self.opens > 0
    }

    pub(crate) fn expired(&self, now: Duration, lease: Duration) -> bool {
        self.running == 0 && now >= self.renewed.saturating_add(lease)
    }
}

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Returns a client that a COMPOUND began with; it can be gone by now, when it restarted or was replaced.
    pub(crate) fn client(&self, key: ClientKey) -> Result<&Client> {
        self.clients.get(key.0).ok_or(Nfsstat4::NFS4ERR_DEADSESSION)
    }

    pub(crate) fn client_mut(&mut self, key: ClientKey) -> Result<&mut Client> {
        self.clients.get_mut(key.0).ok_or(Nfsstat4::NFS4ERR_DEADSESSION)
    }

    pub(crate) fn client_by_id(&self, id: Clientid4) -> Option<ClientKey> {
        self.clients_by_id.get(&id).copied()
    }

    /// Adds an unconfirmed record, for which there must be room.
    pub(crate) fn insert_client(&mut self, client: Client) -> ClientKey {
        let (id, owner) = (client.id, client.owner.clone());
        let key = ClientKey(self.clients.insert(client));
        self.clients_by_id.insert(id, key);
        self.unconfirmed.insert(owner, key);
        key
    }

    /// Returns a client id that no client of this start has had: a counter, scattered, under the start's epoch.
    pub(crate) fn new_clientid(&mut self) -> Clientid4 {
        // An odd factor and an exclusive or permute the 32-bit numbers, so no value returns before all were used.
        const SCATTER: u32 = 0x9e37_79b1;
        loop {
            self.clientid_counter = self.clientid_counter.wrapping_add(1);
            let low = self.clientid_counter.wrapping_mul(SCATTER) ^ self.clientid_mask;
            let id = u64::from(self.epoch) << 32 | u64::from(low);
            if !self.clients_by_id.contains_key(&id) {
                return id;
            }
        }
    }

    /// Removes a client with its sessions, opens and locks. `forget` says whether it loses the right to reclaim; it keeps
    /// it when its next incarnation takes over.
    pub(crate) fn remove_client(&mut self, key: ClientKey, forget: bool) {
        let Some(client) = self.clients.get(key.0) else { return };
        for session in client.sessions.clone() {
            self.remove_session(session);
        }
        self.remove_opens_of(key);
        let Some(client) = self.clients.remove(key.0) else { return };
        self.clients_by_id.remove(&client.id);
        let table = if client.confirmed { &mut self.confirmed } else { &mut self.unconfirmed };
        if table.get(&client.owner) == Some(&key) {
            table.remove(&client.owner);
        }
        if forget && client.confirmed && (client.recorded || self.grace.waits_for(&client.owner)) {
            self.effects.push(Effect::ForgetClient { owner: client.owner.to_vec() });
            self.reclaimed(&client.owner);
        }
    }
}
