//! The service's keys: which realms they belong to, and contexts accepted with them.

use crate::config::{Settings, hidden_remedy};
use anyhow::{Context, anyhow, bail};
use gss::{Established, GssError, KeytabEntry};
use identity::fits_pattern;
use rustix::fs::MemfdFlags;
use server::rpcsec::{AcceptError, Accepted, ContextAcceptor};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Where a machine keeps its keys.
const SYSTEM_KEYTAB: &str = "/etc/krb5.keytab";

/// Encryption types that contexts may have (RFC 3962, RFC 8009).
const ETYPES: std::ops::RangeInclusive<u16> = 17..=20;

/// The interval at which the keytab is checked for changes, while contexts are created or somebody
/// asks for its state.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The accepted keys of the keytab. The file is read again when it changes; if it is of no use
/// then, the previous keys stay.
pub(super) struct Keys {
    keytab: Keytab,
    state: Mutex<KeysState>,
    /// A descriptor in reserve. MIT's library opens krb5.conf and the keytab for each context, one
    /// after the other.
    spare: Mutex<Option<OwnedFd>>,
}

/// A keytab, and the services and hosts whose keys are accepted.
struct Keytab {
    path: PathBuf,
    services: Vec<String>,
    /// Patterns; empty for all hosts.
    hosts: Vec<String>,
}

struct KeysState {
    current: Arc<LoadedKeys>,
    /// The state of the file when `current` was read.
    stamp: FileStamp,
    /// The last attempt to read the file since, if it failed.
    failed: Option<FailedLoad>,
    checked: Instant,
}

/// A failed attempt to read a changed keytab.
struct FailedLoad {
    stamp: FileStamp,
    at: Instant,
    cause: String,
}

/// Keys in memory, in the form of a file that MIT's library can read.
struct LoadedKeys {
    acceptor: gss::Acceptor,
    realms: Vec<String>,
    hosts: Vec<String>,
    copy: File,
}

/// Inode, size and times of a file: different after any change.
type FileStamp = Option<(u64, u64, i64, i64, i64, i64)>;

impl Keytab {
    /// Returns the configured keytab, or the machine's if it can be read; `None` where there is
    /// neither.
    fn configured(settings: &Settings) -> Option<Self> {
        let path = match &settings.keytab {
            Some(path) => path.clone(),
            None if File::open(SYSTEM_KEYTAB).is_ok() => PathBuf::from(SYSTEM_KEYTAB),
            None => return None,
        };
        let (services, hosts) = (settings.keytab_services.clone(), settings.keytab_hosts.clone());
        Some(Self { path, services, hosts })
    }

    /// Returns whether contexts may be accepted with a key.
    fn accepts(&self, entry: &KeytabEntry) -> bool {
        let [service, host] = entry.components.as_slice() else { return false };
        ETYPES.contains(&entry.etype)
            && self.services.iter().any(|own| own == "*" || own == service)
            && accepts_host(&self.hosts, host)
    }

    /// Names the types of keys that fit except for their type, with the remedy in Active Directory,
    /// where accounts have RC4 keys alone unless an attribute allows others.
    fn older_types(&self) -> anyhow::Result<String> {
        let accepted =
            |entry: &KeytabEntry| self.accepts(&KeytabEntry { etype: *ETYPES.start(), ..entry.clone() });
        let (entries, _) = gss::select_keys(&self.path, accepted).with_context(|| self.named())?;
        let mut types: Vec<_> = entries.iter().map(|entry| entry.etype.to_string()).collect();
        types.sort_unstable();
        types.dedup();
        Ok(match types.join(", ") {
            none if none.is_empty() => none,
            types => format!(
                " (only of the older encryption types {types}; in Active Directory, set msDS-SupportedEncryptionTypes of \
                 the service account to 24 and export the keytab again)"
            ),
        })
    }

    fn named(&self) -> String {
        format!("keytab {}", self.path.display())
    }

    /// Makes the error of a file that cannot be read.
    fn unreadable(&self, error: std::io::Error) -> anyhow::Error {
        let remedy = if self.path.to_string_lossy().contains("FILE:") {
            "; write the path without \"FILE:\"".to_owned()
        } else {
            hidden_remedy(&self.path)
        };
        anyhow!("{}: {error}{remedy}", self.named())
    }

    fn stamp(&self) -> FileStamp {
        let file = std::fs::metadata(&self.path).ok()?;
        Some((file.ino(), file.size(), file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()))
    }

    /// Selects the accepted keys. Returns their entries, and a keytab with them alone.
    fn select(&self) -> anyhow::Result<(Vec<KeytabEntry>, Vec<u8>)> {
        let (entries, bytes) = gss::select_keys(&self.path, |entry| self.accepts(entry))
            .map_err(|error| self.unreadable(error))?;
        if entries.is_empty() {
            let services = self.services.join("/, ");
            let hosts = if self.hosts.is_empty() { "*".to_owned() } else { self.hosts.join(", ") };
            bail!(
                "{} has no key of the services {services}/, of the hosts {hosts} and of an AES type{}; add one with kadmin: ktadd -k {} \
                 nfs/HOST, or name other services with keytab_services and hosts with keytab_hosts",
                self.named(),
                self.older_types()?,
                self.path.display()
            );
        }
        Ok((entries, bytes))
    }

