//! Delegations of the library, which stand behind those of NFS clients.
//!
//! Another gateway or a native client that wants the file waits until the delegation is returned.
//! One that is not returned in time ends the whole mount, so it is taken back before, whatever the
//! server does.

use ceph::CephErrno;
use ceph::fs::{CephDelegation, CephOpenFile, DelegationKind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Instant;
use vfs::{Broken, Lease, LeaseKind, VfsError, VfsResult};

/// The parts of the library's time in which the server gets a delegation back, and after which it
/// is taken: of so many.
const SERVER_PARTS: u32 = 6;
const TAKEN_PARTS: u32 = 7;
const PARTS: u32 = 8;

/// A delegation until its return.
type HeldByCeph = Mutex<Option<CephDelegation>>;

/// A recalled delegation, and the time at which it is taken back.
type Recalled = (Instant, Weak<HeldByCeph>);

/// Takes back delegations that were recalled. Its thread begins with the first delegation.
#[derive(Debug, Default)]
pub(crate) struct Recalls(OnceLock<Option<Sender<Recalled>>>);

impl Recalls {
    /// Takes a delegation on an open file.
    ///
    /// # Errors
    /// `Delay` when the file is in use against it, `Notsupp` where the cluster allows none.
    pub(crate) fn take(
        &self,
        file: &Arc<CephOpenFile>,
        kind: LeaseKind,
        broken: Broken,
    ) -> VfsResult<Arc<dyn Lease>> {
        let timeout = file.mount().delegation_timeout();
        let sender = self.sender().ok_or(VfsError::Exhausted)?.clone();
        let kind = match kind {
            LeaseKind::Read => DelegationKind::Read,
            LeaseKind::Write => DelegationKind::Write,
        };
        let held: Arc<HeldByCeph> = Arc::default();
        let is_broken = Arc::new(AtomicBool::new(false));
        let (recalled, weak) = (Arc::clone(&is_broken), Arc::downgrade(&held));
        let recall = move || {
            recalled.store(true, Relaxed);
            // A thread that has ended has no delegations left.
            let _ = sender.send((Instant::now() + timeout / PARTS * TAKEN_PARTS, weak.clone()));
            broken(timeout / PARTS * SERVER_PARTS);
        };
        let taken = CephDelegation::take(file, kind, Box::new(recall)).map_err(refusal)?;
        *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
        Ok(Arc::new(CephLease { _held: held, is_broken }))
    }

    fn sender(&self) -> Option<&Sender<Recalled>> {
        let start = || {
            let (sender, receiver) = mpsc::channel();
            thread::Builder::new().name("recalls".into()).spawn(move || watch(&receiver)).ok()?;
            Some(sender)
        };
        self.0.get_or_init(start).as_ref()
    }
}

/// Takes back each recalled delegation at its time. All have the same time to run, so they come in
/// order.
fn watch(recalled: &Receiver<Recalled>) {
    for (at, held) in recalled {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        let Some(held) = held.upgrade() else { continue };
        let late = held.lock().unwrap_or_else(PoisonError::into_inner).take();
        if late.is_some() {
            tracing::warn!("a recalled delegation was not returned in time: Ceph gets the file back");
        }
    }
}

/// A delegation that a client relies on.
struct CephLease {
    /// Returned when the last owner lets go.
    _held: Arc<HeldByCeph>,
    is_broken: Arc<AtomicBool>,
}

impl Lease for CephLease {
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        None
    }

    fn is_broken(&self) -> bool {
        self.is_broken.load(Relaxed)
    }
}

fn refusal(error: CephErrno) -> VfsError {
    match error.number() {
        libc::EAGAIN => VfsError::Delay,
        // Delegations are not enabled.
        libc::ETIME => VfsError::Notsupp,
        _ => crate::errno::vfs_error(error),
    }
}
