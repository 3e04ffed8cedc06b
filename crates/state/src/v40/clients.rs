//! SETCLIENTID, SETCLIENTID_CONFIRM and RENEW (RFC 7530 sections 16.33, 16.34 and 16.28).

use super::{Confirm, V40Client};
use crate::V40;
use crate::clients::creator::Creator;
use crate::clients::registry::{ClientEnd, Enrolled, FormerVerifiers, Registry};
use crate::clients::tenants::Tenant;
use crate::clients::{Client, ClientState};
use crate::order::{Held, NothingHeld};
use crate::sync::atomic::Ordering::{Acquire, Release};
use crate::{Caller, ClientKey, Clientid4, Effects, Nfsstat4, Principal, Result, StateProtect};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// The prefix of nfs_client_id4.id in tables of clients of all minor versions; no co_ownerid may
/// begin with it.
pub(crate) const NAME_PREFIX: &[u8] = b"\0NFSv4.0\0";

/// The arguments of SETCLIENTID. The callback is of no use, since there are no delegations to
/// recall.
#[derive(Clone, Copy, Debug)]
pub struct Setclientid<'a> {
    /// client.id, at most [`crate::Limits::owner_size_max`] bytes.
    pub id: &'a [u8],
    /// client.verifier: changes when the client restarts.
    pub verifier: [u8; 8],
}

/// The results of SETCLIENTID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetclientidOk {
    /// clientid: the client id.
    pub clientid: Clientid4,
    /// setclientid_confirm: the verifier for SETCLIENTID_CONFIRM.
    pub confirm: [u8; 8],
}

