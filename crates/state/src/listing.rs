//! Lists clients, sessions, opens, locks and delegations for an administrator.
//!
//! A listing copies table by table and holds no lock for longer than the copy of a stripe takes, so
//! that requests go on. While they run, the entries need not be of one moment.

use crate::clients::Client;
use crate::delegations::{DelegationPhase, SEQID};
use crate::opens::Open;
use crate::order::Held;
use crate::sessions::Session;
use crate::slab::SlabKey;
use crate::stateids::StateRef;
use crate::{
    CallbackSecurity, ClientKey, Clientid4, DelegationMode, LockMode, LockRange, Principal, Protection,
    Sessionid4, State, Stateid4,
};
use std::collections::BTreeSet;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A client record, as an administrator sees it.
#[derive(Clone, Debug)]
pub struct ListedClient {
    /// The clientid4 that the server gave it.
    pub id: Clientid4,
    /// co_ownerid of EXCHANGE_ID, or the id of SETCLIENTID.
    pub owner: Arc<[u8]>,
    /// The principal that created it.
    pub principal: Principal,
    /// The address that it was created from.
    pub address: IpAddr,
    /// Whether it is one of NFSv4.0.
    pub is_40: bool,
    /// Whether it was confirmed by CREATE_SESSION or SETCLIENTID_CONFIRM.
    pub confirmed: bool,
    /// Number of its sessions.
    pub sessions: usize,
    /// Requests of its sessions, as far as slots count them: modulo 2^32 each. NFSv4.0 has none.
    pub requests: u64,
    /// Number of its opens.
    pub opens: usize,
    /// Number of its locked ranges.
    pub locks: usize,
    /// Number of its delegations, revoked ones included.
    pub delegations: usize,
    /// Time since its lease was renewed.
    pub silent: Duration,
    /// Whether its lease has run out, so that it keeps its state as a courtesy.
    pub expired: bool,
}

/// A session, as an administrator sees it.
#[derive(Clone, Debug)]
pub struct ListedSession {
    /// The session ID on the wire.
    pub id: Sessionid4,
    /// The client that created it.
    pub holder: ListedHolder,
    /// The minor version that it was created with: 1 or 2.
    pub minor_version: u32,
    /// Number of the connections of its fore channel.
    pub connections: usize,
    /// Slots with a request that runs now.
    pub slots_running: usize,
    /// Slots that the client may use.
    pub slots_granted: u32,
    /// The kinds of the last requests on its slots: whether RPCSEC_GSS proved the caller, and the
    /// protection.
    pub callers: BTreeSet<(bool, Protection)>,
    /// The backchannel, unless the client asked for none.
    pub backchannel: Option<ListedBackchannel>,
}

/// The backchannel of a session, as an administrator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedBackchannel {
    /// Number of connections that carry callbacks.
    pub connections: usize,
    /// Whether callbacks get through, as far as is known.
    pub works: bool,
    /// The authentication of callbacks, in the order in which it is tried.
    pub security: Vec<CallbackSecurity>,
}

/// The holder of an open or a delegation.
#[derive(Clone, Debug)]
pub struct ListedHolder {
    /// The clientid4 of its client.
    pub client: Clientid4,
    /// The address that the client was created from.
    pub address: IpAddr,
    /// The principal: of the user for an open and for the OPEN that got a delegation, of the client
    /// for a session.
    pub principal: Principal,
}

/// An open of a file, and its locks.
#[derive(Clone, Debug)]
pub struct ListedOpen<R> {
    /// The client and the user.
    pub holder: ListedHolder,
    /// The stateid with its present sequence number.
    pub stateid: Stateid4,
    /// The part of file and payload that the caller asked for.
    pub file: R,
    /// share_access, with OPEN4_SHARE_ACCESS_READ and OPEN4_SHARE_ACCESS_WRITE.
    pub access: u32,
    /// share_deny, with bits as in `access`.
    pub deny: u32,
    /// The ranges that are locked under it.
    pub locks: Vec<ListedLock>,
}

/// A locked range of an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedLock {
    /// The stateid of its owner under the open.
    pub stateid: Stateid4,
    /// The bytes that are locked.
    pub range: LockRange,
    /// The mode of the lock.
    pub mode: LockMode,
}

/// A delegation, as an administrator sees it.
#[derive(Clone, Debug)]
pub struct ListedDelegation<R> {
    /// The client that has it, and the user whose OPEN got it.
    pub holder: ListedHolder,
    /// The stateid with its present sequence number.
    pub stateid: Stateid4,
    /// The part of file and payload that the caller asked for; a revoked delegation has no payload.
    pub file: R,
    /// The mode of the delegation.
    pub mode: DelegationMode,
    /// `held`, `recalled` or `revoked`.
    pub phase: &'static str,
}

/// A part of a table, and how many more entries there are.
#[derive(Clone, Debug)]
pub struct Listed<T> {
    /// At most as many entries as the caller asked for.
    pub entries: Vec<T>,
    /// Number of the entries that were left out.
    pub left_out: usize,
}

impl<T> Listed<T> {
    fn new() -> Self {
        Self { entries: Vec::new(), left_out: 0 }
    }

    fn push(&mut self, max: usize, entry: impl FnOnce() -> T) {
        match self.entries.len() < max {
            true => self.entries.push(entry()),
            false => self.left_out += 1,
        }
    }

    fn filter_map<R>(self, run: impl FnMut(T) -> Option<R>) -> Listed<R> {
        Listed { entries: self.entries.into_iter().filter_map(run).collect(), left_out: self.left_out }
    }
}

/// The keys of an open, for a look at its locks when the stripe of opens is free again.
struct OpenKeys<F> {
    client: ClientKey,
    principal: Principal,
    name: F,
    locks: Vec<SlabKey>,
}

