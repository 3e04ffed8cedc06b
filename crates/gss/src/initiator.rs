//! The client's side.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::Established;
use crate::error::{GssError, Status, major};
use crate::ffi::{Advance, Cred, Initiation, Name, Store, Usage};

/// Where the initiator's tickets come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The user's own cache, as the environment and krb5.conf say.
    Default,
    /// A credential cache by name: a path, or `FILE:…`, `DIR:…`, `KEYRING:…`, `MEMORY:…`.
    Ccache(String),
    /// A keytab: tickets are fetched with the principal's key and kept in memory, for machines and
    /// tests.
    Keytab {
        /// The keytab's path.
        path: PathBuf,
        /// The principal whose key to use, with or without realm.
        principal: String,
    },
}

/// Fetching a ticket with a keytab writes the in-memory cache that all initiators of that principal
/// share; a second one must not read it half written.
static KEYTAB_FETCH: Mutex<()> = Mutex::new(());

/// A context being initiated with a server, with mutual authentication.
pub struct Initiator {
    initiation: Initiation,
    by_keytab: bool,
}

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Send this token to the server and give its answer to [`Initiator::step`].
    Send(Vec<u8>),
    /// The context is established; `token` is usually empty.
    Done(Box<Established>),
}

impl Initiator {
    /// Begins a context with `target`, a service at a host such as `nfs@server.example.org`.
    ///
    /// # Errors
    /// `NoTicket` or `TicketExpired` when the cache says so at once; some errors come only with the
    /// first step.
    pub fn new(target: &str, credential: &Credential) -> Result<Self, GssError> {
        let target = Name::service(target)?;
        let cred = acquire(credential)?;
        let by_keytab = matches!(credential, Credential::Keytab { .. });
        Ok(Self { initiation: Initiation::new(cred, target), by_keytab })
    }

    /// Takes the server's token, `None` at first, and says what to do next. May speak to the KDC,
    /// and wait.
    ///
    /// # Errors
    /// The context has failed and the initiator is of no more use.
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
            // One cache in memory a keytab and principal: contexts share tickets and nothing grows.
            let mut hasher = DefaultHasher::new();
            (path, principal).hash(&mut hasher);
            let store = Store::default()
                .with("client_keytab", &format!("FILE:{path}"))?
                .with("ccache", &format!("MEMORY:orthrus-{:016x}", hasher.finish()))?;
            let _fetch = KEYTAB_FETCH.lock().unwrap_or_else(PoisonError::into_inner);
            Cred::acquire(Some(&Name::principal(principal)?), Usage::Initiate, &store)
        }
    }
}
