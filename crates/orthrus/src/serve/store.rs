//! The server's state across restarts, in a directory of its own: its secret, a count of its
//! starts, the lease that clients know, and the owners of clients that may reclaim, with hashes of
//! the principals that created them (RFC 8881 section 8.4.2.1).

use super::reserve;
use super::roots::Roots;
use super::state_dir::{self, REMEDY, private, replace};
use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use server::engine::{JournalOwners, hex, journal_line, journal_line_gone, journal_owners, unhex};
use siphasher::sip128::{Hasher128, SipHasher24};
use state::{PrincipalHash, PriorClient};
use std::fs::{File, OpenOptions};
use std::hash::Hasher;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Lines of the journal for each client that is known, above which it is written anew.
const JOURNAL_SLACK_MAX: usize = 8;
/// Lines that the journal may have for any number of clients.
const JOURNAL_LINES_MIN: usize = 1024;
/// Bytes of a journal that the server accepts: far more than `clients_max` clients need. From half
/// of it on, the journal is rewritten.
const JOURNAL_SIZE_MAX: u64 = 256 << 20;
/// Bytes of a client owner in the journal: the protocol's limit, and room for the version mark.
const JOURNAL_OWNER_MAX: usize = 2048;
/// Bytes of the other files.
const FILE_SIZE_MAX: u64 = 4096;
/// Characters of a damaged line that are shown.
const SHOWN_MAX: usize = 60;

/// The state that a start reads from the store.
#[derive(Clone)]
pub(super) struct Boot {
    /// Counts the starts, from 1.
    pub epoch: u32,
    /// Key material for handle checksums and the like: 32 random bytes that stay.
    pub secret: [u8; 32],
    /// The clients that held state when the server went down.
    pub prior_clients: Vec<PriorClient>,
}

impl Boot {
    /// The key under which principals of clients are hashed: it stays, and is not one that handles
    /// are signed with.
    pub(super) fn principal_key(&self) -> [u8; 16] {
        let mut key = [0; 16];
        key.copy_from_slice(&self.secret[16..]);
        let mut hasher = SipHasher24::new_with_key(&key);
        hasher.write(b"principals of clients");
        hasher.write(&self.secret[8..16]);
        hasher.finish128().as_bytes()
    }
}

/// A state folder that no other server uses. The lock ends with the last copy of this descriptor,
/// which the next process may have.
pub(super) struct FolderLock(OwnedFd);

impl FolderLock {
    /// Locks the folder, and makes it where it does not exist.
    ///
    /// # Errors
    /// Names the folder and the remedy: no permission, open to others, in use by another server.
    pub(super) fn take(directory: &Path) -> anyhow::Result<Self> {
        state_dir::open_folder(directory)?;
        let lock = private(&directory.join("lock")).and_then(|file| {
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            Ok(OwnedFd::from(file))
        });
        match lock {
            Ok(lock) => Ok(Self(lock)),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => bail!(
                "the state folder {} is in use by another orthrus; give each server its own with --state-dir",
                directory.display()
            ),
            Err(error) => Err(error).with_context(|| format!("{} cannot be locked", directory.display())),
        }
    }

    /// Returns a copy of the descriptor, for the next process.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(super) fn copy(&self) -> std::io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Locks the folder again if it has lost the file of the lock.
    ///
    /// # Errors
    /// As [`FolderLock::take`].
    fn renew(&mut self, directory: &Path) -> anyhow::Result<()> {
        let is_held = rustix::fs::fstat(&self.0).is_ok_and(|file| file.st_nlink > 0);
        if !is_held {
            *self = Self::take(directory)?;
        }
        Ok(())
    }
}

/// The store of a running server; the folder is locked for as long as it lives.
pub(super) struct Store {
    directory: PathBuf,
    lock: Mutex<FolderLock>,
    journal: Mutex<Journal>,
    secret: [u8; 32],
    /// The number of this start.
    epoch: u32,
    /// The lease that clients of this start know.
    lease: Duration,
    /// The longest lease that the clients of before know.
    former_lease: Duration,
}

