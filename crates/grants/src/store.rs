//! The grant store: a folder with one file for each record.
//!
//! A record is written to a temporary file, synced and renamed, and the folder is synced, before
//! its change is confirmed. So SIGKILL and a power failure leave whole files. A damaged file is
//! reported and left alone; it affects no other record.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use crate::table::{GrantChange, GrantRecord, TicketSource};

/// Largest file of a record, in bytes.
const STORED_RECORD_MAX: u64 = 4 << 20;
/// The first word of a file, with the version of its format.
const MAGIC: &str = "orthrus-grant-1";
/// The folder of ticket-granting tickets, for grants of KDCs that do not delegate.
const TICKETS: &str = "tickets";
/// Start of the names of files that are being written.
const UNFINISHED: &str = ".new-";

/// A failure of the grant store.
#[derive(Debug, thiserror::Error)]
pub enum GrantStoreError {
    /// Another user could read or replace the store.
    #[error(transparent)]
    NotPrivate(#[from] private::PrivateError),
    /// Another service uses the folder.
    #[error("{} is in use by another grant service", .0.display())]
    InUse(PathBuf),
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> GrantStoreError {
    move |source| GrantStoreError::Io { path: path.to_owned(), source }
}

/// An open store. Only one process has it open.
#[derive(Debug)]
pub struct GrantStore {
    folder: PathBuf,
    directory: File,
}

/// The contents of a store.
#[derive(Debug)]
pub struct StoredGrants {
    /// All records of undamaged files.
    pub records: Vec<GrantRecord>,
    /// Damaged files, each with the reason.
    pub damaged: Vec<(PathBuf, String)>,
}

impl GrantStore {
    /// Opens the store in `folder`, which is created if it is missing.
    ///
    /// # Errors
    /// `NotPrivate` if others could read the folder, `InUse` if another process has it open.
    pub fn open(folder: &Path) -> Result<(Self, StoredGrants), GrantStoreError> {
        private::claim(folder)?;
        private::claim(&folder.join(TICKETS))?;
        let directory = File::open(folder).map_err(io_error(folder))?;
        flock(&directory, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| GrantStoreError::InUse(folder.to_owned()))?;
        let mut stored = StoredGrants { records: Vec::new(), damaged: Vec::new() };
        for entry in fs::read_dir(folder).map_err(io_error(folder))? {
            let path = entry.map_err(io_error(folder))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            if name.starts_with(UNFINISHED) {
                fs::remove_file(&path).map_err(io_error(&path))?;
            } else if name.starts_with("grant-") || name.starts_with("run-") {
                match read(&path) {
                    Ok(record) if record.key() == name => stored.records.push(record),
                    Ok(_) => stored.damaged.push((path, "it has the record of another file".to_owned())),
                    Err(why) => stored.damaged.push((path, why)),
                }
            }
        }
        let store = Self { folder: folder.to_owned(), directory };
        store.drop_orphans()?;
        Ok((store, stored))
    }

    /// Removes tickets without a grant, which a killed service leaves. A grant that cannot be seen
    /// now may be there.
    fn drop_orphans(&self) -> Result<(), GrantStoreError> {
        let folder = self.folder.join(TICKETS);
        for entry in fs::read_dir(&folder).map_err(io_error(&folder))?.flatten() {
            if let Ok(false) = self.folder.join(entry.file_name()).try_exists() {
                fs::remove_file(entry.path()).map_err(io_error(&entry.path()))?;
            }
        }
        Ok(())
    }

    /// Makes a change durable.
    ///
    /// # Errors
    /// The error of the file system; the change may then have happened or not.
    pub fn write(&self, change: &GrantChange) -> Result<(), GrantStoreError> {
        match change {
            GrantChange::Put(record) => {
                self.put(record)?;
                // A grant that had a ticket may now be served by delegation.
                if matches!(record, GrantRecord::Grant(grant) if grant.source == TicketSource::Delegation) {
                    remove(&self.ticket(&record.key()))?;
                }
            }
            GrantChange::Remove(key) => {
                remove(&self.ticket(key))?;
                remove(&self.folder.join(key))?;
            }
        }
        self.directory.sync_all().map_err(io_error(&self.folder))
    }

    /// Returns the file of the ticket-granting ticket of a grant.
    pub(crate) fn ticket(&self, key: &str) -> PathBuf {
        self.folder.join(TICKETS).join(key)
    }

    fn put(&self, record: &GrantRecord) -> Result<(), GrantStoreError> {
        let key = record.key();
        let (path, new) = (self.folder.join(&key), self.folder.join(format!("{UNFINISHED}{key}")));
        let text = encode(record).map_err(io_error(&path))?;
        let write = || {
            let _ = fs::remove_file(&new);
            private::write_new(&new, text.as_bytes())?;
            File::open(&new)?.sync_all()?;
            fs::rename(&new, &path)
        };
        write().map_err(io_error(&path))
    }
}

fn remove(path: &Path) -> Result<(), GrantStoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(path)(error)),
        _ => Ok(()),
    }
}