impl<F: Clone + Eq + Hash, O> V40<'_, F, O> {
    /// Handles SETCLIENTID: all cases of RFC 7530 section 16.33.5. `random` becomes
    /// setclientid_confirm.
    ///
    /// # Errors
    /// NFS4ERR_INVAL, NFS4ERR_CLID_INUSE (another principal's, which holds something and has a
    /// lease), NFS4ERR_DELAY (too many clients).
    pub fn setclientid(
        &self,
        now: Duration,
        caller: &Caller<'_>,
        args: &Setclientid<'_>,
        random: u64,
        effects: &mut Effects<O>,
    ) -> Result<SetclientidOk> {
        if args.id.len() > self.state.limits.owner_size_max {
            return Err(Nfsstat4::NFS4ERR_INVAL);
        }
        let name = [NAME_PREFIX, args.id].concat();
        let held = &mut Held::nothing();
        let mut registry = self.state.registry(held);
        self.state.leases().end_grace_if_over(&mut registry, now, effects);
        let creator = Creator::of(&self.state.principal_key, caller);
        if let Some(key) = registry.confirmed.get(&*name).copied() {
            let (known, held) = registry.split();
            let client = known.client(key)?;
            let collides = !known.is_of(&client.record, &creator);
            if !collides && client.record.verifier == args.verifier {
                let v40 = client.record.v40.as_ref().ok_or(Nfsstat4::NFS4ERR_SERVERFAULT)?;
                return Ok(SetclientidOk { clientid: client.record.id, confirm: v40.update(random) });
            }
            if collides {
                self.state.clients().make_way(known, held, now, client, &creator)?;
                self.state.clients().remove_client(&mut registry, key, ClientEnd::Lost, effects);
            }
        }
        let unconfirmed = (Arc::from(&*name), creator.hash);
        if let Some(key) = registry.unconfirmed.get(&unconfirmed).copied() {
            self.state.clients().remove_client(&mut registry, key, ClientEnd::Replaced, effects);
        }
        let tenant = self.state.sessions().make_room_for_client(&mut registry, now, caller, effects)?;
        Ok(self.new_client_40(&mut registry, now, creator, &name, args.verifier, random, tenant))
    }

    /// Adds an unconfirmed record, for which there must be room.
    #[expect(
        clippy::too_many_arguments,
        reason = "the request's fields, and the clients that were found for them"
    )]
    fn new_client_40(
        &self,
        registry: &mut Registry,
        now: Duration,
        creator: Creator,
        name: &[u8],
        verifier: [u8; 8],
        random: u64,
        tenant: Arc<Tenant>,
    ) -> SetclientidOk {
        let id = registry.new_clientid(self.state.epoch, &self.state.scramble);
        let v40 = V40Client::default();
        let confirm = v40.begin(random);
        let mut record = Client::new(id, name, verifier, creator, StateProtect::None, tenant);
        record.v40 = Some(Box::new(v40));
        let record = Arc::new(record);
        let enrolled = Enrolled {
            record: Arc::clone(&record),
            confirmed: false,
            create_sequence: 0,
            create_reply: Err(Nfsstat4::NFS4ERR_SEQ_MISORDERED),
            sessions: Vec::new(),
            renewed: now,
            recorded: false,
            former: FormerVerifiers::default(),
        };
        let key = self.state.clients.insert(record);
        registry.enroll(key, enrolled);
        SetclientidOk { clientid: id, confirm }
    }

    /// Handles SETCLIENTID_CONFIRM: all cases of RFC 7530 section 16.34.5. The first confirmation
    /// ends the client's earlier incarnation with all that it has.
    ///
    /// # Errors
    /// NFS4ERR_STALE_CLIENTID, NFS4ERR_CLID_INUSE (another principal).
    pub fn setclientid_confirm(
        &self,
        now: Duration,
        caller: &Caller<'_>,
        clientid: Clientid4,
        confirm: [u8; 8],
        effects: &mut Effects<O>,
    ) -> Result<()> {
        let held = &mut Held::nothing();
        let mut registry = self.state.registry(held);
        let (key, client) = registry.by_id_40(clientid)?;
        let record = Arc::clone(&client.record);
        let v40 = record.v40.as_ref().filter(|v40| v40.gave(confirm));
        let v40 = v40.ok_or(Nfsstat4::NFS4ERR_STALE_CLIENTID)?;
        if !record.creator.is(caller) {
            return Err(Nfsstat4::NFS4ERR_CLID_INUSE);
        }
        if client.confirmed {
            v40.confirm(confirm);
            return Ok(());
        }
        self.state.sessions().confirm_client(&mut registry, now, key, effects)?;
        v40.activity.renew(now);
        v40.recorded.store(registry.client(key)?.recorded, Release);
        self.state.v40.ids.write().insert(clientid, key);
        Ok(())
    }

    /// Finds the confirmed NFSv4.0 client that an operation names by its id, and renews its lease
    /// (RFC 7530 section 9.5) as [`crate::V40::client_of_stateid_40`] does.
    ///
    /// # Errors
    /// NFS4ERR_STALE_CLIENTID, NFS4ERR_EXPIRED (it was given out by this start, and is no more; or
    /// its lease is over and the caller may not renew it), NFS4ERR_DELAY.
    pub fn client_of_id_40(
        &self,
        now: Duration,
        caller: &Caller<'_>,
        clientid: Clientid4,
    ) -> Result<ClientKey> {
        let key = self.key_of_id_40(&mut Held::nothing(), clientid)?;
        self.visit_40(now, caller, key).map(|_| key)
    }

    fn key_of_id_40(&self, held: &mut Held<NothingHeld>, clientid: Clientid4) -> Result<ClientKey> {
        let key = self.state.v40.ids.read().get(&clientid).copied();
        key.ok_or_else(|| {
            match self.state.registry(held).has_issued(clientid, self.state.epoch, &self.state.scramble) {
                true => Nfsstat4::NFS4ERR_EXPIRED,
                false => Nfsstat4::NFS4ERR_STALE_CLIENTID,
            }
        })
    }

    /// Lets a caller use an NFSv4.0 client, and renews the lease if the caller may do that.
    ///
    /// Each user of the client's machine sends operations with its own credential, so none of them
    /// is refused for that. But only the creator's principal and callers from the creator's address
    /// keep the client alive. Others use it for as long as it is alive: a stranger that knows an id
    /// or a stateid cannot keep a dead client's locks.
    pub(super) fn visit_40(&self, now: Duration, caller: &Caller<'_>, key: ClientKey) -> Result<Arc<Client>> {
        let record = self.state.client(key).map_err(|_| Nfsstat4::NFS4ERR_EXPIRED)?;
        // A stateid of a client of another minor version means nothing in this one.
        let v40 = record.v40.as_ref().ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
        if !v40.activity.enter() {
            // It is being decided whether the client goes.
            return Err(Nfsstat4::NFS4ERR_DELAY);
        }
        let near = v40.is_near(&record.creator, caller);
        let over = now >= v40.activity.renewed().saturating_add(self.state.limits.lease);
        if near {
            v40.activity.renew(now);
        }
        v40.activity.leave();
        if over && !near { Err(Nfsstat4::NFS4ERR_EXPIRED) } else { Ok(record) }
    }

    /// Handles RENEW, which the client's principal and users with opens may send (RFC 7530 section
    /// 16.28.5). The latter renew a lease that has not expired.
    ///
    /// # Errors
    /// The errors of [`crate::V40::client_of_id_40`], NFS4ERR_ACCESS.
    pub fn renew_40(&self, now: Duration, caller: &Caller<'_>, clientid: Clientid4) -> Result<()> {
        let held = &mut Held::nothing();
        let key = self.key_of_id_40(held, clientid)?;
        let record = self.state.client(key).map_err(|_| Nfsstat4::NFS4ERR_EXPIRED)?;
        if !record.creator.is(caller) && !self.has_opened_40(held, &record, caller.principal) {
            return Err(Nfsstat4::NFS4ERR_ACCESS);
        }
        let record = self.visit_40(now, caller, key)?;
        if let Some(v40) = &record.v40 {
            v40.activity.renew(now);
        }
        Ok(())
    }

    fn has_opened_40(&self, held: &mut Held<NothingHeld>, record: &Client, principal: &Principal) -> bool {
        let client_state = record.lock_any(held);
        record.v40.as_ref().is_some_and(|v40| v40.owners_of(principal).any_in(&client_state.open_owners))
    }

    /// Returns whether an NFSv4.0 client is on stable storage, so that it may reclaim its new
    /// state.
    pub fn is_recorded_40(&self, key: ClientKey) -> bool {
        let v40 = |record: &Arc<Client>| record.v40.as_ref().map(|v40| v40.recorded.load(Acquire));
        self.state.client(key).ok().as_ref().and_then(v40).unwrap_or(true)
    }

    /// Puts an NFSv4.0 client on stable storage: there is no RECLAIM_COMPLETE that would say when,
    /// so it is done with the first OPEN (RFC 7530 section 9.6.3.4).
    pub fn record_client_40(&self, key: ClientKey, effects: &mut Effects<O>) {
        let held = &mut Held::nothing();
        let mut registry = self.state.registry(held);
        // An impostor must not take the place of the client that may still reclaim; it gets nothing
        // before that is over.
        if registry.client(key).is_ok_and(|client| !registry.is_impostor(&client.record)) {
            self.state.leases().record_client(&mut registry, key, effects);
        }
    }

    /// Forgets the NFSv4.0 state of a client that is removed. Its opens and locks are still there.
    pub(crate) fn forget_client_40(&self, record: &Client, client_state: &ClientState) {
        let Some(v40) = &record.v40 else { return };
        self.state.v40.ids.write().remove(&record.id);
        self.remember_gone(client_state);
        self.forget_owners(record, v40);
    }
}