impl<F: Clone + Eq + Hash, O> State<F, O> {
    /// Lists at most `max` clients.
    pub fn list_clients(&self, now: Duration, max: usize) -> Listed<ListedClient> {
        let held = &mut Held::nothing();
        let mut enrolled = Listed::new();
        {
            let registry = self.registry(held);
            for client in registry.clients.values() {
                enrolled.push(max, || {
                    let sessions = self.clients().sessions_of(client);
                    (Arc::clone(&client.record), client.confirmed, sessions, self.clients().renewed(client))
                });
            }
        }
        enrolled.filter_map(|(record, confirmed, sessions, renewed)| {
            let requests = sessions.iter().map(|session| session.slots.requests()).sum();
            let state = record.lock_any(held);
            let silent = now.saturating_sub(renewed);
            Some(ListedClient {
                id: record.id,
                owner: Arc::clone(&record.owner),
                principal: record.creator.principal.clone(),
                address: record.creator.address(),
                is_40: record.v40.is_some(),
                confirmed,
                sessions: sessions.len(),
                requests,
                opens: state.opens.len(),
                locks: state.locks.saturating_sub(state.lock_states.len()),
                delegations: state.delegations.len(),
                silent,
                expired: silent >= self.limits.lease,
            })
        })
    }

    /// Lists at most `max` sessions.
    pub fn list_sessions(&self, max: usize) -> Listed<ListedSession> {
        let mut found = Listed::new();
        for session in self.sessions.all() {
            found.push(max, || session);
        }
        found.filter_map(|session| self.listed(&session))
    }

    fn listed(&self, session: &Session) -> Option<ListedSession> {
        let held = &mut Held::nothing();
        let (fore, back) = session.connection_counts(held);
        let slots = (0..session.fore.requests).filter_map(|slot| session.slots.lock_used(slot));
        let (mut slots_running, mut callers) = (0, BTreeSet::new());
        for slot in slots {
            slots_running += usize::from(slot.is_running());
            callers.extend(slot.caller());
        }
        Some(ListedSession {
            id: session.id,
            holder: self.holder(session.client)?,
            minor_version: session.minor_version,
            connections: fore,
            slots_running,
            slots_granted: session.fore.requests,
            callers,
            backchannel: session.listed_backchannel(back),
        })
    }

    /// Lists at most `max` opens. `take` runs under a lock and has to be brief.
    pub fn list_opens<R>(&self, max: usize, take: impl Fn(&F, &O) -> R) -> Listed<ListedOpen<R>> {
        let mut found = Listed::new();
        self.opens.each(|key, open: &Open<F, O>| {
            found.push(max, || {
                let stateid = self.stateid(StateRef::Open(key), open.seqid);
                let keys = OpenKeys {
                    client: open.client,
                    principal: open.user.principal.clone(),
                    name: open.file.clone(),
                    locks: open.locks.clone(),
                };
                (keys, stateid, open.share, take(&open.file, &open.payload))
            });
        });
        found.filter_map(|(keys, stateid, share, file)| {
            let locks = self.ranges_of(&keys);
            let holder = ListedHolder { principal: keys.principal, ..self.holder(keys.client)? };
            Some(ListedOpen { holder, stateid, file, access: share.access, deny: share.deny, locks })
        })
    }

    /// Lists at most `max` delegations. `take` runs under a lock and has to be brief.
    pub fn list_delegations<R>(
        &self,
        max: usize,
        take: impl Fn(&F, Option<&O>) -> R,
    ) -> Listed<ListedDelegation<R>> {
        let mut found = Listed::new();
        self.delegations.each(|key, delegation| {
            let phase = match delegation.phase {
                DelegationPhase::Held => "held",
                DelegationPhase::Recalled { .. } => "recalled",
                DelegationPhase::Revoked => "revoked",
            };
            found.push(max, || {
                let file = take(&delegation.file, delegation.payload.as_ref());
                let stateid = self.stateid(StateRef::Delegation(key), SEQID);
                (delegation.client, delegation.opener.clone(), stateid, delegation.mode, phase, file)
            });
        });
        found.filter_map(|(client, principal, stateid, mode, phase, file)| {
            let holder = ListedHolder { principal, ..self.holder(client)? };
            Some(ListedDelegation { holder, stateid, file, mode, phase })
        })
    }

    /// Runs a closure on file and payload of every open, under the lock of its stripe.
    pub fn each_open(&self, mut run: impl FnMut(&F, &O)) {
        self.opens.each(|_, open: &Open<F, O>| run(&open.file, &open.payload));
    }

    /// Returns the client as the holder of something; `None` if it has gone.
    fn holder(&self, key: ClientKey) -> Option<ListedHolder> {
        let client: Arc<Client> = self.client(key).ok()?;
        let (address, principal) = (client.creator.address(), client.creator.principal.clone());
        Some(ListedHolder { client: client.id, address, principal })
    }

    fn ranges_of(&self, open: &OpenKeys<F>) -> Vec<ListedLock> {
        let owner = |key: &SlabKey| {
            let stateid = |seqid| self.stateid(StateRef::Lock(*key), seqid);
            self.locks.read(*key, |lock| (lock.owner, stateid(lock.seqid)))
        };
        let owners: Vec<(SlabKey, Stateid4)> = open.locks.iter().filter_map(owner).collect();
        if owners.is_empty() {
            return Vec::new();
        }
        let held = &mut Held::nothing();
        let files = self.files.read(held, &open.name);
        let Some(file) = files.get(&open.name) else { return Vec::new() };
        let locks = owners.iter().flat_map(|(owner, stateid)| {
            let ranges = file.ranges.of(*owner);
            ranges.map(|(range, mode)| ListedLock { stateid: *stateid, range, mode })
        });
        locks.collect()
    }
}