    fn load(&self) -> anyhow::Result<LoadedKeys> {
        let (entries, bytes) = self.select()?;
        for entry in &entries {
            let KeytabEntry { realm, kvno, etype, .. } = entry;
            tracing::debug!("key of {}@{realm}, version {kvno}, etype {etype}", entry.components.join("/"));
        }
        if std::fs::metadata(&self.path).is_ok_and(|file| file.mode() & 0o007 != 0) {
            tracing::warn!("{} can be read by all users of this machine: chmod 600", self.named());
        }
        let mut copy = File::from(memory_file("keytab").context("memory for the keys")?);
        copy.write_all(&bytes).context("memory for the keys")?;
        let acceptor =
            gss::Acceptor::from_keytab(Path::new(&path_of(&copy))).with_context(|| self.named())?;
        let hosts = entries.iter().filter_map(|entry| entry.components.get(1).cloned()).collect();
        Ok(LoadedKeys { acceptor, realms: realms_of(&entries), hosts, copy })
    }
}

/// Returns whether the keys of a host are accepted with the patterns of `keytab_hosts`.
pub(crate) fn accepts_host(patterns: &[String], host: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| fits(pattern, host))
}

/// Returns whether a host name fits a pattern, in which `*` stands for any characters, without
/// regard to case.
fn fits(pattern: &str, host: &str) -> bool {
    fits_pattern(&pattern.to_lowercase(), &host.to_lowercase())
}

/// Makes a file in memory without a name.
fn memory_file(label: &str) -> rustix::io::Result<OwnedFd> {
    rustix::fs::memfd_create(label, MemfdFlags::CLOEXEC)
}

/// Returns the path by which this process can open a file of its own.
fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The case of a realm counts (RFC 4120 section 6.1): users of one in another case are `nobody`.
fn misspelt(realms: &[String], own: &[String]) -> Vec<String> {
    let alike = |own: &String| realms.iter().find(|realm| realm.eq_ignore_ascii_case(own));
    let wrong = own.iter().filter(|own| !realms.contains(own)).filter_map(|own| Some((alike(own)?, own)));
    let said = |(realm, own): (&String, &String)| {
        format!(
            "realms: {realm:?} is not {own:?}, the realm of the keytab, whose users act as nobody: write {own:?}"
        )
    };
    wrong.map(said).collect()
}

fn realms_of(entries: &[KeytabEntry]) -> Vec<String> {
    let realms: BTreeSet<String> = entries.iter().map(|entry| entry.realm.clone()).collect();
    realms.into_iter().collect()
}

/// Returns the realms of the accepted keys, for the mapping of principals; none without a keytab.
///
/// # Errors
/// When a keytab was named that is of no use.
pub(super) fn realms(settings: &Settings) -> anyhow::Result<Vec<String>> {
    match Keytab::configured(settings) {
        Some(keytab) => Ok(realms_of(&keytab.select()?.0)),
        None => Ok(Vec::new()),
    }
}

impl Keys {
    /// Opens the configured keytab, or the machine's if it can be read; `None` where there is
    /// neither.
    ///
    /// # Errors
    /// When a keytab was named that is of no use.
    pub(super) fn open(settings: &Settings) -> anyhow::Result<Option<Self>> {
        let Some(keytab) = Keytab::configured(settings) else { return Ok(None) };
        let stamp = keytab.stamp();
        let current = Arc::new(keytab.load()?);
        let spare = Mutex::new(memory_file("spare").ok());
        let state = Mutex::new(KeysState { current, stamp, failed: None, checked: Instant::now() });
        Ok(Some(Self { keytab, state, spare }))
    }

    /// Returns the host names of the service principals, of the current file if it is of use.
    pub(super) fn hosts(&self) -> Vec<String> {
        self.current(Duration::ZERO).hosts.clone()
    }

    /// Returns the realms of the service principals, of the current file if it is of use.
    pub(super) fn realms(&self) -> Vec<String> {
        self.current(Duration::ZERO).realms.clone()
    }

    /// Returns the reason why the file is of no use now, so that the previous keys stay in use.
    pub(super) fn failure(&self) -> Option<String> {
        self.current(CHECK_INTERVAL);
        self.state().failed.as_ref().map(|failed| failed.cause.clone())
    }

    /// Returns a sentence for each of `realms` that only its case distinguishes from a realm of the
    /// keys.
    pub(super) fn misspelt(&self, realms: &[String]) -> Vec<String> {
        misspelt(realms, &self.realms())
    }