impl V40Client {
    /// Whether the caller belongs to the machine that created the client: its proof is as good as
    /// the creator's, or users of that machine have opened files by AUTH_SYS already.
    pub(super) fn is_near(&self, creator: &Creator, caller: &Caller<'_>) -> bool {
        creator.is_near(caller) || (self.has_claimed_users.load(Acquire) && creator.shares_address(caller))
    }

    fn begin(&self, random: u64) -> [u8; 8] {
        let confirm = random.max(1).to_be_bytes();
        *self.confirm.lock() = Confirm { current: confirm, pending: None };
        confirm
    }

    /// A SETCLIENTID for the confirmed client gets a new value.
    fn update(&self, random: u64) -> [u8; 8] {
        let mut own = self.confirm.lock();
        let mut value = random.max(1);
        while own.current == value.to_be_bytes() || own.pending == Some(value.to_be_bytes()) {
            value = value.wrapping_add(1).max(1);
        }
        own.pending = Some(value.to_be_bytes());
        value.to_be_bytes()
    }

    fn gave(&self, confirm: [u8; 8]) -> bool {
        let own = self.confirm.lock();
        own.current == confirm || own.pending == Some(confirm)
    }

    fn confirm(&self, confirm: [u8; 8]) {
        let mut own = self.confirm.lock();
        if own.pending == Some(confirm) {
            *own = Confirm { current: confirm, pending: None };
        }
    }
}