fn encode(record: &GrantRecord) -> io::Result<String> {
    let body = serde_json::to_string(record)?;
    Ok(format!("{MAGIC} {}\n{body}\n", checksum(&body)))
}

fn checksum(body: &str) -> String {
    Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(path: &Path) -> Result<GrantRecord, String> {
    let mut text = String::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(STORED_RECORD_MAX).read_to_string(&mut text).map_err(|error| error.to_string())?;
    let (head, body) = text.split_once('\n').ok_or("it ends within its first line")?;
    let sum = head.strip_prefix(MAGIC).ok_or("it is no record of this version")?.trim();
    let body = body.strip_suffix('\n').ok_or("it ends too early")?;
    if checksum(body) != sum {
        return Err("its checksum is wrong".to_owned());
    }
    serde_json::from_str(body).map_err(|error| error.to_string())
}

/// Writes a file that only this user may read, as a whole or not at all. It survives a power
/// failure.
///
/// # Errors
/// Errors of the file system; the file may then be replaced or not.
pub(crate) fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    replace_with(path, contents, File::sync_all)
}

fn replace_with(path: &Path, contents: &[u8], sync: impl Fn(&File) -> io::Result<()>) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let directory = File::open(folder)?;
    let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder)?;
    file.write_all(contents)?;
    sync(file.as_file())?;
    file.persist(path).map_err(|error| error.error)?;
    sync(&directory)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::table::Grant;
    use std::cell::RefCell;
    use std::fmt::Debug;
    use std::time::{Duration, Instant};

    fn grant(id: &str) -> GrantRecord {
        GrantRecord::Grant(Grant {
            principal: "alice@R".into(),
            job: format!("job-{id}"),
            services: vec!["nfs/s".into()],
            nodes: vec!["n1".into()],
            created: 1,
            deadline: 2,
            source: TicketSource::Delegation,
            ended: None,
        })
    }

    /// Opens a folder that nothing uses. A test that starts a program has copies of all locks until
    /// the program runs.
    pub(crate) fn unlocked<T, E: Debug>(
        open: impl Fn() -> Result<T, E>,
        is_in_use: impl Fn(&E) -> bool,
    ) -> T {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            match open() {
                Err(error) if is_in_use(&error) && Instant::now() < end => std::thread::yield_now(),
                opened => return opened.unwrap(),
            }
        }
    }

    fn reopened(folder: &Path) -> StoredGrants {
        let is_in_use = |error: &_| matches!(error, GrantStoreError::InUse(_));
        let (_, mut stored) = unlocked(|| GrantStore::open(folder), is_in_use);
        stored.records.sort_by_key(|record| format!("{record:?}"));
        stored
    }

    #[test]
    fn records_come_back_and_removed_ones_do_not() {
        let folder = private::temporary("grants-").unwrap();
        let (store, stored) = GrantStore::open(folder.path()).unwrap();
        assert!(stored.records.is_empty());
        for id in ["1", "2", "3"] {
            store.write(&GrantChange::Put(grant(id))).unwrap();
        }
        store.write(&GrantChange::Remove(grant("2").key())).unwrap();
        store.write(&GrantChange::Remove(grant("2").key())).unwrap();
        assert!(matches!(GrantStore::open(folder.path()), Err(GrantStoreError::InUse(_))));
        drop(store);
        let stored = reopened(folder.path());
        assert_eq!(stored.records, [grant("1"), grant("3")]);
        assert!(stored.damaged.is_empty());
    }

    #[test]
    fn a_torn_or_damaged_file_is_reported_and_loses_no_other_record() {
        let folder = private::temporary("grants-").unwrap();
        let (store, _) = GrantStore::open(folder.path()).unwrap();
        for id in ["1", "2"] {
            store.write(&GrantChange::Put(grant(id))).unwrap();
        }
        drop(store);
        let path = folder.path().join(grant("1").key());
        let whole = fs::read(&path).unwrap();
        // Every length of a torn file, and every single byte changed.
        let torn = (0..whole.len()).map(|length| whole[..length].to_vec());
        let changed = (0..whole.len()).map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        });
        for bytes in torn.chain(changed) {
            fs::write(&path, &bytes).unwrap();
            let stored = reopened(folder.path());
            assert_eq!(stored.records, [grant("2")], "{}", String::from_utf8_lossy(&bytes));
            assert_eq!(stored.damaged.len(), 1);
        }
        fs::write(&path, &whole).unwrap();
        fs::write(folder.path().join(".new-grant-4"), "half").unwrap();
        assert_eq!(reopened(folder.path()).records, [grant("1"), grant("2")]);
        assert!(!folder.path().join(".new-grant-4").exists());
    }

    #[test]
    fn a_ticket_is_kept_if_its_grant_cannot_be_read_and_not_without_one() {
        let folder = private::temporary("grants-").unwrap();
        let (store, _) = GrantStore::open(folder.path()).unwrap();
        let [unseen, none] = ["1", "2"].map(|id| store.ticket(&grant(id).key()));
        drop(store);
        fs::write(&unseen, "ticket").unwrap();
        fs::write(&none, "ticket").unwrap();
        // A circle of links cannot be followed, as a file server that is away cannot be asked.
        let record = folder.path().join(grant("1").key());
        std::os::unix::fs::symlink(&record, &record).unwrap();
        assert_eq!(reopened(folder.path()).damaged.len(), 1);
        assert!(unseen.exists() && !none.exists());
    }

    #[test]
    fn a_record_under_the_name_of_another_is_damage() {
        let folder = private::temporary("grants-").unwrap();
        let (store, _) = GrantStore::open(folder.path()).unwrap();
        store.write(&GrantChange::Put(grant("1"))).unwrap();
        drop(store);
        fs::copy(folder.path().join(grant("1").key()), folder.path().join(grant("2").key())).unwrap();
        let stored = reopened(folder.path());
        assert_eq!((stored.records.len(), stored.damaged.len()), (1, 1));
    }

    #[test]
    fn a_file_is_synced_before_it_replaces_another_and_its_folder_after() {
        let folder = private::temporary("grants-").unwrap();
        let path = folder.path().join("file");
        replace(&path, b"old").unwrap();
        let synced = RefCell::new(Vec::new());
        let sync = |file: &File| {
            synced.borrow_mut().push((file.metadata()?.is_dir(), fs::read(&path)?));
            Ok(())
        };
        replace_with(&path, b"new", sync).unwrap();
        assert_eq!(synced.into_inner(), [(false, b"old".to_vec()), (true, b"new".to_vec())]);
    }
}
