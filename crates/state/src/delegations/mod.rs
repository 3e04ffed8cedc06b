//! Delegations of files, granted with an OPEN (RFC 8881 section 10.4).
//!
//! A file's stripe lists its delegations and their holders; a thread that grants or removes a
//! delegation holds that stripe and the client's state. A conflict found under the stripe therefore
//! remains until its lock is released. Their end is in `delegreturn`, recalls and revocation are in
//! `recalls`.

pub(crate) mod cb_getattr;
pub(crate) mod delegreturn;
pub(crate) mod image;
pub(crate) mod recalls;

use crate::Delegations;
use crate::clients::ClientState;
use crate::delegations::cb_getattr::GetattrWaits;
use crate::delegations::recalls::Contention;
use crate::files::{FileState, Holder};
use crate::opens::shares::{READ, WRITE};
use crate::order::{Guard, Held, Leaf, LeafLevel};
use crate::slab::SlabKey;
use crate::stateids::StateRef;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::atomic::{AtomicU64, AtomicUsize};
use crate::sync::{Mutex, MutexGuard};
use crate::table::Table;
use crate::{CallbackTask, ClientKey, Effects, Nfsstat4, Principal, Result, Sessionid4, SlotToken, Stateid4};
use nfs4::WhyNoDelegation4;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::hash::Hash;
use std::time::Duration;

/// Opens of a file that are looked at to see whether they are all the client's own; with more it
/// gets no delegation.
const OPENS_LOOKED_AT_MAX: usize = 16;
/// How often a client is asked to give delegations back of its own choice.
const RECALL_ANY_INTERVAL: Duration = Duration::from_secs(10);

/// Names a delegation; the server gives it back to say which one it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DelegationKey(pub(crate) SlabKey);

/// The mode of a delegation: OPEN_DELEGATE_READ or OPEN_DELEGATE_WRITE, of which the latter allows
/// more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DelegationMode {
    /// No other client writes.
    Read,
    /// No other client reads or writes.
    Write,
}

impl DelegationMode {
    /// Returns whether delegations of two clients on one file exclude each other.
    fn excludes(self, other: Self) -> bool {
        self.max(other) == Self::Write
    }

    /// Checks that the stateid of such a delegation serves for share_access bits: one for writing
    /// serves for reading, too.
    ///
    /// # Errors
    /// NFS4ERR_OPENMODE.
    fn check_access(self, access: u32) -> Result<()> {
        match self {
            Self::Read if access & WRITE != 0 => Err(Nfsstat4::NFS4ERR_OPENMODE),
            Self::Read | Self::Write => Ok(()),
        }
    }
}

/// The delegation that an OPEN asks for.
#[derive(Clone, Copy, Debug)]
pub struct DelegationRequest<'a, F> {
    /// The file that the client has just opened.
    pub file: &'a F,
    /// The mode that it asks for.
    pub mode: DelegationMode,
    /// Whether the client held it before the restart (CLAIM_PREVIOUS): it is granted again unless
    /// there is a conflict.
    pub reclaim: bool,
    /// The file's change attribute by now.
    pub change: u64,
    /// The user of the OPEN.
    pub opener: &'a Principal,
}

/// A delegation as OPEN tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delegated {
    /// The stateid of the delegation.
    pub stateid: Stateid4,
    /// The mode of the delegation.
    pub mode: DelegationMode,
    /// Whether the client is to give it back at once: it was reclaimed, and there is no way to
    /// recall it.
    pub recall: bool,
}

/// The request that a delegation was granted to, so that a recall cannot overtake its reply (RFC
/// 8881 section 2.10.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferringCall {
    /// rcl_sessionid: the session of the request.
    pub sessionid: Sessionid4,
    /// rc_sequenceid: its sequence number.
    pub sequenceid: u32,
    /// rc_slotid: the slot of the request.
    pub slotid: u32,
}

/// The phase of a delegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DelegationPhase {
    /// The client has it.
    Held,
    /// The client has it and is asked to give it back by then.
    Recalled { until: Duration, answered: bool },
    /// It was revoked, and the client has yet to free its stateid.
    Revoked,
}

/// One delegation. READ and WRITE with its stateid check it directly.
#[derive(Debug)]
pub(crate) struct Delegation<F, O> {
    pub(crate) client: ClientKey,
    pub(crate) file: F,
    pub(crate) mode: DelegationMode,
    pub(crate) phase: DelegationPhase,
    /// Nothing once it is revoked.
    pub(crate) payload: Option<O>,
    pub(crate) granted: Option<ReferringCall>,
    /// The file's change attribute when it was granted.
    pub(crate) change: u64,
    /// The clients that ask for attributes that the holder may have changed.
    pub(crate) getattr_waits: GetattrWaits,
    /// The user whose OPEN got it.
    pub(crate) opener: Principal,
}

