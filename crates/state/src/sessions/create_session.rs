//! CREATE_SESSION (RFC 8881 section 18.36): a client id is confirmed and gets a session.

pub(crate) mod image;

use crate::Sessions;
use crate::clients::Client;
use crate::clients::registry::{ClientEnd, Enrolled, FormerVerifiers, Registry, RegistryGuard};
use crate::clients::tenants::{Tenant, is_of};
use crate::order::{Held, Leaf, Ordered, RegistryLevel};
use crate::sessions::callbacks::{BackSlots, PathStatus};
use crate::sessions::memory::{CountedMemory, Pressure, TIGHT_PART};
use crate::sessions::slots::Slots;
use crate::sessions::{Callback, Session, SessionActivity, sessionid};
use crate::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{Mutex, RwLock};
use crate::{
    Bound, CallbackSecurity, Caller, ClientKey, Clientid4, Effects, Nfsstat4, Result, Sessionid4,
    StateProtect,
};
use nfs4::{
    CREATE_SESSION4_FLAG_CONN_BACK_CHAN, CREATE_SESSION4_FLAG_CONN_RDMA, CREATE_SESSION4_FLAG_PERSIST,
    NfsOpnum4,
};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

const CREATE_SESSION4_FLAG_MASK: u32 =
    CREATE_SESSION4_FLAG_PERSIST | CREATE_SESSION4_FLAG_CONN_BACK_CHAN | CREATE_SESSION4_FLAG_CONN_RDMA;
/// Bytes below which no message fits: an RPC header with an RPCSEC_GSS credential and verifier, a
/// COMPOUND header and SEQUENCE.
const MESSAGE_SIZE_MIN: u32 = 256;

/// Number of operations in the shortest callback: CB_SEQUENCE and one more.
const CB_OPERATIONS_MIN: u32 = 2;

/// channel_attrs4: the requested or granted limits of one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelAttrs {
    /// ca_headerpadsize: padding of headers, in bytes.
    pub header_pad_size: u32,
    /// ca_maxrequestsize: the largest request, in bytes.
    pub request_size: u32,
    /// ca_maxresponsesize: the largest reply, in bytes.
    pub response_size: u32,
    /// ca_maxresponsesize_cached: the largest reply that is cached, in bytes.
    pub response_cached: u32,
    /// ca_maxoperations of one COMPOUND.
    pub operations: u32,
    /// ca_maxrequests: the number of slots.
    pub requests: u32,
}

/// The arguments of CREATE_SESSION.
#[derive(Clone, Debug)]
pub struct CreateSession {
    /// csa_clientid: the client id.
    pub clientid: Clientid4,
    /// csa_sequence: the client's sequence number.
    pub sequence: u32,
    /// csa_flags: the CREATE_SESSION4_FLAG bits.
    pub flags: u32,
    /// csa_fore_chan_attrs: the requested fore channel.
    pub fore: ChannelAttrs,
    /// csa_back_chan_attrs: the requested backchannel.
    pub back: ChannelAttrs,
    /// The minor version of the COMPOUND: that of the callbacks, too.
    pub minor_version: u32,
    /// csa_cb_program: the RPC program of callbacks.
    pub callback_program: u32,
    /// csa_sec_parms: the protection of callbacks, in order of preference.
    pub callback_security: Vec<CallbackSecurity>,
}

/// The results of CREATE_SESSION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateSessionOk {
    /// csr_sessionid: the new session.
    pub sessionid: Sessionid4,
    /// csr_sequence: the client's sequence number.
    pub sequence: u32,
    /// csr_flags: the granted CREATE_SESSION4_FLAG bits.
    pub flags: u32,
    /// csr_fore_chan_attrs: the granted fore channel.
    pub fore: ChannelAttrs,
    /// csr_back_chan_attrs: the granted backchannel.
    pub back: ChannelAttrs,
}

