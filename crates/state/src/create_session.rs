//! CREATE_SESSION (RFC 8881 section 18.36): a client id is confirmed and gets a session.

use crate::clients::Client;
use crate::sessions::{Session, sessionid};
use crate::slots::Slot;
use crate::{
    CallbackSecurity, Caller, ClientKey, Clientid4, Nfsstat4, Result, Sessionid4, State, StateProtect,
};
use nfs4::{
    CREATE_SESSION4_FLAG_CONN_BACK_CHAN, CREATE_SESSION4_FLAG_CONN_RDMA, CREATE_SESSION4_FLAG_PERSIST,
    NfsOpnum4,
};
use std::hash::Hash;
use std::time::Duration;

const CREATE_SESSION4_FLAG_MASK: u32 =
    CREATE_SESSION4_FLAG_PERSIST | CREATE_SESSION4_FLAG_CONN_BACK_CHAN | CREATE_SESSION4_FLAG_CONN_RDMA;
/// Bytes below which no message fits: an RPC header with an RPCSEC_GSS credential and verifier, a COMPOUND header and SEQUENCE.
const MESSAGE_SIZE_MIN: u32 = 256;

/// channel_attrs4: what one channel can carry, asked for or granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelAttrs {
    /// ca_headerpadsize, bytes.
    pub header_pad_size: u32,
    /// ca_maxrequestsize, bytes.
    pub request_size: u32,
    /// ca_maxresponsesize, bytes.
    pub response_size: u32,
    /// ca_maxresponsesize_cached, bytes.
    pub response_cached: u32,
    /// ca_maxoperations.
    pub operations: u32,
    /// ca_maxrequests: slots.
    pub requests: u32,
}

/// The arguments of CREATE_SESSION.
#[derive(Clone, Debug)]
pub struct CreateSession {
    /// csa_clientid.
    pub clientid: Clientid4,
    /// csa_sequence.
    pub sequence: u32,
    /// csa_flags.
    pub flags: u32,
    /// csa_fore_chan_attrs.
    pub fore: ChannelAttrs,
    /// csa_back_chan_attrs.
    pub back: ChannelAttrs,
    /// csa_cb_program.
    pub callback_program: u32,
    /// csa_sec_parms.
    pub callback_security: Vec<CallbackSecurity>,
}

