//! What the server keeps over a restart, in a folder of its own: its secret, a count of its starts, and the owners of
//! the clients that may reclaim (RFC 8881 section 8.4.2.1).

use anyhow::{Context, bail};
use nix::fcntl::{Flock, FlockArg};
use server::engine::{hex, journal_line, journal_owners, unhex};
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Lines of the journal for each client that is known, above which it is written anew.
const JOURNAL_SLACK_MAX: usize = 8;
/// Lines that the journal may have whatever the number of clients.
const JOURNAL_LINES_MIN: usize = 1024;
/// Bytes of a journal that is read at all: far above what `clients_max` clients need.
const JOURNAL_SIZE_MAX: u64 = 256 << 20;

/// What a start learns from the store.
pub struct Boot {
    /// Counts the starts, from 1.
    pub epoch: u32,
    /// Key material for handle checksums and the like: 32 random bytes that stay.
    pub secret: [u8; 32],
    /// Owners of the clients that held state when the server went down.
    pub prior_clients: Vec<Vec<u8>>,
}

/// The store of a running server; the folder is locked for as long as it lives.
pub struct Store {
    directory: PathBuf,
    _lock: Flock<File>,
    journal: Mutex<Journal>,
}

struct Journal {
    file: File,
    owners: BTreeSet<Vec<u8>>,
    lines: usize,
    /// Whether there are lines that may not be on stable storage.
    dirty: bool,
}

impl Store {
    /// Opens the store, making it where it does not exist, and counts one more start.
    ///
    /// # Errors
    /// Names the folder and the cure: no permission, in use by another server, damaged.
    pub fn open(directory: &Path) -> anyhow::Result<(Self, Boot)> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).with_context(|| {
            format!(
                "the state folder {} cannot be made; choose another with --state-dir",
                directory.display()
            )
        })?;
        let lock = private(&directory.join("lock")).and_then(|file| {
            Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error.into())
        });
        let lock = match lock {
            Ok(lock) => lock,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => bail!(
                "the state folder {} is in use by another orthrus; give each server its own with --state-dir",
                directory.display()
            ),
            Err(error) => {
                return Err(error).with_context(|| format!("{} cannot be locked", directory.display()));
            }
        };
        let secret = secret(directory)?;
        let epoch = next_epoch(directory)?;
        let owners = read_journal(&directory.join("clients"))?;
        let prior_clients = owners.iter().cloned().collect();
        let journal = Mutex::new(Journal::rewrite(directory, owners)?);
        Ok((
            Self { directory: directory.to_owned(), _lock: lock, journal },
            Boot { epoch, secret, prior_clients },
        ))
    }

    /// Puts an owner down; [`Store::sync`] makes it last.
    pub fn record(&self, owner: &[u8]) -> std::io::Result<()> {
        self.change(owner, true)
    }

    /// Strikes an owner out; [`Store::sync`] makes it last.
    pub fn forget(&self, owner: &[u8]) -> std::io::Result<()> {
        self.change(owner, false)
    }

    /// Puts what has changed on stable storage; returns after it is there.
    pub fn sync(&self) -> std::io::Result<()> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if journal.dirty {
            journal.file.sync_data()?;
            journal.dirty = false;
        }
        Ok(())
    }

    fn change(&self, owner: &[u8], present: bool) -> std::io::Result<()> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let changed =
            if present { journal.owners.insert(owner.to_vec()) } else { journal.owners.remove(owner) };
        if !changed {
            return Ok(());
        }
        if journal.lines > JOURNAL_LINES_MIN + JOURNAL_SLACK_MAX * journal.owners.len() {
            let owners = std::mem::take(&mut journal.owners);
            *journal = Journal::rewrite(&self.directory, owners)?;
            return Ok(());
        }
        journal.lines += 1;
        journal.dirty = true;
        journal.file.write_all(journal_line(owner, present).as_bytes())
    }
}

