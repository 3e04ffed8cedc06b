//! Revocation by an administrator (RFC 8881 sections 8.4.2.4 and 18.46.3).
//!
//! The state goes at once, so that nobody waits for it. Its stateid is remembered until the client
//! frees it, so that the client learns why it is not valid: NFS4ERR_ADMIN_REVOKED. Until it has
//! freed all of them it is not on stable storage, since after a restart it might reclaim files that
//! others have by then (section 8.4.3).

pub(crate) mod image;

use crate::clients::{Client, ClientGuard, ClientState};
use crate::delegations::{Delegation, DelegationPhase};
use crate::opens::Open;
use crate::order::{Held, Leaf};
use crate::stateids::StateRef;
use crate::sync::Mutex;
use crate::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Relaxed},
};
use crate::{ClientKey, Clientid4, Effects, Leases, Nfsstat4, Principal, State, Stateid4};
use nfs4::SEQ4_STATUS_ADMIN_STATE_REVOKED;
use std::collections::BTreeMap;
use std::hash::Hash;

/// Revoked stateids that clients have not freed yet, for the whole server. With so many, no further
/// state is revoked.
const REVOKED_MAX: usize = 65_536;

/// The kind of a revoked stateid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevokedKind {
    /// An open, with the locks that were made under it.
    Open,
    /// A lock stateid, with its ranges.
    Lock,
    /// A delegation for reading or writing.
    Delegation,
}

/// A stateid that was revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// The kind of its state.
    pub kind: RevokedKind,
    /// The clientid4 of its client.
    pub client: Clientid4,
}

/// The number of stateids that one request has revoked, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RevokedCounts {
    /// The number of revoked opens.
    pub opens: usize,
    /// The number of revoked delegations.
    pub delegations: usize,
    /// The number of copies that end because their user is revoked.
    pub copies: usize,
    /// Whether more remain, because [`REVOKED_MAX`] stateids are not freed yet.
    pub incomplete: bool,
}

/// The reason why a stateid was not revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevokeError {
    /// No open, lock stateid or delegation has it.
    Unknown,
    /// Too many revoked stateids are not freed by their clients yet.
    TooMany,
}

/// The revoked stateids that clients have not freed yet, with their clients.
#[derive(Debug, Default)]
pub(crate) struct RevokedTable {
    /// The size of `all`. A stateid that is not valid is looked up only if there are any.
    count: AtomicUsize,
    all: Leaf<Mutex<BTreeMap<StateRef, ClientKey>>>,
}

impl RevokedTable {
    fn has_room(&self) -> bool {
        self.count.load(Relaxed) < REVOKED_MAX
    }

    fn add(&self, client: ClientKey, state: StateRef) {
        let mut all = self.all.lock();
        all.insert(state, client);
        self.count.store(all.len(), Relaxed);
    }

    /// Removes a stateid of a client; returns whether others of it remain, or `None` if there was
    /// no such stateid.
    fn remove(&self, client: ClientKey, state: StateRef) -> Option<bool> {
        let mut all = self.all.lock();
        all.get(&state).filter(|owner| **owner == client)?;
        all.remove(&state);
        self.count.store(all.len(), Relaxed);
        Some(all.values().any(|owner| *owner == client))
    }

    /// Forgets the stateids of a client that is removed.
    pub(crate) fn forget(&self, client: ClientKey) {
        if self.count.load(Relaxed) > 0 {
            let mut all = self.all.lock();
            all.retain(|_, owner| *owner != client);
            self.count.store(all.len(), Relaxed);
        }
    }

    fn owner(&self, state: StateRef) -> Option<ClientKey> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        self.all.lock().get(&state).copied()
    }

    /// Returns the status for a client's stateid without state.
    pub(crate) fn missing(&self, client: ClientKey, state: StateRef) -> Nfsstat4 {
        match self.owner(state) == Some(client) {
            true => Nfsstat4::NFS4ERR_ADMIN_REVOKED,
            false => Nfsstat4::NFS4ERR_BAD_STATEID,
        }
    }

    /// Returns whether a stateid was revoked, of any client.
    pub(crate) fn contains(&self, state: StateRef) -> bool {
        self.owner(state).is_some()
    }
}