/// The results of CREATE_SESSION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateSessionOk {
    /// csr_sessionid.
    pub sessionid: Sessionid4,
    /// csr_sequence.
    pub sequence: u32,
    /// csr_flags.
    pub flags: u32,
    /// csr_fore_chan_attrs.
    pub fore: ChannelAttrs,
    /// csr_back_chan_attrs.
    pub back: ChannelAttrs,
}

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Handles CREATE_SESSION, its replays included. `random` goes into the session id.
    ///
    /// # Errors
    /// NFS4ERR_STALE_CLIENTID, NFS4ERR_CLID_INUSE, NFS4ERR_WRONG_CRED, NFS4ERR_SEQ_MISORDERED, NFS4ERR_INVAL, NFS4ERR_TOOSMALL,
    /// NFS4ERR_NOSPC (too many sessions, or the reply caches are full).
    pub fn create_session(
        &mut self,
        now: Duration,
        caller: &Caller<'_>,
        args: &CreateSession,
        random: u64,
    ) -> Result<CreateSessionOk> {
        let key = self.client_by_id(args.clientid).ok_or(Nfsstat4::NFS4ERR_STALE_CLIENTID)?;
        let client = self.client(key).map_err(|_| Nfsstat4::NFS4ERR_STALE_CLIENTID)?;
        check_principal(client, caller)?;
        if args.sequence == client.create_sequence {
            let reply = client.create_reply.clone();
            return self.replay_create_session(caller, reply);
        }
        if args.sequence != client.create_sequence.wrapping_add(1) {
            return Err(Nfsstat4::NFS4ERR_SEQ_MISORDERED);
        }
        let reply = self.new_session(now, key, caller, args, random);
        if let Ok(client) = self.client_mut(key) {
            client.create_sequence = args.sequence;
            client.create_reply = reply.map(Box::new);
        }
        reply
    }

    /// The cached result; the connection may be a new one and is associated as the first was.
    fn replay_create_session(
        &mut self,
        caller: &Caller<'_>,
        reply: Result<Box<CreateSessionOk>>,
    ) -> Result<CreateSessionOk> {
        let reply = *reply?;
        if let Ok(session) = self.session_key(&reply.sessionid) {
            self.associate(
                session,
                caller.connection,
                true,
                reply.flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN != 0,
            );
        }
        Ok(reply)
    }

    fn new_session(
        &mut self,
        now: Duration,
        key: ClientKey,
        caller: &Caller<'_>,
        args: &CreateSession,
        random: u64,
    ) -> Result<CreateSessionOk> {
        check_args(args)?;
        let client = self.client(key)?;
        if client.sessions.len() >= self.limits.sessions_per_client_max {
            return Err(Nfsstat4::NFS4ERR_NOSPC);
        }
        let fore = self.fore_channel(&args.fore)?;
        let back = ChannelAttrs { header_pad_size: 0, ..args.back };
        self.confirm_client(now, key)?;
        let reserved = fore.requests as usize * slot_size(fore.response_cached);
        self.reply_cache_reserved += reserved;
        let callback_security = CallbackSecurity::kept(&args.callback_security, &self.limits);
        let session = self.sessions.insert(Session {
            id: [0; 16],
            client: key,
            fore,
            back: ChannelAttrs { requests: back.requests.min(self.limits.back_slots_max), ..back },
            slots: Vec::new(),
            running: 0,
            connections: Vec::new(),
            callback_program: args.callback_program,
            callback_security,
            reserved,
        });
        let id = sessionid(self.epoch, session.index, random);
        if let Some(session) = self.sessions.get_mut(session) {
            session.id = id;
        }
        self.client_mut(key)?.sessions.push(session);
        let flags = args.flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
        self.associate(session, caller.connection, true, flags != 0);
        Ok(CreateSessionOk { sessionid: id, sequence: args.sequence, flags, fore, back })
    }

    /// Makes an unconfirmed record the confirmed one; an earlier incarnation of the client goes with all that it has.
    fn confirm_client(&mut self, now: Duration, key: ClientKey) -> Result<()> {
        let client = self.client(key)?;
        if client.confirmed {
            return Ok(());
        }
        let owner = client.owner.clone();
        let mut recorded = self.grace.waits_for(&owner);
        if let Some(old) = self.confirmed.get(&owner).copied() {
            recorded |= self.client(old).is_ok_and(|old| old.recorded);
            self.remove_client(old, false);
        }
        self.unconfirmed.remove(&owner);
        self.confirmed.insert(owner, key);
        let client = self.client_mut(key)?;
        client.confirmed = true;
        client.recorded = recorded;
        client.renewed = client.renewed.max(now);
        Ok(())
    }

    /// Negotiates the fore channel: never more than asked, never more than the limits, and as many slots as the
    /// reply caches have room for.
    fn fore_channel(&self, asked: &ChannelAttrs) -> Result<ChannelAttrs> {
        let limits = &self.limits;
        let response_cached = asked.response_cached.min(limits.response_cached_max).min(asked.response_size);
        let free = limits.reply_cache_max.saturating_sub(self.reply_cache_reserved);
        let wanted = asked.requests.clamp(1, limits.slots_max.max(1));
        let requests = match slot_size(response_cached) {
            size if size > free => return Err(Nfsstat4::NFS4ERR_NOSPC),
            // A session gets no more than a sixteenth of what is left, so that the last ones still get something.
            size => wanted.min((free / 16 / size).max(1) as u32),
        };
        Ok(ChannelAttrs {
            header_pad_size: 0,
            request_size: asked.request_size.min(limits.request_size_max),
            response_size: asked.response_size.min(limits.response_size_max),
            response_cached,
            operations: asked.operations.min(limits.operations_max),
            requests,
        })
    }
}

/// Bytes that a slot may come to.
fn slot_size(response_cached: u32) -> usize {
    std::mem::size_of::<Slot>() + response_cached as usize
}

/// Who may create a session: to confirm a client id only its principal (RFC 8881 section 18.36.4), later anybody unless
/// the client asked for protection.
fn check_principal(client: &Client, caller: &Caller<'_>) -> Result<()> {
    let own = client.is_spoken_for_by(caller);
    match client.protect {
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

fn check_args(args: &CreateSession) -> Result<()> {
    if args.flags & !CREATE_SESSION4_FLAG_MASK != 0 {
        return Err(Nfsstat4::NFS4ERR_INVAL);
    }
    let too_small = |channel: &ChannelAttrs| {
        channel.request_size < MESSAGE_SIZE_MIN
            || channel.response_size < MESSAGE_SIZE_MIN
            || channel.operations == 0
    };
    let wants_back = args.flags & CREATE_SESSION4_FLAG_CONN_BACK_CHAN != 0;
    if too_small(&args.fore) || wants_back && too_small(&args.back) {
        return Err(Nfsstat4::NFS4ERR_TOOSMALL);
    }
    Ok(())
}
