//! Initiation of contexts, for clients.

use std::ffi::CString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::Established;
use crate::error::{GssError, Status, major};
use crate::ffi::{Advance, Cred, GssName, Initiation, Store, Usage, remove_cache};

/// The source of the initiator's tickets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The user's default cache, according to the environment and krb5.conf.
    Default,
    /// A credential cache by name: a path, or `FILE:…`, `DIR:…`, `KEYRING:…`, `MEMORY:…`.
    Ccache(String),
    /// A keytab, for machines and tests: tickets are fetched with the principal's key and kept in
    /// memory.
    Keytab {
        /// The path of the keytab.
        path: PathBuf,
        /// The principal of the key, with or without realm.
        principal: String,
    },
}

impl Credential {
    /// Forgets the tickets that were fetched with a keytab, so that the next initiator fetches new
    /// ones: a service whose key was replaced refuses the earlier ones until their end. Leaves
    /// caches of users alone. An initiator that has not made its first token can fail.
    pub fn forget_tickets(&self) {
        let Self::Keytab { path, principal } = self else { return };
        let _fetch = KEYTAB_FETCH.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(name) = CString::new(keytab_cache(path, principal)) {
            remove_cache(&name);
        }
    }
}

/// Serialises fetches: a fetch writes the in-memory cache that all initiators of a principal share,
/// and another one must not read it half written.
static KEYTAB_FETCH: Mutex<()> = Mutex::new(());

/// A context that is being initiated, with mutual authentication.
pub struct Initiator {
    initiation: Initiation,
    by_keytab: bool,
}

/// The next action of the caller.
#[derive(Debug)]
pub enum Step {
    /// Send this token to the server and pass its answer to [`Initiator::step`].
    Send(Vec<u8>),
    /// The context is established; `token` is usually empty.
    Done(Box<Established>),
}

impl Initiator {
    /// Starts a context with `target`, a service at a host such as `nfs@server.example.org`.
    ///
    /// # Errors
    /// `NoTicket` or `TicketExpired` if the cache has no valid ticket. Some errors are only found
    /// by the first step.
    pub fn new(target: &str, credential: &Credential) -> Result<Self, GssError> {
        Self::with(target, credential, false)
    }

    /// As [`Initiator::new`], and forwards a ticket-granting ticket to the service, which can then
    /// act as the user towards any service.
    ///
    /// # Errors
    /// As [`Initiator::new`]; the first step fails if the ticket is not forwardable.
    pub fn forwarding(target: &str, credential: &Credential) -> Result<Self, GssError> {
        Self::with(target, credential, true)
    }

    fn with(target: &str, credential: &Credential, forwards: bool) -> Result<Self, GssError> {
        let target = GssName::service(target)?;
        let cred = acquire(credential)?;
        let by_keytab = matches!(credential, Credential::Keytab { .. });
        Ok(Self { initiation: Initiation::new(cred, target, forwards), by_keytab })
    }

    /// Takes the server's token (`None` in the first step) and returns the next action. May block
    /// on requests to the KDC.
    ///
    /// # Errors
    /// [`GssError`]; the context has failed, and the initiator cannot be used again.
    pub fn step(&mut self, token: Option<&[u8]>) -> Result<Step, GssError> {
        let _fetch = (self.by_keytab && token.is_none())
            .then(|| KEYTAB_FETCH.lock().unwrap_or_else(PoisonError::into_inner));
        match self.initiation.step(token)? {
            Advance::Send(token) => Ok(Step::Send(token)),
            Advance::Done { token, principal, keys: exported, lifetime } => {
                let (enctype, keys) = exported.keys(krb5::Role::Initiator)?;
                let send_sequence = exported.send_sequence();
                Ok(Step::Done(Box::new(Established {
                    token,
                    delegated_through: Vec::new(),
                    forwarded: None,
                    principal,
                    keys,
                    enctype,
                    lifetime,
                    send_sequence,
                })))
            }
        }
    }
}

/// Returns the name of the in-memory cache of a keytab and a principal. They have one: contexts
/// share tickets, and memory stays bounded.
fn keytab_cache(path: &Path, principal: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (path, principal).hash(&mut hasher);
    format!("MEMORY:orthrus-{:016x}", hasher.finish())
}

fn acquire(credential: &Credential) -> Result<Cred, GssError> {
    match credential {
        Credential::Default => Cred::acquire(None, Usage::Initiate, &Store::default()),
        Credential::Ccache(name) => {
            Cred::acquire(None, Usage::Initiate, &Store::default().with("ccache", name)?)
        }
        Credential::Keytab { path, principal } => {
            let path = path.to_str().ok_or_else(|| {
                let text = format!("{}: the path is not UTF-8", path.display());
                GssError::KeytabUnusable(Status { major: major::FAILURE, minor: 0, text })
            })?;
            let store = Store::default()
                .with("client_keytab", &format!("FILE:{path}"))?
                .with("ccache", &keytab_cache(Path::new(path), principal))?;
            let _fetch = KEYTAB_FETCH.lock().unwrap_or_else(PoisonError::into_inner);
            Cred::acquire(Some(&GssName::principal(principal)?), Usage::Initiate, &store)
        }
    }
}
