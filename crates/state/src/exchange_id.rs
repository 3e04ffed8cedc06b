//! EXCHANGE_ID (RFC 8881 section 18.35): a client owner gets a client id.

use crate::clients::Client;
use crate::mach_cred::{MUST_ALLOW_SUPPORTED, MUST_ENFORCE_SUPPORTED};
use crate::{Caller, ClientKey, Clientid4, Nfsstat4, OpSet, Protection, Result, State};
use nfs4::{
    EXCHGID4_FLAG_BIND_PRINC_STATEID, EXCHGID4_FLAG_CONFIRMED_R, EXCHGID4_FLAG_MASK_PNFS,
    EXCHGID4_FLAG_SUPP_FENCE_OPS, EXCHGID4_FLAG_SUPP_MOVED_MIGR, EXCHGID4_FLAG_SUPP_MOVED_REFER,
    EXCHGID4_FLAG_UPD_CONFIRMED_REC_A, EXCHGID4_FLAG_USE_NON_PNFS,
};
use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::Duration;

/// Every bit that a client may set.
const EXCHGID4_FLAG_MASK_A: u32 = EXCHGID4_FLAG_SUPP_MOVED_REFER
    | EXCHGID4_FLAG_SUPP_MOVED_MIGR
    | EXCHGID4_FLAG_SUPP_FENCE_OPS
    | EXCHGID4_FLAG_BIND_PRINC_STATEID
    | EXCHGID4_FLAG_MASK_PNFS
    | EXCHGID4_FLAG_UPD_CONFIRMED_REC_A;

/// The state protection that a client asks for or gets (RFC 8881 section 2.10.8.3); SP4_SSV is for the server to refuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateProtect {
    /// SP4_NONE: anybody who knows the session may use it.
    #[default]
    None,
    /// SP4_MACH_CRED: state belongs to the principal of EXCHANGE_ID.
    MachCred {
        /// spo_must_enforce: operations that only the machine credential may send, with integrity or privacy.
        must_enforce: OpSet,
        /// spo_must_allow: operations that the machine credential may send for any user's state.
        must_allow: OpSet,
    },
}

impl StateProtect {
    /// Returns what of it the server grants: lists cut down to what it can enforce and allow.
    fn granted(self) -> Self {
        match self {
            Self::None => Self::None,
            Self::MachCred { must_enforce, must_allow } => Self::MachCred {
                must_enforce: must_enforce.and(MUST_ENFORCE_SUPPORTED),
                must_allow: must_allow.and(MUST_ALLOW_SUPPORTED),
            },
        }
    }
}

/// The arguments of EXCHANGE_ID.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeId<'a> {
    /// co_ownerid, at most [`crate::Limits::owner_size_max`] bytes.
    pub owner: &'a [u8],
    /// co_verifier: changes when the client restarts.
    pub verifier: [u8; 8],
    /// eia_flags.
    pub flags: u32,
    /// eia_state_protect.
    pub protect: StateProtect,
}

