//! The registry of clients by name (RFC 8881 sections 2.4 and 18.35.4), and the removal of a client
//! with all of its state.
//!
//! Operations take its one lock that occur once in the life of a client, a session or a lease, and
//! reclaims.

pub(crate) mod image;

use crate::Clients;
use crate::clients::Client;
use crate::clients::creator::Creator;
use crate::order::{Guard, Held, NothingHeld, RegistryLevel};
use crate::scramble::{Domain, Scramble};
use crate::sessions::{Session, SessionActivity};
use crate::slab::SlabKey;
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering::Relaxed;
use crate::v40::NAME_PREFIX;
use crate::{
    ClientKey, Clientid4, CreateSessionOk, Effect, Effects, Nfsstat4, OwnerRival, PrincipalHash, Result,
    State,
};
use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// The tables of all clients.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) clients: BTreeMap<ClientKey, Enrolled>,
    pub(crate) by_id: BTreeMap<Clientid4, ClientKey>,
    /// At most one confirmed record for each co_ownerid (RFC 8881 section 18.35.4).
    pub(crate) confirmed: BTreeMap<Arc<[u8]>, ClientKey>,
    /// At most one unconfirmed record for each co_ownerid and creator: a stranger that sends the
    /// owner does not replace the client id that its client is about to confirm.
    pub(crate) unconfirmed: BTreeMap<(Arc<[u8]>, PrincipalHash), ClientKey>,
    pub(super) counter: u32,
    /// Owners that may still reclaim, with their creators where these are known (see `grace`).
    pub(crate) waiting: Waiting,
    /// When slots were looked at last that clients have ceased to use.
    pub(crate) retired_at: Duration,
    /// Whether new clients are refused.
    pub(crate) draining: bool,
    pub(super) effects: VecDeque<Effect>,
}

/// The guard of the registry, with the token for locks under it.
pub(crate) type RegistryGuard<'g> = Guard<MutexGuard<'g, Registry>, RegistryLevel>;

/// Clients that may still reclaim.
pub(crate) type Waiting = BTreeMap<Box<[u8]>, Option<PrincipalHash>>;

/// A client in the registry.
#[derive(Debug)]
pub(crate) struct Enrolled {
    pub(crate) record: Arc<Client>,
    pub(crate) confirmed: bool,
    /// The sequence id of the CREATE_SESSION slot (RFC 8881 section 18.36.4).
    pub(crate) create_sequence: u32,
    /// The reply to a retry of the last CREATE_SESSION; before the first it is the contrived
    /// NFS4ERR_SEQ_MISORDERED.
    pub(crate) create_reply: Result<Box<CreateSessionOk>>,
    pub(crate) sessions: Vec<SlabKey>,
    /// When the lease was renewed other than by a session that it has now.
    pub(crate) renewed: Duration,
    /// Whether the client is on stable storage.
    pub(crate) recorded: bool,
    /// The verifiers of the clients from which it took its owner, the last first.
    pub(crate) former: FormerVerifiers,
}

/// The verifiers of the last clients with an owner. A client that restarts never returns to one of
/// them, so one that comes back is that of a second machine.
pub(crate) type FormerVerifiers = [Option<[u8; 8]>; 4];

/// The verifier with which Linux gives up its state. It then comes back with its own.
const PURGING_VERIFIER: [u8; 8] = [0xff; 8];

impl Enrolled {
    /// Returns this client as the rival of another one that takes its owner, if that is known to be
    /// of a second machine.
    pub(crate) fn rival(&self, by: &Client) -> Option<OwnerRival> {
        if self.record.verifier == PURGING_VERIFIER || !self.former.contains(&Some(by.verifier)) {
            return None;
        }
        let owner = by.owner.strip_prefix(NAME_PREFIX).unwrap_or(&by.owner).to_vec();
        Some(OwnerRival { owner, address: self.record.creator.address() })
    }

    /// Returns the former verifiers of the client that takes its owner.
    pub(crate) fn former_verifiers(&self) -> FormerVerifiers {
        let [last, second, third, _] = self.former;
        [Some(self.record.verifier), last, second, third]
    }