impl<F: Clone + Eq + Hash, O> Sessions<'_, F, O> {
    /// Handles CREATE_SESSION, its replays included. `random` goes into the session id.
    ///
    /// # Errors
    /// NFS4ERR_STALE_CLIENTID, NFS4ERR_CLID_INUSE, NFS4ERR_WRONG_CRED, NFS4ERR_SEQ_MISORDERED,
    /// NFS4ERR_INVAL, NFS4ERR_TOOSMALL, NFS4ERR_NOSPC (too many sessions of the client in use),
    /// NFS4ERR_DELAY (no memory for another one).
    pub fn create_session(
        &self,
        now: Duration,
        caller: &Caller<'_>,
        args: &CreateSession,
        random: u64,
        effects: &mut Effects<O>,
    ) -> Result<CreateSessionOk> {
        let held = &mut Held::nothing();
        let mut registry = self.state.registry(held);
        let (key, client) = registry.by_id(args.clientid)?;
        check_principal(client, caller)?;
        if args.sequence == client.create_sequence && is_repeated(&client.create_reply) {
            let reply = client.create_reply.clone();
            return self.replay_create_session(registry.below(), caller, reply);
        }
        if args.sequence.wrapping_sub(client.create_sequence) > 1 {
            return Err(Nfsstat4::NFS4ERR_SEQ_MISORDERED);
        }
        let reply = self.new_session(&mut registry, now, key, caller, args, random, effects);
        if let Ok(client) = registry.client_mut(key) {
            client.create_sequence = args.sequence;
            client.create_reply = reply.map(Box::new);
        }
        reply
    }

    /// Returns the result of the CREATE_SESSION that this one repeats, for a caller that cannot
    /// make sense of the arguments any more; `None` if it repeats none.
    pub fn repeat_create_session(
        &self,
        caller: &Caller<'_>,
        clientid: Clientid4,
        sequence: u32,
    ) -> Option<Result<CreateSessionOk>> {
        let held = &mut Held::nothing();
        let mut registry = self.state.registry(held);
        let (_, client) = registry.by_id(clientid).ok()?;
        check_principal(client, caller).ok()?;
        if sequence != client.create_sequence || client.create_reply.is_err() {
            return None;
        }
        let reply = client.create_reply.clone();
        Some(self.replay_create_session(registry.below(), caller, reply))
    }

    /// The cached result; the connection may be a new one and is associated as the first was.
    fn replay_create_session(
        &self,
        held: &mut Held<RegistryLevel>,
        caller: &Caller<'_>,
        reply: Result<Box<CreateSessionOk>>,
    ) -> Result<CreateSessionOk> {
        let reply = *reply?;
        if let Ok(session) = self.session(&reply.sessionid) {
            self.associate(held, &session, caller.connection, bound_of(reply.flags));
        }
        Ok(reply)
    }

    /// Checks one more session of a client against its limits and those of its tenant, which it
    /// returns. Abandoned sessions of the client make room.
    ///
    /// # Errors
    /// NFS4ERR_NOSPC.
    fn admit_session(
        &self,
        registry: &mut RegistryGuard<'_>,
        now: Duration,
        key: ClientKey,
    ) -> Result<Arc<Tenant>> {
        while self.is_full_of_sessions(registry, registry.client(key)?) {
            if !self.remove_abandoned_session(registry, now, key) {
                return Err(Nfsstat4::NFS4ERR_NOSPC);
            }
        }
        Ok(Arc::clone(&registry.client(key)?.record.tenant))
    }

    fn is_full_of_sessions(&self, registry: &Registry, client: &Enrolled) -> bool {
        let tenant = &client.record.tenant;
        let of_client = self.state.quotas.of_client(client.record.creator.address()).sessions_max;
        let client_max = of_client.unwrap_or(self.state.limits.sessions_per_client_max);
        let of_tenant = match client.record.creator.proved {
            true => self.state.quotas.of_tenant(&client.record.creator.tenant()).sessions_max,
            false => None,
        };
        let is_full = |max: usize| {
            let own = registry.clients.values().filter(|other| Arc::ptr_eq(&other.record.tenant, tenant));
            own.map(|client| client.sessions.len()).sum::<usize>() >= max
        };
        client.sessions.len() >= client_max || of_tenant.is_some_and(is_full)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a session, used once")]
    fn new_session(
        &self,
        registry: &mut RegistryGuard<'_>,
        now: Duration,
        key: ClientKey,
        caller: &Caller<'_>,
        args: &CreateSession,
        random: u64,
        effects: &mut Effects<O>,
    ) -> Result<CreateSessionOk> {
        check_args(args)?;
        let tenant = self.admit_session(registry, now, key)?;
        let pressure = self.make_room_for_session(registry, now, &tenant, effects)?;
        // Its own lease may have been over.
        registry.client(key).map_err(|_| Nfsstat4::NFS4ERR_STALE_CLIENTID)?;
        let fore = self.fore_channel(&args.fore, pressure);
        let back = ChannelAttrs { header_pad_size: 0, ..args.back };
        self.confirm_client(registry, now, key, effects)?;
        let client = registry.client_mut(key)?;
        let session = self.insert_session(now, key, &client.record, fore, back, args, random);
        client.sessions.push(session.key);
        let flags = args.flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
        self.associate(registry.below(), &session, caller.connection, bound_of(flags));
        Ok(CreateSessionOk { sessionid: session.id, sequence: args.sequence, flags, fore, back })
    }

    /// Makes room for one more session of a tenant: removes the state of clients with expired
    /// leases first, then unused sessions.
    ///
    /// # Errors
    /// NFS4ERR_DELAY while there is no room.
    fn make_room_for_session(
        &self,
        registry: &mut RegistryGuard<'_>,
        now: Duration,
        tenant: &Arc<Tenant>,
        effects: &mut Effects<O>,
    ) -> Result<Pressure> {
        while self.pressure(tenant) == Pressure::Short {
            let others = self.memory_pool().is_fair(tenant.memory.load(Relaxed));
            let whose = if others { None } else { Some(tenant) };
            let freed = self.state.leases().release_expired_clients(registry, now, is_of(whose), 1, effects)
                > 0
                || self.free_sessions(registry, now, tenant);
            if !freed {
                return Err(Nfsstat4::NFS4ERR_DELAY);
            }
        }
        Ok(self.pressure(tenant))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a session come from three places")]
    fn insert_session(
        &self,
        now: Duration,
        client: ClientKey,
        record: &Arc<Client>,
        fore: ChannelAttrs,
        back: ChannelAttrs,
        args: &CreateSession,
        random: u64,
    ) -> Arc<Session> {
        let security = CallbackSecurity::kept(&args.callback_security, &self.state.limits);
        let path = PathStatus::default();
        path.set_contexts(CallbackSecurity::contexts_until(&security));
        let counted = CountedMemory::new(&fore, &security);
        let callback = Callback { program: args.callback_program, security };
        let session = self.state.sessions.table.insert_with(random as u32, |key| {
            Arc::new(Session {
                id: sessionid(self.state.epoch, key.index, random),
                key,
                client,
                record: Arc::clone(record),
                fore,
                back: ChannelAttrs { requests: back.requests.min(self.state.limits.back_slots_max), ..back },
                slots: Slots::new(fore.requests),
                activity: SessionActivity::default(),
                connections: Ordered::new(RwLock::default()),
                callback: Leaf::new(Mutex::new(callback)),
                minor_version: args.minor_version,
                back_slots: BackSlots::default(),
                path,
                created: now,
                counted,
            })
        });
        self.count_session(&session);
        session
    }

    /// Makes an unconfirmed record the confirmed one; an earlier incarnation of the client goes
    /// with all that it has.
    pub(crate) fn confirm_client(
        &self,
        registry: &mut RegistryGuard<'_>,
        now: Duration,
        key: ClientKey,
        effects: &mut Effects<O>,
    ) -> Result<()> {
        let client = registry.client(key)?;
        if client.confirmed {
            return Ok(());
        }
        let record = Arc::clone(&client.record);
        let owner = record.owner.clone();
        let mut recorded = registry.may_reclaim(&record);
        let mut former = FormerVerifiers::default();
        if let Some(old) = registry.confirmed.get(&owner).copied() {
            let (known, held) = registry.split();
            let earlier = known.client(old)?;
            if !known.is_of(&earlier.record, &record.creator) {
                // It was confirmed after this record was made.
                self.state.clients().make_way(known, held, now, earlier, &record.creator)?;
            }
            // The record on stable storage is of its creator.
            let same = earlier.record.creator.hash == record.creator.hash;
            if same && earlier.recorded {
                recorded = true;
                record.put.store(earlier.record.put.load(Acquire), Release);
            }
            effects.rival = earlier.rival(&record);
            former = earlier.former_verifiers();
            let end = if same { ClientEnd::Replaced } else { ClientEnd::Lost };
            self.state.clients().remove_client(registry, old, end, effects);
        }
        registry.unconfirmed.remove(&(Arc::clone(&owner), record.creator.hash));
        registry.confirmed.insert(owner, key);
        let client = registry.client_mut(key)?;
        client.confirmed = true;
        client.recorded = recorded;
        client.former = former;
        client.renewed = client.renewed.max(now);
        Ok(())
    }

    /// Negotiates the fore channel: never more than asked, never more than the limits, and fewer
    /// slots where memory is tight.
    fn fore_channel(&self, asked: &ChannelAttrs, pressure: Pressure) -> ChannelAttrs {
        let limits = &self.state.limits;
        let response_cached = asked.response_cached.min(limits.response_cached_max).min(asked.response_size);
        let wanted = asked.requests.clamp(1, self.state.slots_max.load(Relaxed).max(1));
        let requests = match pressure {
            Pressure::None => wanted,
            Pressure::Tight | Pressure::Short => wanted.div_ceil(TIGHT_PART),
        };
        ChannelAttrs {
            header_pad_size: 0,
            request_size: asked.request_size.min(limits.request_size_max),
            response_size: asked.response_size.min(limits.response_size_max),
            response_cached,
            operations: asked.operations.min(limits.operations_max),
            requests,
        }
    }
}

/// Checks the right to create a session: only its principal may confirm a client id (RFC 8881
/// section 18.36.4); later any caller may, unless the client asked for protection.
fn check_principal(client: &Enrolled, caller: &Caller<'_>) -> Result<()> {
    let own = client.record.is_spoken_for_by(caller);
    match client.record.protect {
        _ if own => Ok(()),
        _ if !client.confirmed => Err(Nfsstat4::NFS4ERR_CLID_INUSE),
        StateProtect::None => Ok(()),
        StateProtect::MachCred { must_enforce, .. }
            if !must_enforce.contains(NfsOpnum4::OP_CREATE_SESSION as u32) =>
        {
            Ok(())
        }
        StateProtect::MachCred { .. } => Err(Nfsstat4::NFS4ERR_WRONG_CRED),
    }
}

/// Whether a retry gets the cached result. An error that the arguments alone have caused comes back
/// by itself, and a client that corrects them without a new sequence number, as some do, gets its
/// session. After NFS4ERR_DELAY the retry is meant to be tried anew: the Linux client keeps its
/// number.
fn is_repeated<T>(reply: &Result<T>) -> bool {
    use Nfsstat4::{NFS4ERR_DELAY, NFS4ERR_INVAL, NFS4ERR_TOOSMALL};
    !matches!(reply, Err(NFS4ERR_INVAL | NFS4ERR_TOOSMALL | NFS4ERR_DELAY))
}

/// Returns the channels of a connection on which CREATE_SESSION has set these flags.
fn bound_of(flags: u32) -> Bound {
    if flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN != 0 { Bound::Both } else { Bound::Fore }
}

/// The backchannel's attributes count without CREATE_SESSION4_FLAG_CONN_BACK_CHAN, too: a
/// connection may be bound to it later.
fn check_args(args: &CreateSession) -> Result<()> {
    if args.flags & !CREATE_SESSION4_FLAG_MASK != 0 {
        return Err(Nfsstat4::NFS4ERR_INVAL);
    }
    let too_small = |channel: &ChannelAttrs, operations_min| {
        channel.request_size < MESSAGE_SIZE_MIN
            || channel.response_size < MESSAGE_SIZE_MIN
            || channel.operations < operations_min
    };
    if too_small(&args.fore, 1) || too_small(&args.back, CB_OPERATIONS_MIN) {
        return Err(Nfsstat4::NFS4ERR_TOOSMALL);
    }
    Ok(())
}
