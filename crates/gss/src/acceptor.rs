//! The server's side.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::Established;
use crate::error::{GssError, Status, major};
use crate::ffi::{Cred, Store, Usage, accept};

/// Credentials kept for reuse, one for each thread that accepts at the same time; more are dropped.
const IDLE_MAX: usize = 64;

/// Accepts contexts with any key of a keytab.
///
/// It may be shared by threads. MIT holds a credential's mutex throughout an acceptance, so each
/// acceptance takes a credential of its own from a pool and no lock is held while it works. The
/// keytab is read anew for each context: a key added with `ktadd` counts at once.
///
/// # No replay cache
///
/// A replayed AP-REQ would let an attacker have a context accepted once more, but the context's key
/// is a fresh subkey that only the two real parties can compute: mutual authentication gives it,
/// and RPCSEC_GSS calls carry a MIC under it before anything is done (RFC 2203 section 5.3.3.3).
/// All that a replay earns is a context without use, which ages out; a cache on disk for that costs
/// 8 to 14 microseconds a context, a lock for all threads, and fails when `/var/tmp` is full.
pub struct Acceptor {
    keytab: PathBuf,
    idle: Mutex<Vec<Cred>>,
}

impl Acceptor {
    /// Opens a keytab.
    ///
    /// # Errors
    /// `KeytabUnusable` when the file cannot be read, is no keytab or has no key.
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
    /// the reply.
    ///
    /// # Errors
    /// Says what is wrong with the token, the ticket in it or the key for it; nothing is kept of a
    /// failure.
    pub fn accept(&self, token: &[u8]) -> Result<Established, GssError> {
        if token.is_empty() {
            let text = "the token is empty".to_owned();
            return Err(GssError::MalformedToken(Status { major: major::DEFECTIVE_TOKEN, minor: 0, text }));
        }
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let cred = match idle {
            Some(cred) => cred,
            None => self.acquire()?,
        };
        let accepted = accept(&cred, token);
        self.put_back(cred);
        let accepted = accepted.map_err(as_acceptor)?;
        let (enctype, keys) = accepted.keys.keys(krb5::Role::Acceptor)?;
        Ok(Established {
            token: accepted.reply,
            principal: accepted.principal,
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

/// "No credential" from an acceptor that has one says that the token is for another mechanism, such
/// as NTLM.
fn as_acceptor(error: GssError) -> GssError {
    match error {
        GssError::NoTicket(mut status) => {
            status.text = "a token of another mechanism than Kerberos".to_owned();
            GssError::MalformedToken(status)
        }
        other => other,
    }
}