    fn state(&self) -> MutexGuard<'_, KeysState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the keys, read again if the file has changed. Checks that once in `interval`. A file
    /// that could not be read is tried again, since the cause may pass.
    fn current(&self, interval: Duration) -> Arc<LoadedKeys> {
        let mut state = self.state();
        if state.checked.elapsed() < interval {
            return state.current.clone();
        }
        state.checked = Instant::now();
        let stamp = self.keytab.stamp();
        let has_failed = |failed: &FailedLoad| failed.stamp == stamp && failed.at.elapsed() < CHECK_INTERVAL;
        if stamp == state.stamp {
            state.failed = None;
        } else if !state.failed.as_ref().is_some_and(has_failed) {
            self.reload(&mut state, stamp);
        }
        state.current.clone()
    }

    /// Reads the changed file. A failure is logged once for each cause.
    fn reload(&self, state: &mut KeysState, stamp: FileStamp) {
        match self.keytab.load() {
            Ok(loaded) => {
                tracing::info!("{} has changed: its keys are in use", self.keytab.named());
                (state.current, state.stamp, state.failed) = (Arc::new(loaded), stamp, None);
            }
            Err(error) => {
                let cause = format!("{error:#}");
                if state.failed.as_ref().is_none_or(|failed| failed.cause != cause) {
                    tracing::error!(
                        "the previous keys stay in use until a restart, which would fail: {cause}"
                    );
                }
                state.failed = Some(FailedLoad { stamp, at: Instant::now(), cause });
            }
        }
    }

    /// Accepts a token with the descriptor in reserve, which another thread may take.
    fn accept_with_spare(&self, keys: &LoadedKeys, token: &[u8]) -> Result<Established, GssError> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        drop(spare.take());
        let established = keys.acceptor.accept(token);
        *spare = memory_file("spare").ok();
        established
    }
}

impl Keys {
    /// Accepts a context, as [`ContextAcceptor`] says.
    pub(super) fn accept(&self, token: &[u8]) -> Result<Accepted, AcceptError> {
        // The thread may still have the identity of the last caller, which must not read the
        // keytab.
        vfs_local::become_server();
        let keys = self.current(CHECK_INTERVAL);
        let established = keys.acceptor.accept(token).or_else(|error| {
            // A key may have been added this moment.
            let renewed = self.current(Duration::ZERO);
            match error {
                GssError::WrongKey(_) if !Arc::ptr_eq(&keys, &renewed) => renewed.acceptor.accept(token),
                GssError::Shortage(_) => self.accept_with_spare(&renewed, token),
                error => Err(error),
            }
        });
        let established = established.map_err(|error| {
            let status = error.status();
            let message =
                error.to_string().replace(&path_of(&keys.copy), &self.keytab.path.to_string_lossy());
            let is_temporary = matches!(error, GssError::Shortage(_));
            AcceptError { major: status.major, minor: status.minor, message, is_temporary }
        })?;
        Ok(Accepted {
            token: established.token,
            principal: established.principal,
            delegated_through: established.delegated_through,
            keys: established.keys,
            lifetime: established.lifetime,
            send_sequence: established.send_sequence,
        })
    }
}

/// Accepts nothing: a server without keys.
pub(super) struct NoKeys;

impl ContextAcceptor for NoKeys {
    fn accept(&self, _: &[u8]) -> Result<Accepted, AcceptError> {
        const GSS_S_NO_CRED: u32 = 7 << 16;
        let message = "this server has no keytab: give it one with --keytab".to_owned();
        Err(AcceptError { major: GSS_S_NO_CRED, minor: 0, message, is_temporary: false })
    }
}

#[cfg(test)]
mod tests {
    use super::{fits, misspelt};

    #[test]
    fn a_realm_in_another_case_is_named_with_the_right_one() {
        let of = |realms: &[&str]| {
            let [realms, own] = [realms, &["EXAMPLE.ORG"]]
                .map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>());
            misspelt(&realms, &own)
        };
        let said = of(&["AD.EXAMPLE.ORG", "example.org"]);
        assert!(
            said.len() == 1 && said[0].contains("\"example.org\"") && said[0].ends_with("\"EXAMPLE.ORG\""),
            "{said:?}"
        );
        for right in [&[][..], &["EXAMPLE.ORG"], &["example.org", "EXAMPLE.ORG"], &["USERS.ORG"]] {
            assert_eq!(of(right), [""; 0]);
        }
    }

    #[test]
    fn a_star_stands_for_any_characters_of_a_host_name() {
        for (pattern, host) in [
            ("*", "a.example.org"),
            ("*.example.org", "a.example.org"),
            ("*.EXAMPLE.org", "A.example.ORG"),
            ("node*.example.org", "node.example.org"),
            ("n*-*.example.org", "n1-b-c.example.org"),
            ("a.example.org", "a.example.org"),
        ] {
            assert!(fits(pattern, host), "{pattern} {host}");
        }
        for (pattern, host) in [
            ("", "a"),
            ("*.example.org", "example.org"),
            ("*.example.org", "a.example.org.evil"),
            ("node*.example.org", "a.example.org"),
            ("ab*ba", "aba"),
            ("a*b*b", "ab"),
        ] {
            assert!(!fits(pattern, host), "{pattern} {host}");
        }
    }
}