    /// Returns the activities that show the client's requests: those of its sessions, which are
    /// passed, or the one activity of an NFSv4.0 client.
    pub(crate) fn activities<'a>(
        &'a self,
        sessions: &'a [Arc<Session>],
    ) -> impl Iterator<Item = &'a SessionActivity> {
        let own = self.record.v40.as_ref().map(|v40| &v40.activity);
        sessions.iter().map(|session| &session.activity).chain(own)
    }
}

impl Registry {
    pub(crate) fn new(waiting: Waiting) -> Self {
        Self { waiting, ..Self::default() }
    }

    pub(crate) fn client(&self, key: ClientKey) -> Result<&Enrolled> {
        self.clients.get(&key).ok_or(Nfsstat4::NFS4ERR_DEADSESSION)
    }

    pub(crate) fn client_mut(&mut self, key: ClientKey) -> Result<&mut Enrolled> {
        self.clients.get_mut(&key).ok_or(Nfsstat4::NFS4ERR_DEADSESSION)
    }

    /// Finds a client by the id that EXCHANGE_ID gave it.
    ///
    /// # Errors
    /// NFS4ERR_STALE_CLIENTID, for the id of an NFSv4.0 client as well.
    pub(crate) fn by_id(&self, id: Clientid4) -> Result<(ClientKey, &Enrolled)> {
        self.find(id, |record| record.v40.is_none())
    }

    /// As [`Registry::by_id`], of SETCLIENTID.
    pub(crate) fn by_id_40(&self, id: Clientid4) -> Result<(ClientKey, &Enrolled)> {
        self.find(id, |record| record.v40.is_some())
    }

    /// Adds an unconfirmed record.
    pub(crate) fn enroll(&mut self, key: ClientKey, client: Enrolled) {
        let record = &client.record;
        record.tenant.clients.fetch_add(1, Relaxed);
        self.by_id.insert(record.id, key);
        self.unconfirmed.insert((Arc::clone(&record.owner), record.creator.hash), key);
        self.clients.insert(key, client);
    }

    fn find(&self, id: Clientid4, fits: impl Fn(&Client) -> bool) -> Result<(ClientKey, &Enrolled)> {
        let key = self.by_id.get(&id).copied();
        let found = key.and_then(|key| Some((key, self.clients.get(&key)?)));
        found.filter(|(_, client)| fits(&client.record)).ok_or(Nfsstat4::NFS4ERR_STALE_CLIENTID)
    }

    /// Returns whether some client of this start was given the id, whether or not that is still
    /// there.
    pub(crate) fn has_issued(&self, id: Clientid4, epoch: u32, scramble: &Scramble) -> bool {
        let number = scramble.unscramble(Domain::ClientId, id);
        (number >> 32) as u32 == epoch && (1..=self.counter).contains(&(number as u32))
    }

    /// Returns a client id that no client of this start has had, and that cannot be guessed from
    /// others: a counter under the start's epoch, permuted.
    pub(crate) fn new_clientid(&mut self, epoch: u32, scramble: &Scramble) -> Clientid4 {
        loop {
            self.counter = self.counter.wrapping_add(1);
            let id = scramble.scramble(Domain::ClientId, u64::from(epoch) << 32 | u64::from(self.counter));
            if !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }

    /// Returns whether a client is one of before the restart that may still reclaim: by its owner
    /// and its creator.
    pub(crate) fn may_reclaim(&self, client: &Client) -> bool {
        let creator = self.waiting.get(&*client.owner);
        creator.is_some_and(|creator| creator.is_none_or(|creator| creator == client.creator.hash))
    }

    /// Returns whether a client is its creator's in the eyes of EXCHANGE_ID and SETCLIENTID. While
    /// the owner has something to reclaim, the address counts besides the name where nothing proves
    /// the name.
    pub(crate) fn is_of(&self, client: &Client, creator: &Creator) -> bool {
        client.creator.principal == creator.principal
            && (client.creator.hash == creator.hash || !self.waiting.contains_key(&*client.owner))
    }

    /// Returns whether a client has the owner of one that may still reclaim, and is another's.
    pub(crate) fn is_impostor(&self, client: &Client) -> bool {
        self.waiting.contains_key(&*client.owner) && !self.may_reclaim(client)
    }
}

impl<F: Clone + Eq + Hash, O> State<F, O> {
    /// Locks the registry, which has to be the first lock of a call.
    pub(crate) fn registry<'g>(&'g self, held: &'g mut Held<NothingHeld>) -> RegistryGuard<'g> {
        self.clients.registry.lock(held)
    }
}

/// The end of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientEnd {
    /// Its next incarnation takes over, with the right to reclaim.
    Replaced,
    /// It has given its state back, and so reclaims none (RFC 8881 section 18.50).
    Left,
    /// It may believe that it has state. Grants to others wait until it cannot reclaim (RFC 8881
    /// section 8.4.3).
    Lost,
}