struct Journal {
    file: File,
    owners: JournalOwners,
    lines: usize,
    size: usize,
    /// Whether there are lines that may not be on stable storage.
    dirty: bool,
    /// Whether a write has failed, so that the file may lack a change or end within a line. Nothing
    /// is appended to such a file.
    incomplete: bool,
}

impl Store {
    /// Opens the store, making it where it does not exist, and counts one more start. Its clients
    /// get this lease.
    ///
    /// # Errors
    /// Names the folder and the remedy: no permission, open to others, in use by another server,
    /// damaged.
    pub(super) fn open(directory: &Path, lease: Duration) -> anyhow::Result<(Self, Boot)> {
        let lock = FolderLock::take(directory)?;
        // All of it is looked at before anything is changed.
        let owners = read_journal(&directory.join("clients"))?;
        let epoch = next_epoch(directory, owners.is_some())?;
        let former_lease = stored_lease(directory)?.unwrap_or(lease);
        let secret = secret(directory)?;
        let owners = owners.unwrap_or_default();
        // Clients that have not reclaimed at the next start know the former one still.
        let known = if owners.is_empty() { lease } else { lease.max(former_lease) };
        reserve::write(directory, || {
            replace(directory, "starts", format!("{epoch}\n").as_bytes())?;
            store_lease(directory, known)
        })
        .with_context(|| format!("{} cannot be written", directory.display()))?;
        let prior = owners.iter();
        let prior =
            prior.map(|(owner, principal)| PriorClient { owner: owner.clone(), principal: *principal });
        let prior_clients = prior.collect();
        let journal = reserve::write(directory, || Journal::create(directory, owners.clone()))
            .with_context(|| directory.display().to_string())?;
        let journal = Mutex::new(journal);
        reserve::keep(directory);
        let (directory, lock) = (directory.to_owned(), Mutex::new(lock));
        let store = Self { directory, lock, journal, secret, epoch, lease, former_lease };
        Ok((store, Boot { epoch, secret, prior_clients }))
    }