/// Delegations since the server's start.
#[derive(Debug, Default)]
pub(crate) struct DelegationTotals {
    pub(crate) granted: AtomicU64,
    pub(crate) recalled: AtomicU64,
    /// Delegations that were not returned in time.
    pub(crate) revoked: AtomicU64,
}

/// The delegations, and the recalled ones among them.
#[derive(Debug)]
pub(crate) struct DelegationTable<F, O> {
    table: Table<Delegation<F, O>>,
    /// Recalled delegations by the time when they are revoked.
    recalls: Leaf<Mutex<BTreeSet<(Duration, SlabKey)>>>,
    contention: Contention,
    /// Delegations, for the limit.
    count: AtomicUsize,
    pub(crate) totals: DelegationTotals,
    /// Delegations for writing that are not revoked: GETATTR looks for one only when there are any.
    writers: AtomicUsize,
}

impl<F, O> DelegationTable<F, O> {
    pub(crate) fn new() -> Self {
        Self {
            table: Table::new(),
            recalls: Leaf::default(),
            contention: Contention::new(),
            count: AtomicUsize::new(0),
            totals: DelegationTotals::default(),
            writers: AtomicUsize::new(0),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the number that counts against the limit: a delegation is counted before it is
    /// there.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    pub(crate) fn read<R>(&self, key: SlabKey, run: impl FnOnce(&Delegation<F, O>) -> R) -> Option<R> {
        self.table.read(key, run)
    }

    /// Locks the recalled delegations, by the time when they are revoked.
    pub(crate) fn recalls(&self) -> Guard<MutexGuard<'_, BTreeSet<(Duration, SlabKey)>>, LeafLevel> {
        self.recalls.lock()
    }

    /// Runs a closure on every delegation, under the lock of its stripe.
    pub(crate) fn each(&self, run: impl FnMut(SlabKey, &Delegation<F, O>)) {
        self.table.each(run);
    }

    #[cfg(test)]
    pub(crate) fn writers(&self) -> usize {
        self.writers.load(Relaxed)
    }
}

/// The sequence number of a delegation's stateid: it never changes.
pub(crate) const SEQID: u32 = 1;

/// A client's delegation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldDelegation {
    pub(crate) key: SlabKey,
    pub(crate) mode: DelegationMode,
}

