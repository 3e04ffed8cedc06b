//! EXCHANGE_ID (RFC 8881 section 18.35): a client owner gets a client id.

use crate::Clients;
use crate::clients::Client;
use crate::clients::creator::Creator;
use crate::clients::mach_cred::{MUST_ALLOW_SUPPORTED, MUST_ENFORCE_SUPPORTED};
use crate::clients::registry::{ClientEnd, Enrolled, FormerVerifiers, Registry};
use crate::clients::tenants::Tenant;
use crate::order::{Held, RegistryLevel};
use crate::v40::NAME_PREFIX;
use crate::{Caller, ClientKey, Clientid4, Effects, Nfsstat4, OpSet, Protection, Result};
use nfs4::{
    EXCHGID4_FLAG_BIND_PRINC_STATEID, EXCHGID4_FLAG_CONFIRMED_R, EXCHGID4_FLAG_MASK_PNFS,
    EXCHGID4_FLAG_SUPP_FENCE_OPS, EXCHGID4_FLAG_SUPP_MOVED_MIGR, EXCHGID4_FLAG_SUPP_MOVED_REFER,
    EXCHGID4_FLAG_UPD_CONFIRMED_REC_A, EXCHGID4_FLAG_USE_NON_PNFS,
};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// Every bit that a client may set.
const EXCHGID4_FLAG_MASK_A: u32 = EXCHGID4_FLAG_SUPP_MOVED_REFER
    | EXCHGID4_FLAG_SUPP_MOVED_MIGR
    | EXCHGID4_FLAG_SUPP_FENCE_OPS
    | EXCHGID4_FLAG_BIND_PRINC_STATEID
    | EXCHGID4_FLAG_MASK_PNFS
    | EXCHGID4_FLAG_UPD_CONFIRMED_REC_A;

/// The bits that describe the server. A reload can add a referral, or put one in the place of an
/// export, which is a migration to its clients; servers that may do so MUST set these bits (section
/// 18.35.3).
const SERVER_FLAGS: u32 =
    EXCHGID4_FLAG_USE_NON_PNFS | EXCHGID4_FLAG_SUPP_MOVED_REFER | EXCHGID4_FLAG_SUPP_MOVED_MIGR;

/// The state protection that a client asks for or gets (RFC 8881 section 2.10.8.3); SP4_SSV is for
/// the server to refuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateProtect {
    /// SP4_NONE: any peer that knows the session may use it.
    #[default]
    None,
    /// SP4_MACH_CRED: state belongs to the principal of EXCHANGE_ID.
    MachCred {
        /// spo_must_enforce: operations that only the machine credential may send, with integrity
        /// or privacy.
        must_enforce: OpSet,
        /// spo_must_allow: operations that the machine credential may send for any user's state.
        must_allow: OpSet,
    },
}

impl StateProtect {
    /// Returns the part that the server grants: lists without operations that it cannot enforce or
    /// allow.
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
    /// eia_flags: the EXCHGID4_FLAG bits of the client.
    pub flags: u32,
    /// eia_state_protect: the requested protection of the state.
    pub protect: StateProtect,
}

/// The results of EXCHANGE_ID that depend on state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeIdOk {
    /// eir_clientid: the client id.
    pub clientid: Clientid4,
    /// eir_sequenceid: the sequence number of the next CREATE_SESSION.
    pub sequenceid: u32,
    /// eir_flags: the EXCHGID4_FLAG bits of the server.
    pub flags: u32,
    /// eir_state_protect: the granted protection of the state.
    pub protect: StateProtect,
}