    /// Goes on with the store of the previous process, which has the lock and changes nothing any
    /// more. The start counts as the same, so the epoch is that of its clients, and so is their
    /// lease unless this one is longer.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub(super) fn inherit(directory: &Path, lock: OwnedFd, lease: Duration) -> anyhow::Result<(Self, Boot)> {
        state_dir::open_folder(directory)?;
        let path = directory.join("clients");
        let owners = read_journal(&path)?.unwrap_or_default();
        let secret = stored_secret(directory)?.with_context(|| format!("{} is gone", path.display()))?;
        let former_lease = stored_lease(directory)?;
        let lease = former_lease.map_or(lease, |former| former.max(lease));
        if former_lease != Some(lease) {
            // A longer one is harmless if the previous process goes on.
            store_lease(directory, lease)
                .with_context(|| format!("{} cannot be written", directory.display()))?;
        }
        let file = OpenOptions::new().append(true).open(&path);
        let file = file.with_context(|| format!("{} cannot be written", path.display()))?;
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        // The lines that were overwritten are not known: it is as if there were none. Nor is it
        // known whether the last write of the previous process failed.
        let journal = Journal { file, lines: owners.len(), size, owners, dirty: true, incomplete: true };
        let store = Self {
            directory: directory.to_owned(),
            lock: Mutex::new(FolderLock(lock)),
            journal: Mutex::new(journal),
            secret,
            epoch: next_epoch(directory, true)? - 1,
            lease,
            former_lease: lease,
        };
        Ok((store, Boot { epoch: 0, secret, prior_clients: Vec::new() }))
    }

    /// Returns a copy of the lock's descriptor, for the next process.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(super) fn lock(&self) -> std::io::Result<OwnedFd> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).copy()
    }

    /// Reads the store as [`Store::open`] does, and tries whether there is room for a start.
    /// Changes nothing but that the folder is made where it is missing.
    ///
    /// # Errors
    /// As [`Store::open`], but a store that is in use is right.
    pub(super) fn examine(directory: &Path) -> anyhow::Result<()> {
        state_dir::open_folder(directory)?;
        let owners = read_journal(&directory.join("clients"))?;
        next_epoch(directory, owners.is_some())?;
        stored_lease(directory)?;
        Roots::read(directory)?;
        stored_secret(directory)?;
        reserve::examine(directory)
            .with_context(|| format!("the state folder {} cannot be written", directory.display()))
    }

    /// Returns the longest lease that the clients of before know.
    pub(super) fn former_lease(&self) -> Duration {
        self.former_lease
    }

    /// Notes that no client goes on with a lease of a former start.
    pub(super) fn forget_former_lease(&self) -> std::io::Result<()> {
        store_lease(&self.directory, self.lease)
    }

    /// Puts an owner down with the principal that created its client; [`Store::sync`] makes it
    /// last.
    pub(super) fn record(&self, owner: &[u8], principal: PrincipalHash) -> std::io::Result<()> {
        self.change(|owners| {
            let before = owners.insert(owner.to_vec(), Some(principal));
            (before != Some(Some(principal))).then(|| journal_line(owner, Some(principal)))
        })
    }

    /// Strikes an owner out; [`Store::sync`] makes it last.
    pub(super) fn forget(&self, owner: &[u8]) -> std::io::Result<()> {
        self.change(|owners| owners.remove(owner).map(|_| journal_line_gone(owner)))
    }

    /// Puts changes on stable storage and then returns. Writes the files again that the folder has
    /// lost.
    pub(super) fn sync(&self) -> std::io::Result<()> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        if journal.is_gone() {
            journal.incomplete = true;
            self.restore().map_err(|error| std::io::Error::other(format!("{error:#}")))?;
        }
        if journal.incomplete { journal.rewrite(&self.directory) } else { journal.sync() }
    }

    /// Writes what the next start needs, but for the journal, into a folder that has lost it: the
    /// filehandles of clients stay valid. A secret of a backup stays.
    fn restore(&self) -> anyhow::Result<()> {
        let directory = &self.directory;
        state_dir::open_folder(directory)?;
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).renew(directory)?;
        if stored_secret(directory)?.is_none() {
            store_secret(directory, &self.secret)?;
        }
        // No number may come twice, also after that of a backup.
        let starts = state_dir::read(&directory.join("starts"), FILE_SIZE_MAX)?;
        let starts = starts.and_then(|text| text.trim().parse::<u32>().ok()).unwrap_or(0);
        replace(directory, "starts", format!("{}\n", starts.max(self.epoch)).as_bytes())?;
        Ok(store_lease(directory, self.lease.max(self.former_lease))?)
    }

    /// Makes the next change fail.
    #[cfg(test)]
    pub(super) fn break_journal(&self) {
        let file = File::open(self.directory.join("clients")).unwrap();
        self.journal.lock().unwrap().file = file;
    }

    /// Returns whether a write has failed, or the files are gone; [`Store::sync`] tries it again.
    pub(super) fn is_incomplete(&self) -> bool {
        let journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.incomplete || journal.is_gone()
    }

    /// Returns whether somebody has removed or replaced the files while the server runs.
    pub(super) fn is_gone(&self) -> bool {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner).is_gone()
    }

    /// Returns the state folder that the store is in.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Changes the owners; `change` returns the line to append, if anything is new.
    fn change(&self, change: impl FnOnce(&mut JournalOwners) -> Option<String>) -> std::io::Result<()> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(line) = change(&mut journal.owners) else { return Ok(()) };
        let is_long = journal.lines > JOURNAL_LINES_MIN + JOURNAL_SLACK_MAX * journal.owners.len()
            || (journal.size + line.len()) as u64 > JOURNAL_SIZE_MAX / 2;
        if journal.incomplete || is_long {
            return journal.rewrite(&self.directory);
        }
        journal.append(&line)
    }
}