impl<F: Clone + Eq + Hash, O> State<F, O> {
    /// Handles FREE_STATEID of a revoked stateid. The flag in SEQUENCE goes with the client's last
    /// one.
    pub(crate) fn free_revoked(&self, record: &Client, client: ClientKey, state: StateRef) {
        if self.revoked.remove(client, state) == Some(false) {
            record.status.fetch_and(!SEQ4_STATUS_ADMIN_STATE_REVOKED, AcqRel);
        }
    }
}

impl<F: Clone + Eq + Hash, O> Leases<'_, F, O> {
    /// Revokes the open, lock stateid or delegation with this stateid, whatever its sequence
    /// number. An open takes along its lock stateids and the client's delegation of the file, under
    /// which the client would open it again. Copies that use the state end.
    ///
    /// # Errors
    /// [`RevokeError`]. A delegation that was revoked before is unknown, too.
    pub fn revoke(
        &self,
        other: [u8; 12],
        effects: &mut Effects<O>,
    ) -> core::result::Result<Revoked, RevokeError> {
        let stateid = Stateid4 { seqid: 0, other };
        let state = self.state.state_ref(&stateid).map_err(|_| RevokeError::Unknown)?;
        self.revoke_of(self.holder(state).ok_or(RevokeError::Unknown)?, state, effects)
    }

    /// Returns the client that holds a state, unless it is revoked.
    fn holder(&self, state: StateRef) -> Option<ClientKey> {
        match state {
            StateRef::Open(key) => self.state.opens.read(key, |open| open.client),
            StateRef::Lock(key) => self.state.locks.read(key, |lock| lock.client),
            StateRef::Delegation(key) => {
                let held = |one: &Delegation<F, O>| one.phase != DelegationPhase::Revoked;
                self.state.delegations.read(key, |one| held(one).then_some(one.client))?
            }
            StateRef::Copy(_) => None,
        }
    }

    /// Revokes all opens of a principal with their locks, the delegations that these opens got, and
    /// all delegations of clients that the principal has created. Its copies end.
    pub fn revoke_principal(&self, principal: &Principal, effects: &mut Effects<O>) -> RevokedCounts {
        let mut delegations = Vec::new();
        self.state.delegations.each(|key, delegation| {
            let is_opener = delegation.opener == *principal;
            delegations.push((delegation.client, StateRef::Delegation(key), is_opener));
        });
        let is_creator = |client: ClientKey| {
            self.state.client(client).is_ok_and(|record| record.creator.principal == *principal)
        };
        delegations.retain(|(client, _, is_opener)| *is_opener || is_creator(*client));
        // Before the opens, which take the others along, so that they are counted.
        let mut found: Vec<_> = delegations.into_iter().map(|(client, state, _)| (client, state)).collect();
        self.state.opens.each(|key, open: &Open<F, O>| {
            if open.user.principal == *principal {
                found.push((open.client, StateRef::Open(key)));
            }
        });
        let copies = self.state.copies().revoke_of(principal);
        RevokedCounts { copies, ..self.revoke_all(found, effects) }
    }

    /// Revokes all opens and delegations of the files that `is_gone` names. Clients cannot return
    /// them, since the filehandles are stale.
    pub fn revoke_files(&self, is_gone: impl Fn(&F) -> bool, effects: &mut Effects<O>) -> RevokedCounts {
        let mut found = Vec::new();
        self.state.delegations.each(|key, one| {
            found.extend(is_gone(&one.file).then_some((one.client, StateRef::Delegation(key))));
        });
        self.state.opens.each(|key, open: &Open<F, O>| {
            found.extend(is_gone(&open.file).then_some((open.client, StateRef::Open(key))));
        });
        self.revoke_all(found, effects)
    }

    fn revoke_all(&self, found: Vec<(ClientKey, StateRef)>, effects: &mut Effects<O>) -> RevokedCounts {
        let mut counts = RevokedCounts::default();
        for (client, state) in found {
            match self.revoke_of(client, state, effects) {
                Ok(Revoked { kind: RevokedKind::Open, .. }) => counts.opens += 1,
                Ok(Revoked { kind: RevokedKind::Delegation, .. }) => counts.delegations += 1,
                Ok(Revoked { kind: RevokedKind::Lock, .. }) | Err(RevokeError::Unknown) => {}
                Err(RevokeError::TooMany) => counts.incomplete = true,
            }
        }
        counts
    }

    fn revoke_of(
        &self,
        client: ClientKey,
        state: StateRef,
        effects: &mut Effects<O>,
    ) -> core::result::Result<Revoked, RevokeError> {
        if !self.state.revoked.has_room() {
            return Err(RevokeError::TooMany);
        }
        let record = self.state.client(client).map_err(|_| RevokeError::Unknown)?;
        let held = &mut Held::nothing();
        let mut registry = self.state.registry(held);
        let (registry, held) = registry.split();
        let mut client_state = record.lock(held).map_err(|_| RevokeError::Unknown)?;
        if self.holder(state) == Some(client) {
            self.state.leases().forget_until_freed(registry, client, effects);
        }
        let gone = self.take_state(&record, client, &mut client_state, state, effects);
        let kind = gone.ok_or(RevokeError::Unknown)?;
        // Under the client's state, so that the flag agrees with the table for every observer.
        record.status.fetch_or(SEQ4_STATUS_ADMIN_STATE_REVOKED, AcqRel);
        Ok(Revoked { kind, client: record.id })
    }

    /// Remembers a stateid, and ends the copies that use it. This comes before the state goes: for
    /// every observer the stateid is either valid or revoked.
    fn note_revoked(&self, client: ClientKey, client_state: &ClientState, state: StateRef) {
        self.state.revoked.add(client, state);
        self.state.copies().revoke_by(client_state, state);
    }

    /// Removes state of a client and remembers its stateids. Returns `None` if it is gone already.
    fn take_state(
        &self,
        record: &Client,
        client: ClientKey,
        client_state: &mut ClientGuard<'_>,
        state: StateRef,
        effects: &mut Effects<O>,
    ) -> Option<RevokedKind> {
        match state {
            StateRef::Open(key) => {
                let (file, locks) =
                    self.state.opens.read(key, |open| (open.file.clone(), open.locks.clone()))?;
                if let Some(own) = self.state.delegations().own_key(client_state.below(), client, &file) {
                    self.take_state(record, client, client_state, StateRef::Delegation(own), effects);
                }
                let locks = locks.into_iter().map(StateRef::Lock);
                locks.chain([state]).for_each(|state| self.note_revoked(client, client_state, state));
                self.state.opens().remove_open(client_state, key, effects);
                self.state.v40().forget_unconfirmed(record, key);
                Some(RevokedKind::Open)
            }
            StateRef::Lock(key) => {
                let file = self.state.locks().lock_of(key).ok()?.file;
                self.note_revoked(client, client_state, state);
                let (client_state, held) = client_state.split();
                let mut files = self.state.files.lock(held, &file);
                if let Some(of_file) = files.get_mut(&file) {
                    self.state.locks().remove_lock_state(client_state, &file, of_file, key, effects);
                }
                Some(RevokedKind::Lock)
            }
            StateRef::Delegation(key) => {
                self.holder(state)?;
                self.note_revoked(client, client_state, state);
                self.state.delegations().remove_delegation(record, client_state, key, effects);
                Some(RevokedKind::Delegation)
            }
            StateRef::Copy(_) => None,
        }
    }
}
