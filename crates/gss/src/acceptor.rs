//! Acceptance of contexts, for servers.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::{GssError, Status, major};
use crate::ffi::{Cred, Store, Usage, accept};
use crate::{Established, ForwardedTicket};

/// The most credentials kept for reuse; further ones are dropped. Each acceptance in progress uses
/// one.
const IDLE_MAX: usize = 64;

/// Accepts contexts with any key of a keytab.
///
/// Threads may share it. MIT holds a credential's mutex during an acceptance, so each acceptance
/// takes its own credential from a pool, and holds no lock while it works. The keytab is read for
/// each context: a key added with `ktadd` is used at once.
///
/// # No replay cache
///
/// An attacker can have a replayed AP-REQ accepted as another context, but cannot use it. So an
/// accepted token proves nothing: the first message with a key of the context does.
///
/// Each RPCSEC_GSS call carries a MIC, which is checked first (RFC 2203 section 5.3.3.3), and the
/// attacker has neither the session key of the ticket nor a subkey. The grant service likewise
/// opens a sealed request first. With mutual authentication the context has keys of its own.
/// Without, which clients may choose, it has the keys of the first one; but the MIC of a recorded
/// call covers the handle of that context, and handles are random.
///
/// A replay costs the time of an acceptance and a place among the contexts of the principal. The
/// context is never used, so it is evicted before those in use, and removed after a minute. A
/// replay cache on disk would cost 8 to 14 microseconds for each context and a lock for all
/// threads, and would fail when `/var/tmp` is full.
pub struct Acceptor {
    keytab: PathBuf,
    idle: Mutex<Vec<Cred>>,
}

impl Acceptor {
    /// Opens a keytab and acquires a first credential.
    ///
    /// # Errors
    /// `KeytabUnusable` if the file cannot be read, is not a keytab or has no key.
    pub fn from_keytab(path: &Path) -> Result<Self, GssError> {
        let acceptor = Self { keytab: path.to_owned(), idle: Mutex::default() };
        let cred = acceptor.acquire()?;
        acceptor.put_back(cred);
        Ok(acceptor)
    }

    /// Returns the keytab's path.
    pub fn keytab(&self) -> &Path {
        &self.keytab
    }

    /// Accepts the token of a context's initiator (the AP-REQ of RFC 4121 section 4.1) and makes
    /// the reply. Leaves out the ticket that the peer forwards.
    ///
    /// # Errors
    /// [`GssError`] names the fault of the token, of its ticket or of the key. A failure keeps no
    /// state.
    pub fn accept(&self, token: &[u8]) -> Result<Established, GssError> {
        self.accept_with(token, false)
    }

    /// As [`Acceptor::accept`], and takes the ticket that the peer forwards.
    ///
    /// # Errors
    /// As [`Acceptor::accept`].
    pub fn accept_forwarded(&self, token: &[u8]) -> Result<Established, GssError> {
        self.accept_with(token, true)
    }

    fn accept_with(&self, token: &[u8], takes_forwarded: bool) -> Result<Established, GssError> {
        if token.is_empty() {
            let text = "the token is empty".to_owned();
            return Err(GssError::MalformedToken(Status { major: major::DEFECTIVE_TOKEN, minor: 0, text }));
        }
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let cred = match idle {
            Some(cred) => cred,
            None => self.acquire()?,
        };
        let accepted = accept(&cred, token, takes_forwarded);
        self.put_back(cred);
        let accepted = accepted.map_err(as_acceptor)?;
        let (enctype, keys) = accepted.keys.keys(krb5::Role::Acceptor)?;
        Ok(Established {
            token: accepted.reply,
            principal: accepted.principal,
            delegated_through: accepted.delegated_through,
            forwarded: accepted.forwarded.map(ForwardedTicket::new),
            keys,
            enctype,
            lifetime: accepted.lifetime,
            send_sequence: accepted.keys.send_sequence(),
        })
    }

    fn acquire(&self) -> Result<Cred, GssError> {
        let path = self.keytab.to_str().ok_or_else(|| {
            let text = format!("{}: the path is not UTF-8", self.keytab.display());
            GssError::KeytabUnusable(Status { major: major::FAILURE, minor: 0, text })
        })?;
        let store = Store::default().with("keytab", &format!("FILE:{path}"))?.with("rcache", "none:")?;
        Cred::acquire(None, Usage::Accept, &store).map_err(|error| {
            if let GssError::Shortage(_) = error {
                return error;
            }
            let mut status = error.status().clone();
            if !status.text.contains(path) {
                status.text = format!("{path}: {}", status.text);
            }
            GssError::KeytabUnusable(status)
        })
    }

    fn put_back(&self, cred: Cred) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(cred);
        }
    }
}

/// Corrects the error "no credential": an acceptor that has a credential returns it for a token of
/// another mechanism, such as NTLM.
fn as_acceptor(error: GssError) -> GssError {
    match error {
        GssError::NoTicket(mut status) => {
            status.text = "a token of another mechanism than Kerberos".to_owned();
            GssError::MalformedToken(status)
        }
        other => other,
    }
}
