//! The server's client records, kept in the store.

use super::store::Store;
use server::LogLimit;
use server::engine::{ClientRecords, SyncedRecords};
use state::PrincipalHash;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The consequence of a failure: clients are still served.
const MEANING: &str = "after a restart who may reclaim is not what it should be";

/// Passes the server's wishes on to the store.
pub(super) struct Records {
    store: Arc<Store>,
    errors: Errors,
}

impl Records {
    /// Keeps the records in `store`.
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self { store, errors: Errors::new() }
    }

    /// Logs the loss of the state folder's files once.
    fn note_loss(&self, error: Option<&std::io::Error>, folder: impl Display) {
        match error {
            None => tracing::error!(
                "the files of the state folder {folder} were removed or replaced, and are written again; restart the \
                 server where `orthrus status` does not find it any more"
            ),
            Some(error) if !self.errors.noted.swap(true, Relaxed) => tracing::error!(
                "the files of the state folder {folder} were removed, and cannot be written again: {error}; {MEANING}"
            ),
            Some(_) => {}
        }
    }
}

/// Log lines about records that failed. Each new client causes one when the disk is full or sick.
struct Errors {
    since: Instant,
    limit: LogLimit,
    /// Whether one has been noted since the records were complete.
    noted: AtomicBool,
}

impl Errors {
    fn new() -> Self {
        Self { since: Instant::now(), limit: LogLimit::default(), noted: AtomicBool::new(false) }
    }

    fn note(&self, what: &str, result: Result<(), impl Display>) {
        self.note_at(self.since.elapsed(), what, result);
    }

    /// Logs an error, unless the last line is too young.
    fn note_at(&self, now: Duration, what: &str, result: Result<(), impl Display>) {
        let Err(error) = result else { return };
        self.noted.store(true, Relaxed);
        if let Some(suppressed) = self.limit.permit(now) {
            tracing::error!(suppressed, "{what}: {error}; {MEANING}");
        }
    }
}

impl ClientRecords for Records {
    fn may_wait(&self) -> bool {
        true
    }

    fn record(&self, owner: &[u8], principal: PrincipalHash) {
        // The thread may still have the identity of the last caller, which must not write the
        // store.
        vfs_local::become_server();
        self.errors.note("a client could not be recorded", self.store.record(owner, principal));
    }

    fn forget(&self, owner: &[u8]) {
        vfs_local::become_server();
        self.errors.note("a client could not be taken off the records", self.store.forget(owner));
    }

    /// Goes on after a failure: then it is in the log, and [`Records::repair`] tries again.
    fn sync(&self) -> SyncedRecords {
        vfs_local::become_server();
        self.errors.note("the client records could not be put on stable storage", self.store.sync());
        SyncedRecords::All
    }

    fn grace_ended(&self) {
        vfs_local::become_server();
        self.errors.note("the lease could not be stored", self.store.forget_former_lease());
    }

    fn is_complete(&self) -> bool {
        // A store of another process is taken for incomplete at first.
        !self.errors.noted.load(Relaxed) || !self.store.is_incomplete()
    }

    fn repair(&self) {
        if !self.store.is_incomplete() {
            return;
        }
        vfs_local::become_server();
        let (is_gone, folder) = (self.store.is_gone(), self.store.directory().display());
        let written = self.store.sync();
        if is_gone {
            self.note_loss(written.as_ref().err(), folder);
        }
        // The failure is in the log since it happened first. A store of another process was only
        // taken for incomplete.
        if written.is_ok() && self.errors.noted.swap(false, Relaxed) {
            tracing::info!("the client records are complete");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::written_log::WrittenLog;
    use server::engine::journal_line;

    #[test]
    fn records_that_failed_are_written_without_another_change() {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let folder = tempfile::Builder::new().permissions(mode).tempdir().expect("a folder");
        let store = Arc::new(Store::open(folder.path(), Duration::from_secs(60)).expect("a store").0);
        let records = Records::new(Arc::clone(&store));
        let journal = || std::fs::read_to_string(folder.path().join("clients")).expect("a journal");
        // The journal cannot be written anew while its new file is a folder that is not empty.
        let blocked = folder.path().join("clients.new");
        std::fs::create_dir_all(blocked.join("inside")).expect("a folder");
        store.break_journal();
        records.record(b"gone", PrincipalHash([7; 16]));
        records.record(b"stays", PrincipalHash([7; 16]));
        records.forget(b"gone");
        records.sync();
        records.repair();
        assert!(store.is_incomplete() && !records.is_complete() && journal().is_empty());
        std::fs::remove_dir_all(&blocked).expect("it goes");
        records.repair();
        assert!(!store.is_incomplete() && records.is_complete());
        assert_eq!(journal(), journal_line(b"stays", Some(PrincipalHash([7; 16]))));
    }

    #[test]
    fn a_folder_that_is_removed_under_the_server_is_written_again() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = outer.path().join("state");
        let lease = Duration::from_secs(60);
        let (store, first) = Store::open(&folder, lease).expect("a store");
        let records = Records::new(Arc::new(store));
        records.record(b"one", PrincipalHash([7; 16]));
        std::fs::remove_dir_all(&folder).expect("it goes");
        assert!(records.store.is_incomplete());
        // Another place of the folder is taken for a while.
        std::fs::write(&folder, "").expect("a file");
        records.repair();
        assert!(!records.is_complete());
        std::fs::remove_file(&folder).expect("it goes");
        records.repair();
        assert!(records.is_complete() && !records.store.is_incomplete());
        assert!(Store::open(&folder, lease).is_err(), "it is locked again");
        drop(records);
        let (_store, second) = Store::open(&folder, lease).expect("a store");
        assert_eq!((second.secret, second.epoch), (first.secret, first.epoch + 1));
        assert_eq!(second.prior_clients.len(), 1);
    }

    #[test]
    fn only_records_after_a_failure_are_reported_as_complete() {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let folder = tempfile::Builder::new().permissions(mode).tempdir().expect("a folder");
        let lease = Duration::from_secs(60);
        let former = Store::open(folder.path(), lease).expect("a store").0;
        let inherited =
            Store::inherit(folder.path(), former.lock().expect("a lock"), lease).expect("a store").0;
        let store = Arc::new(inherited);
        let records = Records::new(Arc::clone(&store));
        let log = WrittenLog::default();
        let text = || log.text();
        tracing::subscriber::with_default(log.subscriber(), || {
            records.repair();
            assert!(!store.is_incomplete() && text().is_empty(), "{}", text());
            store.break_journal();
            records.record(b"one", PrincipalHash([7; 16]));
            records.repair();
            assert!(text().contains("the client records are complete"), "{}", text());
        });
    }

    #[test]
    fn clients_that_cannot_be_recorded_cause_one_log_line_a_second() {
        let log = WrittenLog::default();
        let errors = Errors::new();
        tracing::subscriber::with_default(log.subscriber(), || {
            for at in [0, 1, 500, 999, 1000] {
                errors.note_at(Duration::from_millis(at), "not recorded", Err::<(), _>("disk full"));
                errors.note_at(Duration::from_millis(at), "recorded", Ok::<(), &str>(()));
            }
        });
        let log = log.text();
        assert_eq!(log.lines().count(), 2, "{log}");
        assert!(log.lines().all(|line| line.contains("not recorded: disk full; after a restart")), "{log}");
        assert!(log.contains("suppressed=3"), "{log}");
    }
}