impl<F: Clone + Eq + Hash, O> Clients<'_, F, O> {
    pub(crate) fn sessions_of(&self, enrolled: &Enrolled) -> Vec<Arc<Session>> {
        enrolled.sessions.iter().filter_map(|key| self.state.sessions.get(*key)).collect()
    }

    /// Tells when a client's lease was renewed last.
    pub(crate) fn renewed(&self, enrolled: &Enrolled) -> Duration {
        let sessions = self.sessions_of(enrolled);
        enrolled.activities(&sessions).map(SessionActivity::renewed).fold(enrolled.renewed, Duration::max)
    }

    /// Keeps new requests out of all of a client's sessions; false, and nothing is changed, if
    /// requests run.
    pub(crate) fn close_gates(&self, enrolled: &Enrolled) -> bool {
        let sessions = self.sessions_of(enrolled);
        let closed = enrolled.activities(&sessions).take_while(|activity| activity.close(0)).count();
        let all = closed == enrolled.activities(&sessions).count();
        if !all {
            enrolled.activities(&sessions).take(closed).for_each(SessionActivity::reopen);
        }
        all
    }

    pub(crate) fn reopen_gates(&self, enrolled: &Enrolled) {
        enrolled.activities(&self.sessions_of(enrolled)).for_each(SessionActivity::reopen);
    }

    /// Returns whether a client's lease has run out and nothing of it runs; then its gates are
    /// closed, so that it stays so.
    pub(crate) fn expired(&self, enrolled: &Enrolled, now: Duration) -> bool {
        let over = || now >= self.renewed(enrolled).saturating_add(self.state.limits.lease);
        if !over() || !self.close_gates(enrolled) {
            return false;
        }
        // A request may have come and gone since.
        let over = over();
        if !over {
            self.reopen_gates(enrolled);
        }
        over
    }

    /// Removes a client with its sessions, opens, locks and copies.
    pub(crate) fn remove_client(
        &self,
        registry: &mut RegistryGuard<'_>,
        key: ClientKey,
        end: ClientEnd,
        effects: &mut Effects<O>,
    ) {
        let Ok(enrolled) = registry.client(key) else { return };
        for session in enrolled.sessions.clone() {
            self.state.sessions().remove_session(registry, session);
        }
        let (registry, held) = registry.split();
        let Some(enrolled) = registry.clients.remove(&key) else { return };
        let record = &enrolled.record;
        let may_reclaim = registry.may_reclaim(record);
        let forget = end != ClientEnd::Replaced && enrolled.confirmed && (enrolled.recorded || may_reclaim);
        if forget && end == ClientEnd::Left && !may_reclaim {
            self.state.forget_client(registry, &record.owner, effects);
        } else if forget {
            self.state.forget_holder(registry, &record.owner, effects);
        }
        record.tenant.clients.fetch_sub(1, Relaxed);
        self.state.clients.table.remove(key.0);
        let mut client_state = record.lock_any(held);
        self.state.v40().forget_client_40(record, &client_state);
        self.state.opens().remove_opens(&mut client_state, effects);
        self.state.delegations().remove_delegations(record, &mut client_state, effects);
        for key in client_state.copies.clone() {
            self.state.copies().remove_copy(&mut client_state, key);
        }
        self.state.revoked.forget(key);
        client_state.closed = true;
        drop(client_state);
        registry.by_id.remove(&record.id);
        if enrolled.confirmed {
            registry.confirmed.remove(&record.owner);
        } else {
            registry.unconfirmed.remove(&(Arc::clone(&record.owner), record.creator.hash));
        }
        if forget {
            self.state.leases().reclaimed(registry, &record.owner, effects);
        }
    }
}
