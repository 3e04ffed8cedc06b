//! Notification of clients that wait for a lock (RFC 8881 sections 18.10.4 and 20.11).
//!
//! The memory of waits is a hint: a client that receives CB_NOTIFY_LOCK also polls by itself.

use crate::Callbacks;
use crate::Locks;
use crate::files::FileState;
use crate::locks::ranges::{LockMode, LockRange};
use crate::slab::SlabKey;
use crate::{CallbackTask, ClientKey, Clientid4, Effects};
use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

/// Lock owners that are remembered as waiting for one file; further ones have to ask again by
/// themselves.
const WAITS_MAX: usize = 64;
/// Notices that have yet to be sent or answered; further ones are left out.
pub(super) const NOTICES_MAX: usize = 4096;

/// A lock owner that waits for a range.
#[derive(Debug)]
pub(crate) struct LockWait<F> {
    /// The name by which the client knows the file.
    pub(crate) file: F,
    pub(crate) client: ClientKey,
    pub(crate) clientid: Clientid4,
    pub(crate) name: Arc<[u8]>,
    /// Its key, which tells its own ranges from those of others.
    pub(crate) owner: SlabKey,
    pub(crate) range: LockRange,
    pub(crate) mode: LockMode,
}

/// Names a notice until it is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NoticeKey(pub(crate) u64);

/// The arguments of CB_NOTIFY_LOCK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockNotice<F> {
    /// The file of the lock.
    pub file: F,
    /// cnla_lock_owner.clientid of the waiting owner.
    pub clientid: Clientid4,
    /// cnla_lock_owner.owner of the waiting owner.
    pub owner: Arc<[u8]>,
}

/// Notices that are under way, and the number of the last one.
#[derive(Debug)]
pub(crate) struct Notices<F> {
    pub(super) last: u64,
    pub(super) all: BTreeMap<u64, LockNotice<F>>,
}

impl<F> Default for Notices<F> {
    fn default() -> Self {
        Self { last: 0, all: BTreeMap::new() }
    }
}

impl<F> Notices<F> {
    fn insert(&mut self, notice: LockNotice<F>) -> Option<NoticeKey> {
        if self.all.len() >= NOTICES_MAX {
            return None;
        }
        self.last += 1;
        self.all.insert(self.last, notice);
        Some(NoticeKey(self.last))
    }
}

impl<F> FileState<F> {
    /// Remembers a lock owner that was refused and waits.
    pub(crate) fn wait_for_lock(&mut self, wait: LockWait<F>) {
        let same = |other: &LockWait<F>| other.client == wait.client && other.name == wait.name;
        self.waits.retain(|other| !same(other));
        if self.waits.len() < WAITS_MAX {
            self.waits.push(wait);
        }
    }
}

impl<F: Clone + Eq + Hash, O> Locks<'_, F, O> {
    /// Queues CB_NOTIFY_LOCK for waiters of a file whose ranges may now be free.
    pub(crate) fn notify_lock_waits(&self, file: &mut FileState<F>, effects: &mut Effects<O>) {
        let ranges = &file.ranges;
        let free = |wait: &mut LockWait<F>| ranges.conflict(wait.owner, wait.range, wait.mode).is_none();
        for wait in file.waits.extract_if(.., free) {
            let LockWait { file, client, clientid, name: owner, .. } = wait;
            let notice = self.state.locks.notices.lock().insert(LockNotice { file, clientid, owner });
            if let Some(notice) = notice {
                effects.callbacks.push(CallbackTask::NotifyLock { client, notice });
            }
        }
    }

    /// Returns the arguments of CB_NOTIFY_LOCK.
    pub fn lock_notice(&self, notice: NoticeKey) -> Option<LockNotice<F>> {
        self.state.locks.notices.lock().all.get(&notice.0).cloned()
    }

    /// Forgets a notice that was answered, or could not be sent.
    pub fn lock_notice_done(&self, notice: NoticeKey) {
        self.state.locks.notices.lock().all.remove(&notice.0);
    }
}

impl<F: Clone + Eq + Hash, O> Callbacks<'_, F, O> {
    /// Returns whether the server can call a client back, to notify it of locks among others.
    pub fn can_call_back(&self, client: ClientKey) -> bool {
        let paths =
            |record: Arc<crate::clients::Client>| record.paths.load(crate::sync::atomic::Ordering::Relaxed);
        self.state.client(client).is_ok_and(|record| paths(record) > 0)
    }
}