impl<F: Clone + Eq + Hash, O> Clients<'_, F, O> {
    /// Handles EXCHANGE_ID: all nine cases of RFC 8881 section 18.35.4. `random` sets where the
    /// sequence of CREATE_SESSIONs begins, so that a guessed client id is not enough to confirm it:
    /// below 2^31, for clients that keep it in a signed number.
    ///
    /// # Errors
    /// NFS4ERR_INVAL, NFS4ERR_CLID_INUSE, NFS4ERR_NOENT, NFS4ERR_NOT_SAME, NFS4ERR_PERM,
    /// NFS4ERR_DELAY (too many clients).
    pub fn exchange_id(
        &self,
        now: Duration,
        caller: &Caller<'_>,
        args: &ExchangeId<'_>,
        random: u64,
        effects: &mut Effects<O>,
    ) -> Result<ExchangeIdOk> {
        self.check_exchange_id(caller, args)?;
        let held = &mut Held::nothing();
        let mut registry = self.state.registry(held);
        self.state.leases().end_grace_if_over(&mut registry, now, effects);
        let creator = Creator::of(&self.state.principal_key, caller);
        let confirmed = registry.confirmed.get(args.owner).copied();
        if args.flags & EXCHGID4_FLAG_UPD_CONFIRMED_REC_A != 0 {
            return update_client(&registry, caller, args, confirmed);
        }
        if let Some(key) = confirmed {
            let (known, held) = registry.split();
            let client = known.client(key)?;
            let own = client.record.is_spoken_for_by(caller) && known.is_of(&client.record, &creator);
            let collides = !own;
            if !collides && client.record.verifier == args.verifier {
                return Ok(client.describe()); // case 2
            }
            if collides {
                self.make_way(known, held, now, client, &creator)?;
                self.remove_client(&mut registry, key, ClientEnd::Lost, effects);
            }
        }
        let unconfirmed = (Arc::from(args.owner), creator.hash);
        if let Some(key) = registry.unconfirmed.get(&unconfirmed).copied() {
            // Case 4, or a leftover of case 5.
            self.remove_client(&mut registry, key, ClientEnd::Replaced, effects);
        }
        let tenant = self.state.sessions().make_room_for_client(&mut registry, now, caller, effects)?;
        // Cases 1, 3, 4 and 5.
        Ok(self.new_client(&mut registry, now, creator, args, random as u32 >> 1, tenant))
    }

    fn check_exchange_id(&self, caller: &Caller<'_>, args: &ExchangeId<'_>) -> Result<()> {
        let unprotected = args.protect != StateProtect::None && caller.protection < Protection::Integrity;
        if args.flags & !EXCHGID4_FLAG_MASK_A != 0
            || args.owner.len() > self.state.limits.owner_size_max
            || args.owner.starts_with(NAME_PREFIX)
            || unprotected
        {
            return Err(Nfsstat4::NFS4ERR_INVAL);
        }
        Ok(())
    }

    /// Case 3: another principal gets the client owner if the client has no request in progress,
    /// and it holds no state or its lease has expired. A machine credential keeps its client owner
    /// even without state (section 18.35.3), and so does a proved principal against AUTH_SYS, and a
    /// client that may still reclaim. A client that may reclaim takes its owner back from another
    /// principal's client, which can hold no state during the grace period.
    pub(crate) fn make_way(
        &self,
        registry: &Registry,
        held: &mut Held<RegistryLevel>,
        now: Duration,
        client: &Enrolled,
        claimant: &Creator,
    ) -> Result<()> {
        let record = &client.record;
        if registry.waiting.get(&*record.owner) == Some(&Some(claimant.hash)) && !registry.may_reclaim(record)
        {
            return Ok(());
        }
        let keeps = record.holds_state(held)
            || record.protect != StateProtect::None
            || (record.creator.proved && !claimant.proved)
            || registry.may_reclaim(record);
        let goes = if keeps { self.expired(client, now) } else { self.close_gates(client) };
        if !goes {
            return Err(Nfsstat4::NFS4ERR_CLID_INUSE);
        }
        // An OPEN may have come and gone before the gates were closed.
        if !keeps && record.holds_state(held) {
            self.reopen_gates(client);
            return Err(Nfsstat4::NFS4ERR_CLID_INUSE);
        }
        Ok(())
    }

    /// Adds an unconfirmed record, for which there must be room.
    fn new_client(
        &self,
        registry: &mut Registry,
        now: Duration,
        creator: Creator,
        args: &ExchangeId<'_>,
        create_sequence: u32,
        tenant: Arc<Tenant>,
    ) -> ExchangeIdOk {
        let id = registry.new_clientid(self.state.epoch, &self.state.scramble);
        let protect = args.protect.granted();
        let record = Arc::new(Client::new(id, args.owner, args.verifier, creator, protect, tenant));
        let enrolled = Enrolled {
            record: Arc::clone(&record),
            confirmed: false,
            create_sequence,
            create_reply: Err(Nfsstat4::NFS4ERR_SEQ_MISORDERED),
            sessions: Vec::new(),
            renewed: now,
            recorded: false,
            former: FormerVerifiers::default(),
        };
        let ok = enrolled.describe();
        let key = self.state.clients.insert(record);
        registry.enroll(key, enrolled);
        ok
    }
}

impl Enrolled {
    fn describe(&self) -> ExchangeIdOk {
        let confirmed = if self.confirmed { EXCHGID4_FLAG_CONFIRMED_R } else { 0 };
        ExchangeIdOk {
            clientid: self.record.id,
            sequenceid: self.create_sequence.wrapping_add(1),
            flags: SERVER_FLAGS | confirmed,
            protect: self.record.protect,
        }
    }
}

/// Cases 6 to 9. No property that an update may change is kept, so a good one changes nothing.
fn update_client(
    registry: &Registry,
    caller: &Caller<'_>,
    args: &ExchangeId<'_>,
    confirmed: Option<ClientKey>,
) -> Result<ExchangeIdOk> {
    let client = registry.client(confirmed.ok_or(Nfsstat4::NFS4ERR_NOENT)?)?;
    if client.record.verifier != args.verifier {
        return Err(Nfsstat4::NFS4ERR_NOT_SAME);
    }
    if !client.record.is_spoken_for_by(caller) {
        return Err(Nfsstat4::NFS4ERR_PERM);
    }
    Ok(client.describe())
}