/// The results of EXCHANGE_ID that depend on state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeIdOk {
    /// eir_clientid.
    pub clientid: Clientid4,
    /// eir_sequenceid: what the next CREATE_SESSION has to carry.
    pub sequenceid: u32,
    /// eir_flags.
    pub flags: u32,
    /// eir_state_protect.
    pub protect: StateProtect,
}

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Handles EXCHANGE_ID: all nine cases of RFC 8881 section 18.35.4. `random` sets where the sequence of
    /// CREATE_SESSIONs begins, so that a guessed client id is not enough to confirm it.
    ///
    /// # Errors
    /// NFS4ERR_INVAL, NFS4ERR_CLID_INUSE, NFS4ERR_NOENT, NFS4ERR_NOT_SAME, NFS4ERR_PERM, NFS4ERR_DELAY (too many clients).
    pub fn exchange_id(
        &mut self,
        now: Duration,
        caller: &Caller<'_>,
        args: &ExchangeId<'_>,
        random: u64,
    ) -> Result<ExchangeIdOk> {
        self.check_exchange_id(caller, args)?;
        let confirmed = self.confirmed.get(args.owner).copied();
        if args.flags & EXCHGID4_FLAG_UPD_CONFIRMED_REC_A != 0 {
            return self.update_client(caller, args, confirmed);
        }
        if let Some(key) = confirmed {
            let client = self.client(key)?;
            let collides = !client.is_spoken_for_by(caller);
            if !collides && client.verifier == args.verifier {
                return self.describe_client(key); // case 2
            }
            if collides {
                // Case 3. A machine credential keeps its client owner even without state (section 18.35.3).
                let keeps = client.holds_state() || client.protect != StateProtect::None;
                if keeps && !client.expired(now, self.limits.lease) || client.running > 0 {
                    return Err(Nfsstat4::NFS4ERR_CLID_INUSE);
                }
                self.remove_client(key, true);
            }
        }
        if let Some(key) = self.unconfirmed.get(args.owner).copied() {
            self.remove_client(key, false); // case 4, or a leftover of case 5
        }
        self.make_room_for_client(now)?;
        let key = self.new_client(now, caller, args, random as u32); // cases 1, 3, 4, 5
        self.describe_client(key)
    }

    fn check_exchange_id(&self, caller: &Caller<'_>, args: &ExchangeId<'_>) -> Result<()> {
        let unprotected = args.protect != StateProtect::None && caller.protection < Protection::Integrity;
        if args.flags & !EXCHGID4_FLAG_MASK_A != 0
            || args.owner.len() > self.limits.owner_size_max
            || unprotected
        {
            return Err(Nfsstat4::NFS4ERR_INVAL);
        }
        Ok(())
    }

    /// Cases 6 to 9. No property that an update may change is kept, so a good one changes nothing.
    fn update_client(
        &self,
        caller: &Caller<'_>,
        args: &ExchangeId<'_>,
        confirmed: Option<ClientKey>,
    ) -> Result<ExchangeIdOk> {
        let key = confirmed.ok_or(Nfsstat4::NFS4ERR_NOENT)?;
        let client = self.client(key)?;
        if client.verifier != args.verifier {
            return Err(Nfsstat4::NFS4ERR_NOT_SAME);
        }
        if !client.is_spoken_for_by(caller) {
            return Err(Nfsstat4::NFS4ERR_PERM);
        }
        self.describe_client(key)
    }

    fn describe_client(&self, key: ClientKey) -> Result<ExchangeIdOk> {
        let client = self.client(key)?;
        let confirmed = if client.confirmed { EXCHGID4_FLAG_CONFIRMED_R } else { 0 };
        Ok(ExchangeIdOk {
            clientid: client.id,
            sequenceid: client.create_sequence.wrapping_add(1),
            flags: EXCHGID4_FLAG_USE_NON_PNFS | confirmed,
            protect: client.protect,
        })
    }

    /// Sees that one more client fits: first who has expired goes, then the oldest that never confirmed.
    fn make_room_for_client(&mut self, now: Duration) -> Result<()> {
        if self.clients.len() < self.limits.clients_max {
            return Ok(());
        }
        if self.expire(now) == 0 {
            let oldest = self
                .unconfirmed
                .values()
                .copied()
                .min_by_key(|key| self.clients.get(key.0).map(|c| c.renewed));
            self.remove_client(oldest.ok_or(Nfsstat4::NFS4ERR_DELAY)?, false);
        }
        Ok(())
    }

    fn new_client(
        &mut self,
        now: Duration,
        caller: &Caller<'_>,
        args: &ExchangeId<'_>,
        sequence: u32,
    ) -> ClientKey {
        let id = self.new_clientid();
        self.insert_client(Client {
            id,
            owner: args.owner.into(),
            verifier: args.verifier,
            principal: caller.principal.clone(),
            protect: args.protect.granted(),
            confirmed: false,
            create_sequence: sequence,
            create_reply: Err(Nfsstat4::NFS4ERR_SEQ_MISORDERED),
            sessions: Vec::new(),
            open_owners: BTreeMap::new(),
            lock_owners: BTreeMap::new(),
            opens: 0,
            locks: 0,
            renewed: now,
            running: 0,
            reclaim_complete: false,
            recorded: false,
        })
    }
}