impl<F: Clone + Eq + Hash, O> Delegations<'_, F, O> {
    /// Grants a delegation on a file that the client has just opened, if it pays and nothing
    /// conflicts. `payload` is for READ (and WRITE) with its stateid; where it is not needed it is
    /// among the closed ones.
    ///
    /// # Errors
    /// The reason for refusing it.
    pub fn delegate(
        &self,
        now: Duration,
        client: ClientKey,
        request: &DelegationRequest<'_, F>,
        token: Option<&SlotToken>,
        payload: O,
        effects: &mut Effects<O>,
    ) -> core::result::Result<Delegated, WhyNoDelegation4> {
        let mut payload = Some(payload);
        let delegated = self.delegate_with(now, client, request, token, &mut payload, effects);
        effects.closed.extend(payload);
        delegated
    }

    /// Checks that a client may get a delegation on a file as things stand, so that nothing is
    /// done in vain before [`crate::Delegations::delegate`].
    ///
    /// # Errors
    /// Why there is none.
    pub fn delegable(
        &self,
        now: Duration,
        client: ClientKey,
        file: &F,
        mode: DelegationMode,
    ) -> core::result::Result<(), WhyNoDelegation4> {
        if !self.state.callbacks().can_call_back(client) {
            return Err(WhyNoDelegation4::WND4_RESOURCE);
        }
        if self.state.delegations.contention.is_recent(self.state.files.hash(file), now) {
            return Err(WhyNoDelegation4::WND4_CONTENTION);
        }
        let held = &mut Held::nothing();
        let files = self.state.files.read(held, file);
        let state = files.get(file);
        state.map_or(Ok(()), |state| self.check_delegable(state, (client, (self.state.view)(file)), mode))
    }

    fn delegate_with(
        &self,
        now: Duration,
        client: ClientKey,
        request: &DelegationRequest<'_, F>,
        token: Option<&SlotToken>,
        payload: &mut Option<O>,
        effects: &mut Effects<O>,
    ) -> core::result::Result<Delegated, WhyNoDelegation4> {
        let granted = token.and_then(SlotToken::referring);
        let resource = |_| WhyNoDelegation4::WND4_RESOURCE;
        let record = self.state.client(client).map_err(resource)?;
        let held = &mut Held::nothing();
        let mut client_state = record.lock(held).map_err(resource)?;
        let (client_state, held) = client_state.split();
        let reachable = record.paths.load(Relaxed) > 0;
        if !reachable && !request.reclaim {
            return Err(WhyNoDelegation4::WND4_RESOURCE);
        }
        if !request.reclaim
            && self.state.delegations.contention.is_recent(self.state.files.hash(request.file), now)
        {
            return Err(WhyNoDelegation4::WND4_CONTENTION);
        }
        let shared = (self.state.is_shared)(request.file);
        if !request.reclaim && self.state.leases().refuses_new(shared) {
            return Err(WhyNoDelegation4::WND4_RESOURCE);
        }
        let mut files = self.state.files.lock(held, request.file);
        if let Some(file) = files.get(request.file) {
            self.check_delegable(file, (client, (self.state.view)(request.file)), request.mode)?;
        }
        self.count_delegation(client_state, client, now, effects)?;
        let delegation = Delegation {
            client,
            file: request.file.clone(),
            mode: request.mode,
            phase: DelegationPhase::Held,
            payload: payload.take(),
            granted,
            change: request.change,
            getattr_waits: GetattrWaits::default(),
            opener: request.opener.clone(),
        };
        let key = self.state.delegations.table.insert(client_state.next_stripe(), delegation);
        let held = HeldDelegation { key, mode: request.mode };
        files
            .entry(request.file.clone())
            .or_default()
            .delegations
            .insert((client, (self.state.view)(request.file)), held);
        if request.mode == DelegationMode::Write {
            self.state.delegations.writers.fetch_add(1, Relaxed);
        }
        client_state.delegations.insert(key);
        self.state.delegations.totals.granted.fetch_add(1, Relaxed);
        let stateid = self.state.stateid(StateRef::Delegation(key), SEQID);
        Ok(Delegated { stateid, mode: request.mode, recall: !reachable })
    }

    /// Checks a delegation against opens and changes of others (RFC 8881 section 10.4).
    fn check_delegable(
        &self,
        file: &FileState<F>,
        holder: Holder,
        mode: DelegationMode,
    ) -> core::result::Result<(), WhyNoDelegation4> {
        match file.delegations.get(&holder).map(|own| own.mode.cmp(&mode)) {
            Some(Ordering::Less) => return Err(WhyNoDelegation4::WND4_NOT_SUPP_UPGRADE),
            Some(Ordering::Greater) => return Err(WhyNoDelegation4::WND4_NOT_SUPP_DOWNGRADE),
            Some(Ordering::Equal) => return Err(WhyNoDelegation4::WND4_RESOURCE),
            None => {}
        }
        let against = file.changing > 0
            || file.delegations.values().any(|other| other.mode.excludes(mode))
            || !self.others_allow(file, holder, mode);
        if against { Err(WhyNoDelegation4::WND4_CONTENTION) } else { Ok(()) }
    }

    /// Returns whether the opens of others permit the client the use that a delegation would allow
    /// without asking.
    fn others_allow(&self, file: &FileState<F>, holder: Holder, mode: DelegationMode) -> bool {
        let reads = mode == DelegationMode::Read;
        let all = file.shares.union();
        if reads && all.access & WRITE == 0 && all.deny & READ == 0 {
            return true;
        }
        if file.opens.len() > OPENS_LOOKED_AT_MAX {
            return false;
        }
        file.opens.values().all(|key| {
            let allows = self.state.opens.read(*key, |open| {
                let harmless = open.share.access & WRITE == 0 && open.share.deny & READ == 0;
                (open.client, (self.state.view)(&open.file)) == holder || reads && harmless
            });
            allows.unwrap_or(false)
        })
    }

    /// Counts a delegation that is about to be granted, and asks the client for some back when it
    /// has nearly all that it may have.
    fn count_delegation(
        &self,
        client_state: &mut ClientState,
        client: ClientKey,
        now: Duration,
        effects: &mut Effects<O>,
    ) -> core::result::Result<(), WhyNoDelegation4> {
        let (own, own_max) = (client_state.delegations.len(), self.state.limits.delegations_per_client_max);
        if own >= own_max - own_max / 8 {
            recall_any(client_state, client, own_max / 2, now, effects);
        }
        // Counted before it is there: of several threads at the limit none gets beyond it.
        let before = self.state.delegations.count.fetch_add(1, Relaxed);
        if own >= own_max || before >= self.state.limits.delegations_max {
            self.state.delegations.count.fetch_sub(1, Relaxed);
            return Err(WhyNoDelegation4::WND4_RESOURCE);
        }
        Ok(())
    }
}

/// Asks a client to keep no more than so many delegations, but not too often.
pub(crate) fn recall_any<O>(
    client_state: &mut ClientState,
    client: ClientKey,
    keep: usize,
    now: Duration,
    effects: &mut Effects<O>,
) {
    let next = client_state.recall_any_at.map(|at| at.saturating_add(RECALL_ANY_INTERVAL));
    if next.is_none_or(|next| now >= next) {
        client_state.recall_any_at = Some(now);
        let keep = u32::try_from(keep).unwrap_or(u32::MAX);
        effects.callbacks.push(CallbackTask::RecallAny { client, keep });
    }
}
