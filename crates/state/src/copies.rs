//! Asynchronous copies and their stateids (RFC 7862 sections 4.8, 15.2, 15.8 and 15.9).
//!
//! The server moves the bytes, piece by piece; this module tracks the owner, progress and end of
//! each copy. A stateid is valid until the client cancels the copy, answers CB_OFFLOAD, or is gone
//! itself. Section 4.8 names no other end, so CLOSE ends no copy. A copy that was removed here
//! stops. A revocation of its access ends it with its next piece.

pub(crate) mod image;

use crate::Copies;
use crate::clients::ClientState;
use crate::order::Held;
use crate::slab::SlabKey;
use crate::stateids::{StateRef, StateidKind};
use crate::sync::atomic::AtomicUsize;
use crate::sync::atomic::Ordering::Relaxed;
use crate::table::Table;
use crate::{
    CallbackTask, ClientKey, Effects, Nfsstat4, Principal, ReferringCall, Result, SlotToken, Stateid4,
};
use nfs4::Verifier4;
use std::hash::Hash;

/// Names a copy; the server gives it back to say which one it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CopyKey(pub(crate) SlabKey);

/// A copy that is to go on.
#[derive(Clone, Copy, Debug)]
pub struct NewCopy<'a, F> {
    /// The file that is written to.
    pub file: &'a F,
    /// The user of the copy: others of the same client cannot cancel it (RFC 7862 section 4.1.2).
    pub user: &'a Principal,
    /// The stateids of COPY. Revoking the state of one ends the copy.
    pub stateids: [Stateid4; 2],
    /// The write verifier from before the first byte.
    pub verifier: Verifier4,
}

/// The result of OFFLOAD_STATUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyStatus {
    /// osr_count: bytes copied so far.
    pub count: u64,
    /// osr_complete, once it has ended.
    pub complete: Option<Nfsstat4>,
}

/// The arguments of CB_OFFLOAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload<F> {
    /// coa_stateid: the stateid that COPY returned.
    pub stateid: Stateid4,
    /// The file that was written to.
    pub file: F,
    /// The request that began it.
    pub begun: Option<ReferringCall>,
    /// coa_status: the status of the whole copy.
    pub status: Nfsstat4,
    /// wr_count or coa_bytes_copied, in bytes.
    pub count: u64,
    /// wr_writeverf: the verifier of the writes.
    pub verifier: Verifier4,
}

/// The phase of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyPhase {
    /// It waits for its next piece.
    Waiting,
    /// A piece of it is being copied.
    Copying,
    /// The client has cancelled it while a piece was being copied.
    Cancelled,
    /// So it was, and the piece has ended; the client comes back for its OFFLOAD_CANCEL.
    Stopped,
    /// It has ended, and CB_OFFLOAD is still to be sent or answered.
    Ended(Nfsstat4),
}

/// A copy that continues after its reply.
#[derive(Debug)]
pub(crate) struct CopyRecord<F> {
    client: ClientKey,
    file: F,
    user: Principal,
    /// The state by which it has its files open.
    access: Vec<StateRef>,
    /// Whether an administrator has revoked its access.
    revoked: bool,
    count: u64,
    phase: CopyPhase,
    begun: Option<ReferringCall>,
    verifier: Verifier4,
}

/// The copies that continue after their replies.
#[derive(Debug)]
pub(crate) struct CopyTable<F> {
    table: Table<CopyRecord<F>>,
    /// Copies, for the limit.
    count: AtomicUsize,
}

impl<F> CopyTable<F> {
    pub(crate) fn new() -> Self {
        Self { table: Table::new(), count: AtomicUsize::new(0) }
    }

    /// Returns the number that counts against the limit: a copy is counted before it is there.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }
}

/// The sequence number of a copy's stateid: it never changes, and zero means none (RFC 7862 section
/// 4.8).
const SEQID: u32 = 1;