impl Journal {
    /// Writes the owners into a new file, which takes the place of an old one.
    fn create(directory: &Path, owners: JournalOwners) -> std::io::Result<Self> {
        let text: String = owners.iter().map(|(owner, principal)| journal_line(owner, *principal)).collect();
        replace(directory, "clients", text.as_bytes())?;
        let file = OpenOptions::new().append(true).open(directory.join("clients"))?;
        Ok(Self { file, lines: owners.len(), size: text.len(), owners, dirty: false, incomplete: false })
    }

    /// Does the same for a journal that is in use.
    fn rewrite(&mut self, directory: &Path) -> std::io::Result<()> {
        // It can fail after the new file has its name, and then `file` is the replaced one.
        self.incomplete = true;
        *self = Self::create(directory, self.owners.clone())?;
        reserve::keep(directory);
        Ok(())
    }

    /// Returns whether the file has no name any more. Waits for no disk, unlike a look at its path.
    fn is_gone(&self) -> bool {
        self.file.metadata().is_ok_and(|file| file.nlink() == 0)
    }

    fn append(&mut self, line: &str) -> std::io::Result<()> {
        let written = self.file.write_all(line.as_bytes());
        self.lines += 1;
        self.size += line.len();
        self.dirty = true;
        self.incomplete = written.is_err();
        written
    }

    fn sync(&mut self) -> std::io::Result<()> {
        if self.dirty {
            let synced = self.file.sync_data();
            // The kernel reports a failure once, and a later sync would succeed without the lines.
            self.dirty = false;
            self.incomplete = synced.is_err();
            synced?;
        }
        Ok(())
    }
}

/// Returns the lease; `None` before the first start, and after one of a version that stored none.
fn stored_lease(directory: &Path) -> anyhow::Result<Option<Duration>> {
    let path = directory.join("lease");
    let Some(text) = state_dir::read(&path, FILE_SIZE_MAX)? else { return Ok(None) };
    match text.trim().parse() {
        Ok(seconds) => Ok(Some(Duration::from_secs(seconds))),
        Err(_) => bail!(
            "{} is damaged; remove it, and see that `grace_time` is at least the `lease_time` of before",
            path.display()
        ),
    }
}

fn store_lease(directory: &Path, lease: Duration) -> std::io::Result<()> {
    replace(directory, "lease", format!("{}\n", lease.as_secs()).as_bytes())
}

/// Returns the secret; `None` if there is none.
fn stored_secret(directory: &Path) -> anyhow::Result<Option<[u8; 32]>> {
    let path = directory.join("secret");
    let Some(text) = state_dir::read(&path, FILE_SIZE_MAX)? else { return Ok(None) };
    match unhex(text.trim()).and_then(|bytes| bytes.try_into().ok()) {
        Some(secret) => Ok(Some(secret)),
        None => bail!(
            "{} is damaged; restore it from a backup, or remove it: clients then have to mount again",
            path.display()
        ),
    }
}

/// Returns the secret, and makes one where there is none.
fn secret(directory: &Path) -> anyhow::Result<[u8; 32]> {
    if let Some(secret) = stored_secret(directory)? {
        return Ok(secret);
    }
    let mut secret = [0u8; 32];
    getrandom::fill(&mut secret)
        .map_err(|error| anyhow::anyhow!("the system gives no randomness: {error}"))?;
    store_secret(directory, &secret)?;
    Ok(secret)
}

fn store_secret(directory: &Path, secret: &[u8; 32]) -> anyhow::Result<()> {
    replace(directory, "secret", format!("{}\n", hex(secret)).as_bytes())
        .with_context(|| format!("{} cannot be written", directory.join("secret").display()))
}

