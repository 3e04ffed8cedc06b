//! Notifications of the members, without a wait for those that do not answer.

use ceph::rados::RadosPool;
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a notification of the members waits for them: one that died stays for half a minute.
const NOTIFY_TIME_MAX: Duration = Duration::from_secs(2);

/// A thread that notifies the watchers of an object. Dropping it waits for the last notification.
#[derive(Debug)]
pub(crate) struct Notifier {
    asked: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Notifier {
    /// Starts the thread. Without one nobody is notified, and members find changes when they read.
    pub(crate) fn start(pool: RadosPool, object: String) -> Self {
        let (asked, receiver) = mpsc::sync_channel(1);
        let run = move || {
            while receiver.recv().is_ok() {
                // Only a help: members read the database from time to time.
                let _ = pool.notify(&object, NOTIFY_TIME_MAX);
            }
        };
        let thread = std::thread::Builder::new().name("notify".into()).spawn(run).ok();
        Self { asked: Some(asked), thread }
    }

    /// Notifies the watchers soon.
    pub(crate) fn ask(&self) {
        if let Some(asked) = &self.asked {
            // A full queue means that a notification is about to begin.
            let _ = asked.try_send(());
        }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        drop(self.asked.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