impl<F: Clone + Eq + Hash, O> Copies<'_, F, O> {
    /// Begins an asynchronous copy. `None` if the copy must be synchronous, because the client
    /// cannot receive CB_OFFLOAD, too many copies are in progress, or a stateid has lost its state.
    pub fn begin_copy(
        &self,
        client: ClientKey,
        copy: &NewCopy<'_, F>,
        token: Option<&SlotToken>,
    ) -> Option<(CopyKey, Stateid4)> {
        let begun = token.and_then(SlotToken::referring);
        let record = self.state.client(client).ok()?;
        let held = &mut Held::nothing();
        let mut client_state = record.lock(held).ok()?;
        if record.paths.load(Relaxed) == 0
            || client_state.copies.len() >= self.state.limits.copies_per_client_max
        {
            return None;
        }
        let access = self.access_by(&copy.stateids)?;
        // Counted before it is there: of several threads at the limit none gets beyond it.
        if self.state.copies.count.fetch_add(1, Relaxed) >= self.state.limits.copies_max {
            self.state.copies.count.fetch_sub(1, Relaxed);
            return None;
        }
        let NewCopy { file, user, stateids: _, verifier } = *copy;
        let (file, user, phase) = (file.clone(), user.clone(), CopyPhase::Waiting);
        let copy =
            CopyRecord { client, file, user, access, revoked: false, count: 0, phase, begun, verifier };
        let key = self.state.copies.table.insert(client_state.next_stripe(), copy);
        client_state.copies.insert(key);
        Some((CopyKey(key), self.state.stateid(StateRef::Copy(key), SEQID)))
    }

    /// Returns the state of ordinary stateids: a lock stateid names its open, too. `None` if some
    /// of it is gone.
    fn access_by(&self, stateids: &[Stateid4]) -> Option<Vec<StateRef>> {
        let mut access = Vec::new();
        for stateid in stateids.iter().filter(|stateid| StateidKind::of(stateid) == StateidKind::Ordinary) {
            let state = self.state.state_ref(stateid).ok()?;
            access.push(state);
            match state {
                StateRef::Open(key) => self.state.opens.read(key, |_| ())?,
                StateRef::Lock(key) => {
                    access.push(StateRef::Open(self.state.locks.read(key, |lock| lock.open)?));
                }
                StateRef::Delegation(key) => self.state.delegations.read(key, |_| ())?,
                StateRef::Copy(_) => return None,
            }
        }
        Some(access)
    }

    /// Returns whether the next piece of a copy is to be copied; then
    /// [`crate::Copies::end_copy_piece`] or [`crate::Copies::end_copy`] follows.
    pub fn begin_copy_piece(&self, copy: CopyKey) -> bool {
        let begins = self.state.copies.table.write(copy.0, |copy| {
            let waits = copy.phase == CopyPhase::Waiting;
            if waits {
                copy.phase = CopyPhase::Copying;
            }
            waits
        });
        begins.unwrap_or(false)
    }

    /// Returns whether an administrator has revoked the access of a copy, so that it has to end.
    pub fn is_revoked(&self, copy: CopyKey) -> bool {
        self.state.copies.table.read(copy.0, |copy| copy.revoked).unwrap_or(false)
    }

    /// Revokes the access of the client's copies that have a file open by this state.
    pub(crate) fn revoke_by(&self, client_state: &ClientState, state: StateRef) {
        for key in &client_state.copies {
            self.state.copies.table.write(*key, |copy| copy.revoked |= copy.access.contains(&state));
        }
    }

    /// Revokes the access of all copies of a user. Returns how many have to end.
    pub(crate) fn revoke_of(&self, user: &Principal) -> usize {
        let mut found = Vec::new();
        self.state.copies.table.each(|key, copy| {
            let goes_on = matches!(copy.phase, CopyPhase::Waiting | CopyPhase::Copying);
            found.extend((goes_on && copy.user == *user).then_some(key));
        });
        found.retain(|key| self.state.copies.table.write(*key, |copy| copy.revoked = true).is_some());
        found.len()
    }

    /// Takes note of how far a copy has come.
    pub fn end_copy_piece(&self, copy: CopyKey, count: u64) {
        self.state.copies.table.write(copy.0, |copy| {
            copy.count = count;
            copy.phase = match copy.phase {
                CopyPhase::Copying => CopyPhase::Waiting,
                CopyPhase::Cancelled => CopyPhase::Stopped,
                other => other,
            };
        });
    }

    /// Ends a copy of which a piece was being copied: the client is called back, unless it has
    /// cancelled it.
    pub fn end_copy(&self, copy: CopyKey, count: u64, status: Nfsstat4, effects: &mut Effects<O>) {
        self.end_copy_piece(copy, count);
        let told = self.state.copies.table.write(copy.0, |copy| {
            let waits = copy.phase == CopyPhase::Waiting;
            if waits {
                copy.phase = CopyPhase::Ended(status);
            }
            waits.then_some(copy.client)
        });
        if let Some(client) = told.flatten() {
            effects.callbacks.push(CallbackTask::Offload { client, copy });
        }
    }

    /// Handles OFFLOAD_STATUS.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID.
    pub fn copy_status(&self, client: ClientKey, stateid: &Stateid4, file: &F) -> Result<CopyStatus> {
        let key = self.find_copy(stateid)?;
        let found = self.state.copies.table.read(key, |copy| {
            let complete = match copy.phase {
                _ if copy.client != client || copy.file != *file => return None,
                CopyPhase::Waiting | CopyPhase::Copying => None,
                CopyPhase::Cancelled | CopyPhase::Stopped => return None,
                CopyPhase::Ended(status) => Some(status),
            };
            Some(CopyStatus { count: copy.count, complete })
        });
        found.flatten().ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)
    }

    /// Handles OFFLOAD_CANCEL. When it succeeds nothing is written any more; no CB_OFFLOAD follows.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID (another user's copy, too), NFS4ERR_COMPLETE_ALREADY when CB_OFFLOAD is
    /// due, NFS4ERR_DELAY until the piece that is being copied has ended.
    pub fn cancel_copy(
        &self,
        client: ClientKey,
        user: &Principal,
        stateid: &Stateid4,
        file: &F,
    ) -> Result<()> {
        let record = self.state.client(client).map_err(|_| Nfsstat4::NFS4ERR_BAD_STATEID)?;
        let key = self.find_copy(stateid)?;
        let held = &mut Held::nothing();
        let mut client_state = record.lock_any(held);
        let cancelled = self.state.copies.table.write(key, |copy| {
            if copy.client != client || copy.user != *user || copy.file != *file {
                return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
            }
            match copy.phase {
                CopyPhase::Waiting | CopyPhase::Stopped => {
                    // In the same step, so that a piece that ends meanwhile queues no callback.
                    copy.phase = CopyPhase::Stopped;
                    Ok(())
                }
                CopyPhase::Copying | CopyPhase::Cancelled => {
                    copy.phase = CopyPhase::Cancelled;
                    Err(Nfsstat4::NFS4ERR_DELAY)
                }
                CopyPhase::Ended(_) => Err(Nfsstat4::NFS4ERR_COMPLETE_ALREADY),
            }
        });
        cancelled.unwrap_or(Err(Nfsstat4::NFS4ERR_BAD_STATEID))?;
        self.remove_copy(&mut client_state, key);
        Ok(())
    }

    /// Returns the arguments of CB_OFFLOAD; `None` when it is no longer needed.
    pub fn offload(&self, copy: CopyKey) -> Option<Offload<F>> {
        let stateid = self.state.stateid(StateRef::Copy(copy.0), SEQID);
        let say = |copy: &CopyRecord<F>| match copy.phase {
            CopyPhase::Ended(status) => Some(Offload {
                stateid,
                file: copy.file.clone(),
                begun: copy.begun,
                status,
                count: copy.count,
                verifier: copy.verifier,
            }),
            _ => None,
        };
        self.state.copies.table.read(copy.0, say).flatten()
    }

    /// Forgets a copy after the client has answered CB_OFFLOAD.
    pub fn offload_answered(&self, client: ClientKey, copy: CopyKey) {
        let Ok(record) = self.state.client(client) else { return };
        let held = &mut Held::nothing();
        let mut client_state = record.lock_any(held);
        self.remove_copy(&mut client_state, copy.0);
    }

    /// Returns the callbacks of ended copies that their clients have not answered.
    pub fn unanswered_offloads(&self) -> Vec<CallbackTask> {
        let mut tasks = Vec::new();
        if self.state.copies.count.load(Relaxed) > 0 {
            self.state.copies.table.each(|key, copy| {
                if matches!(copy.phase, CopyPhase::Ended(_)) {
                    tasks.push(CallbackTask::Offload { client: copy.client, copy: CopyKey(key) });
                }
            });
        }
        tasks
    }

    /// Forgets a copy, if it is one of the client with this state.
    pub(crate) fn remove_copy(&self, client_state: &mut ClientState, key: SlabKey) {
        if client_state.copies.remove(&key) && self.state.copies.table.remove(key).is_some() {
            self.state.copies.count.fetch_sub(1, Relaxed);
        }
    }

    fn find_copy(&self, stateid: &Stateid4) -> Result<SlabKey> {
        match self.state.state_ref(stateid)? {
            StateRef::Copy(key) if stateid.seqid == SEQID => Ok(key),
            _ => Err(Nfsstat4::NFS4ERR_BAD_STATEID),
        }
    }
}