impl Journal {
    /// Writes the owners into a new file that takes the old one's place whole or not at all.
    fn rewrite(directory: &Path, owners: BTreeSet<Vec<u8>>) -> std::io::Result<Self> {
        let text: String = owners.iter().map(|owner| journal_line(owner, true)).collect();
        replace(directory, "clients", text.as_bytes())?;
        let file = OpenOptions::new().append(true).open(directory.join("clients"))?;
        Ok(Self { file, lines: owners.len(), owners, dirty: false })
    }
}

fn private(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn replace(directory: &Path, name: &str, content: &[u8]) -> std::io::Result<()> {
    let new = directory.join(format!("{name}.new"));
    let mut file = private(&new)?;
    file.set_len(0)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&new, directory.join(name))?;
    File::open(directory)?.sync_all()
}

fn secret(directory: &Path) -> anyhow::Result<[u8; 32]> {
    let path = directory.join("secret");
    match std::fs::read_to_string(&path) {
        Ok(text) => match unhex(text.trim()).and_then(|bytes| bytes.try_into().ok()) {
            Some(secret) => Ok(secret),
            None => bail!("{} is damaged; remove it, and clients will have to mount anew", path.display()),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut secret = [0u8; 32];
            getrandom::fill(&mut secret)
                .map_err(|error| anyhow::anyhow!("the system gives no randomness: {error}"))?;
            replace(directory, "secret", format!("{}\n", hex(&secret)).as_bytes())?;
            Ok(secret)
        }
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

fn next_epoch(directory: &Path) -> anyhow::Result<u32> {
    let last = match std::fs::read_to_string(directory.join("starts")) {
        Ok(text) => text.trim().parse().unwrap_or(0),
        Err(_) => 0u32,
    };
    let epoch = last.wrapping_add(1).max(1);
    replace(directory, "starts", format!("{epoch}\n").as_bytes())
        .with_context(|| format!("{} cannot be written", directory.display()))?;
    Ok(epoch)
}

/// Reads the journal.
fn read_journal(path: &Path) -> anyhow::Result<BTreeSet<Vec<u8>>> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => file.take(JOURNAL_SIZE_MAX).read_to_string(&mut text).map(drop)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
    journal_owners(&text).or_else(|line| {
        bail!("{} is damaged at {line:?}; remove it, and clients lose what they had open", path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_finds_the_same_secret_a_later_epoch_and_the_clients_that_were_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let (store, first) = Store::open(folder.path()).unwrap();
        assert!(first.prior_clients.is_empty());
        store.record(b"one").unwrap();
        store.record(b"two").unwrap();
        store.record(b"two").unwrap();
        store.forget(b"one").unwrap();
        drop(store);
        let (_store, second) = Store::open(folder.path()).unwrap();
        assert_eq!(second.secret, first.secret);
        assert_eq!(second.epoch, first.epoch + 1);
        assert_eq!(second.prior_clients, [b"two".to_vec()]);
    }

    #[test]
    fn a_second_server_on_the_same_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let _store = Store::open(folder.path()).unwrap();
        let error = Store::open(folder.path()).err().expect("the folder is locked");
        assert!(error.to_string().contains("--state-dir"), "{error}");
    }

    #[test]
    fn a_line_that_a_crash_cut_short_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        Store::open(folder.path()).unwrap().0.record(b"one").unwrap();
        let mut file = OpenOptions::new().append(true).open(folder.path().join("clients")).unwrap();
        file.write_all(b"+74776f").unwrap();
        let (_store, boot) = Store::open(folder.path()).unwrap();
        assert_eq!(boot.prior_clients, [b"one".to_vec()]);
    }

    #[test]
    fn many_changes_do_not_let_the_journal_grow_without_bound() {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = Store::open(folder.path()).unwrap();
        for round in 0..3000u32 {
            store.forget(&round.wrapping_sub(1).to_be_bytes()).unwrap();
            store.change(&round.to_be_bytes(), true).unwrap();
        }
        let size = std::fs::metadata(folder.path().join("clients")).unwrap().len();
        assert!(size < 10 * (JOURNAL_LINES_MIN as u64 + 16), "{size}");
    }
}