/// Returns the number of this start. It must be one that no start has had: clients take stateids of
/// another start with the same number for their own.
fn next_epoch(directory: &Path, has_journal: bool) -> anyhow::Result<u32> {
    let path = directory.join("starts");
    let next = match state_dir::read(&path, FILE_SIZE_MAX)? {
        Some(text) => text.trim().parse::<u32>().ok().and_then(|last| last.checked_add(1)),
        None => (!has_journal).then_some(1),
    };
    match next.filter(|next| *next > 0) {
        Some(next) => Ok(next),
        None => bail!(
            "{path} is damaged or missing: it counts the starts of the server, and no number may come twice; \
             use \"(umask 077; date +%s >{path})\", which is larger than any count",
            path = path.display()
        ),
    }
}

/// Reads the journal; `None` if there is none.
fn read_journal(path: &Path) -> anyhow::Result<Option<JournalOwners>> {
    let Some(text) = state_dir::read(path, JOURNAL_SIZE_MAX)? else { return Ok(None) };
    let damaged = |what: &str| {
        let shown: String = what.chars().take(SHOWN_MAX).collect();
        anyhow::anyhow!("{} is damaged at {shown:?}: {REMEDY}", path.display())
    };
    // A last line without an end is one that a crash cut short, but no crash writes such bytes.
    if let Some(at) = text.find(char::REPLACEMENT_CHARACTER) {
        return Err(damaged(text.get(at..).unwrap_or_default()));
    }
    let owners = journal_owners(&text).map_err(damaged)?;
    match owners.keys().find(|owner| owner.len() > JOURNAL_OWNER_MAX) {
        Some(owner) => Err(damaged(&hex(owner))),
        None => Ok(Some(owners)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: PrincipalHash = PrincipalHash([0xa1; 16]);
    const LEASE: Duration = Duration::from_secs(60);
    const BOB: PrincipalHash = PrincipalHash([0xb0; 16]);

    fn private_folder() -> tempfile::TempDir {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        tempfile::Builder::new().permissions(mode).tempdir().unwrap()
    }

    fn prior(owner: &[u8], principal: Option<PrincipalHash>) -> PriorClient {
        PriorClient { owner: owner.to_vec(), principal }
    }

    #[test]
    fn a_restart_finds_the_same_secret_a_later_epoch_and_the_clients_that_were_recorded() {
        let folder = private_folder();
        let (store, first) = Store::open(folder.path(), LEASE).unwrap();
        assert!(first.prior_clients.is_empty());
        store.record(b"one", ALICE).unwrap();
        store.record(b"two", BOB).unwrap();
        store.record(b"two", ALICE).unwrap();
        store.record(b"two", ALICE).unwrap();
        store.forget(b"one").unwrap();
        drop(store);
        let (_store, second) = Store::open(folder.path(), LEASE).unwrap();
        assert_eq!(second.secret, first.secret);
        assert_eq!(second.epoch, first.epoch + 1);
        assert_eq!(second.prior_clients, [prior(b"two", Some(ALICE))]);
    }

    #[test]
    fn the_lease_that_clients_know_is_that_of_before_until_none_of_them_reclaims_any_more() {
        // RFC 8881 section 8.4.2: at least the lease of the previous instance
        let folder = private_folder();
        let open = |seconds| Store::open(folder.path(), Duration::from_secs(seconds)).unwrap().0;
        let former = |store: &Store| store.former_lease().as_secs();
        let first = open(30);
        assert_eq!(former(&first), 30);
        first.record(b"one", ALICE).unwrap();
        drop(first);
        assert_eq!(former(&open(5)), 30);
        let again = open(5);
        assert_eq!(former(&again), 30, "the second start has ended before its grace period");
        again.forget_former_lease().unwrap();
        drop(again);
        let last = open(5);
        assert_eq!(former(&last), 5);
        let lock = last.lock().unwrap();
        drop(Store::inherit(folder.path(), lock, Duration::from_secs(3)).unwrap());
        let lock = last.lock().unwrap();
        drop(Store::inherit(folder.path(), lock, Duration::from_secs(20)).unwrap());
        last.forget(b"one").unwrap();
        drop(last);
        assert_eq!(former(&open(5)), 20, "clients of an upgraded server know its lease");
        assert_eq!(former(&open(5)), 5, "there were none");
    }

    #[test]
    fn a_second_server_on_the_same_folder_is_refused() {
        let folder = private_folder();
        let _store = Store::open(folder.path(), LEASE).unwrap();
        let error = Store::open(folder.path(), LEASE).err().expect("the folder is locked");
        assert!(error.to_string().contains("--state-dir"), "{error}");
    }

    #[test]
    fn a_line_that_a_crash_cut_short_is_not_there() {
        let folder = private_folder();
        Store::open(folder.path(), LEASE).unwrap().0.record(b"one", ALICE).unwrap();
        let mut file = OpenOptions::new().append(true).open(folder.path().join("clients")).unwrap();
        file.write_all(b"+74776f").unwrap();
        let (_store, boot) = Store::open(folder.path(), LEASE).unwrap();
        assert_eq!(boot.prior_clients, [prior(b"one", Some(ALICE))]);
    }

    #[test]
    fn a_write_that_fails_costs_no_client_its_state() {
        let folder = private_folder();
        let (store, _) = Store::open(folder.path(), LEASE).unwrap();
        store.record(b"one", ALICE).unwrap();
        // A full disk: a part of the line arrives.
        let path = folder.path().join("clients");
        let mut torn = OpenOptions::new().append(true).open(&path).unwrap();
        torn.write_all(b"+74776f").unwrap();
        let read_only = File::open(&path).unwrap();
        store.journal.lock().unwrap().file = read_only;
        store.record(b"two", ALICE).unwrap_err();
        store.forget(b"one").unwrap();
        store.record(b"three", BOB).unwrap();
        store.sync().unwrap();
        drop(store);
        let expected = [prior(b"three", Some(BOB)), prior(b"two", Some(ALICE))];
        assert_eq!(Store::open(folder.path(), LEASE).unwrap().1.prior_clients, expected);
    }

    #[test]
    fn a_sync_writes_the_records_that_failed() {
        let folder = private_folder();
        let (store, _) = Store::open(folder.path(), LEASE).unwrap();
        store.break_journal();
        store.record(b"one", ALICE).unwrap_err();
        // The name of the new file is taken by a folder that is not empty.
        let blocked = folder.path().join("clients.new");
        std::fs::create_dir_all(blocked.join("inside")).unwrap();
        store.sync().unwrap_err();
        std::fs::remove_dir_all(&blocked).unwrap();
        store.sync().unwrap();
        drop(store);
        assert_eq!(Store::open(folder.path(), LEASE).unwrap().1.prior_clients, [prior(b"one", Some(ALICE))]);
    }

    #[test]
    fn the_next_process_does_not_append_to_a_torn_line() {
        let folder = private_folder();
        let (store, _) = Store::open(folder.path(), LEASE).unwrap();
        store.record(b"one", ALICE).unwrap();
        OpenOptions::new()
            .append(true)
            .open(folder.path().join("clients"))
            .unwrap()
            .write_all(b"+7")
            .unwrap();
        let lock = store.lock().unwrap();
        let (next, _) = Store::inherit(folder.path(), lock, LEASE).unwrap();
        next.record(b"two", ALICE).unwrap();
        drop((store, next));
        let expected = [prior(b"one", Some(ALICE)), prior(b"two", Some(ALICE))];
        assert_eq!(Store::open(folder.path(), LEASE).unwrap().1.prior_clients, expected);
    }

    #[test]
    fn many_changes_do_not_let_the_journal_grow_without_bound() {
        let folder = private_folder();
        let (store, _) = Store::open(folder.path(), LEASE).unwrap();
        for round in 0..3000u32 {
            store.forget(&round.wrapping_sub(1).to_be_bytes()).unwrap();
            store.record(&round.to_be_bytes(), ALICE).unwrap();
        }
        let size = std::fs::metadata(folder.path().join("clients")).unwrap().len();
        assert!(size < 45 * (JOURNAL_LINES_MIN as u64 + 16), "{size}");
    }

    #[test]
    fn a_damaged_file_is_refused_with_the_remedy_and_nothing_is_changed() {
        let folder = private_folder();
        let path = |name: &str| folder.path().join(name);
        Store::open(folder.path(), LEASE).unwrap().0.record(b"one", ALICE).unwrap();
        let names = ["starts", "secret", "clients", "lease"];
        let content = || names.map(|name| std::fs::read(path(name)).unwrap());
        let whole = content();
        let long = format!("+{}\n", "61".repeat(500_000));
        let damages: [(&str, &[u8], &str); 16] = [
            ("starts", b"", "date +%s"),
            ("starts", b"garbage\n", "date +%s"),
            ("starts", b"-5\n", "date +%s"),
            ("starts", b"4294967295\n", "date +%s"),
            ("starts", b"4294967296\n", "date +%s"),
            ("starts", &[b' '; 5000], "4096 bytes"),
            ("secret", b"", "mount again"),
            ("secret", b"zz", "mount again"),
            ("starts", &[0xff; 2], "date +%s"),
            ("secret", &[0xff; 64], "mount again"),
            ("lease", b"a minute\n", "lease_time"),
            ("clients", b"?\n", "damaged at"),
            ("clients", b"+zz\n", "damaged at"),
            ("clients", b"+6f 00\n", "damaged at"),
            ("clients", &[0x80; 4096], "damaged at"),
            ("clients", long.as_bytes(), "damaged at"),
        ];
        for (name, damage, said) in damages {
            std::fs::write(path(name), damage).unwrap();
            let before = content();
            let error = format!("{:#}", Store::open(folder.path(), LEASE).err().expect("it is refused"));
            assert!(error.contains(said) && error.contains(name) && error.len() < 600, "{name}: {error}");
            assert_eq!(content(), before, "{name}");
            names.iter().zip(&whole).for_each(|(name, bytes)| std::fs::write(path(name), bytes).unwrap());
        }
        std::fs::remove_file(path("starts")).unwrap();
        let error = format!("{:#}", Store::open(folder.path(), LEASE).err().expect("it is refused"));
        assert!(error.contains("date +%s"), "{error}");
        std::fs::write(path("starts"), &whole[0]).unwrap();
        std::fs::set_permissions(path("starts"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        assert_eq!(Store::open(folder.path(), LEASE).unwrap().1.prior_clients, [prior(b"one", Some(ALICE))]);
    }

    #[test]
    fn a_journal_beyond_all_reason_is_refused_and_not_cut_short() {
        let folder = private_folder();
        drop(Store::open(folder.path(), LEASE).unwrap());
        // A hole takes no space, and most of it is not read.
        OpenOptions::new().write(true).open(folder.path().join("clients")).unwrap().set_len(1 << 40).unwrap();
        let error = format!("{:#}", Store::open(folder.path(), LEASE).err().expect("it is refused"));
        assert!(error.contains("bytes") && error.contains("backup"), "{error}");
    }

    #[test]
    fn records_of_earlier_versions_are_read_without_a_principal() {
        let folder = private_folder();
        drop(Store::open(folder.path(), LEASE).unwrap());
        std::fs::write(folder.path().join("clients"), "+6f6e65\n+74776f\n-6f6e65\n").unwrap();
        let (store, boot) = Store::open(folder.path(), LEASE).unwrap();
        assert_eq!(boot.prior_clients, [prior(b"two", None)]);
        store.record(b"two", BOB).unwrap();
        drop(store);
        assert_eq!(Store::open(folder.path(), LEASE).unwrap().1.prior_clients, [prior(b"two", Some(BOB))]);
    }
}
