//! Questions about mounts whose file systems may hang.

use crate::{cached_object::CachedObject, identity, kind::Kind, mounts::MountedPlace};
use foreign::ForeignThread;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How long the first question to a file system that hangs keeps its caller waiting.
const PATIENCE: Duration = Duration::from_secs(2);

/// The threads that wait for foreign file systems, by the number of the mount. Each mount has its
/// own, so that one that hangs does not hide the others.
#[derive(Debug, Default)]
pub(super) struct AskedMounts(Mutex<HashMap<u64, Arc<ForeignThread>>>);

impl AskedMounts {
    /// Runs a question about a mount below `root` with the server's identity, which the calling
    /// thread has already; `None` while its file system hangs.
    pub(super) fn ask<R: Send + 'static>(
        &self,
        mounted: &MountedPlace,
        root: &Arc<CachedObject>,
        identities: bool,
        question: impl FnOnce(&CachedObject, &[u8]) -> R + Send + 'static,
    ) -> Option<R> {
        if mounted.kind != Kind::Foreign {
            return Some(question(root, &mounted.place));
        }
        let thread = Arc::clone(self.lock().entry(mounted.mount).or_default());
        let (root, place) = (Arc::clone(root), mounted.place.clone());
        let answer = thread.ask(PATIENCE, move || {
            let is_server = !identities || identity::become_superuser().is_ok();
            is_server.then(|| question(&root, &place))
        });
        let mut threads = self.lock();
        // A thread that still waits answers later questions at once.
        match answer {
            Some(_) => drop(threads.remove(&mounted.mount)),
            None => drop(threads.insert(mounted.mount, thread)),
        }
        answer.flatten()
    }

    /// Lets go of the threads of mounts that are gone. One that waits ends with its call.
    pub(super) fn keep(&self, there: &[MountedPlace]) {
        self.lock().retain(|mount, _| there.iter().any(|mounted| mounted.mount == *mount));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<ForeignThread>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
