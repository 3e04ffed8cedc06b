//! Tickets in the name of users, by constrained delegation with MIT's programs.
//!
//! `kinit` gets the service's own ticket for the wanted lifetime, which bounds the lifetime of all
//! tickets that come from it. `kvno` then gets a ticket of the user for the service itself
//! (S4U2Self) and one for each NFS service with it (S4U2Proxy, MS-SFU section 3.1.5).

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cache::{TICKET_CACHE_MAX, TicketCache};
use crate::store::replace;

/// Most programs of MIT that run at a time.
pub const MINTS_MAX: usize = 8;
/// Time that a program of MIT has, including the answer of the KDC.
pub const MINT_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of a program's output that are read.
const MINT_OUTPUT_MAX: u64 = 4096;

/// The reason why there are no tickets.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    /// The KDC does not allow the delegation: for this service, or for this user.
    #[error(
        "the KDC allows no delegation of {principal} to these services: the service's key needs ok_to_auth_as_delegate and krbAllowedToDelegateTo, and the user must be allowed forwardable tickets ({said})"
    )]
    NoDelegation {
        /// The principal of the user.
        principal: String,
        /// The output of MIT's program.
        said: String,
    },
    /// The user's account is disabled or expired, or does not exist.
    #[error("the KDC refuses tickets for {principal}: {said}")]
    Account {
        /// The principal of the user.
        principal: String,
        /// The output of MIT's program.
        said: String,
    },
    /// The KDC did not answer, or a program failed for another reason.
    #[error("no tickets for {principal} now: {said}")]
    Unavailable {
        /// The principal of the user.
        principal: String,
        /// The output of MIT's program.
        said: String,
    },
    /// A file or a program could not be used.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the file or the program.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl MintError {
    /// Returns whether the same request can succeed later without a change by an administrator.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Io { .. })
    }
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> MintError {
    move |source| MintError::Io { path: path.to_owned(), source }
}

/// Gets tickets with the key of the grant service.
#[derive(Debug)]
pub struct TicketMint {
    keytab: PathBuf,
    principal: String,
    folder: PathBuf,
    running: Mutex<usize>,
    ended: Condvar,
}

impl TicketMint {
    /// Makes a mint with the key of `principal` in `keytab`. Temporary files go into `folder`,
    /// which must be private.
    pub fn new(keytab: &Path, principal: &str, folder: &Path) -> Self {
        let (running, ended) = (Mutex::new(0), Condvar::new());
        Self {
            keytab: keytab.to_owned(),
            principal: principal.to_owned(),
            folder: folder.to_owned(),
            running,
            ended,
        }
    }

    /// Gets tickets of `principal` for `services` that end in `life` seconds.
    ///
    /// # Errors
    /// [`MintError`]; nothing is kept.
    pub fn delegate(
        &self,
        principal: &str,
        realm: &str,
        services: &[String],
        life: u64,
    ) -> Result<TicketCache, MintError> {
        let _turn = self.turn(principal)?;
        let folder = private::temporary_in("mint-", &self.folder)
            .map_err(|error| io_error(&self.folder)(io::Error::other(error.to_string())))?;
        let (own, out) = (folder.path().join("own"), folder.path().join("tickets"));
        let mut kinit = Command::new("kinit");
        kinit.arg("-k").arg("-t").arg(&self.keytab).arg("-c").arg(&own);
        kinit.arg("-l").arg(format!("{life}s")).arg(&self.principal);
        run(kinit, principal)?;
        let mut kvno = Command::new("kvno");
        kvno.arg("-q").arg("-k").arg(&self.keytab).arg("-c").arg(&own).arg("--out-cache").arg(&out);
        kvno.args(["-I", principal, "-P"]);
        kvno.args(services.iter().map(|service| format!("{service}@{realm}")));
        run(kvno, principal)?;
        read(&out, principal)
    }

    /// Gets tickets for `services` with the ticket-granting ticket of a user in `file`, which is
    /// renewed first if `renew` is set. The tickets end with it.
    ///
    /// # Errors
    /// [`MintError`]; `file` is then unchanged, or renewed.
    pub fn with_ticket(
        &self,
        principal: &str,
        realm: &str,
        services: &[String],
        file: &Path,
        renew: bool,
    ) -> Result<TicketCache, MintError> {
        let _turn = self.turn(principal)?;
        let folder = private::temporary_in("mint-", &self.folder)
            .map_err(|error| io_error(&self.folder)(io::Error::other(error.to_string())))?;
        let (own, out) = (folder.path().join("own"), folder.path().join("tickets"));
        fs::copy(file, &own).map_err(io_error(file))?;
        if renew {
            let mut kinit = Command::new("kinit");
            kinit.arg("-R").arg("-c").arg(&own);
            run(kinit, principal)?;
            // As a whole: kinit begins with an empty file.
            let renewed = fs::read(&own).map_err(io_error(&own))?;
            replace(file, &renewed).map_err(io_error(file))?;
        }
        let mut kvno = Command::new("kvno");
        kvno.arg("-q").arg("-c").arg(&own).arg("--out-cache").arg(&out);
        kvno.args(services.iter().map(|service| format!("{service}@{realm}")));
        run(kvno, principal)?;
        read(&out, principal)
    }

    /// Waits until fewer than [`MINTS_MAX`] programs run.
    fn turn(&self, principal: &str) -> Result<MintTurn<'_>, MintError> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut running, waited) = self
            .ended
            .wait_timeout_while(running, MINT_TIME_MAX, |running| *running >= MINTS_MAX)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            let said = "too many requests are waiting for the KDC".to_owned();
            return Err(MintError::Unavailable { principal: principal.to_owned(), said });
        }
        *running += 1;
        Ok(MintTurn(self))
    }
}

struct MintTurn<'a>(&'a TicketMint);

impl Drop for MintTurn<'_> {
    fn drop(&mut self) {
        *self.0.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.ended.notify_one();
    }
}

fn read(path: &Path, principal: &str) -> Result<TicketCache, MintError> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(io_error(path))?;
    file.take(TICKET_CACHE_MAX as u64 + 1).read_to_end(&mut bytes).map_err(io_error(path))?;
    let cache =
        TicketCache::parse(&bytes).filter(|cache| bytes.len() <= TICKET_CACHE_MAX && cache.ends() > 0);
    cache.ok_or_else(|| {
        let said = "kvno wrote no cache with tickets".to_owned();
        MintError::Unavailable { principal: principal.to_owned(), said }
    })
}

/// Runs a program of MIT with bounded time and output.
fn run(mut command: Command, principal: &str) -> Result<(), MintError> {
    let program = PathBuf::from(command.get_program());
    command.env("LC_ALL", "C").env_remove("KRB5CCNAME").env_remove("KRB5_TRACE");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(io_error(&program))?;
    let output = child.stderr.take();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(output) = output {
            let _ = output.take(MINT_OUTPUT_MAX).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).trim().replace('\n', "; ")
    });
    let success = ended(&mut child).map_err(io_error(&program))?;
    let said = reader.join().unwrap_or_default();
    let principal = principal.to_owned();
    match success {
        Some(true) => Ok(()),
        None => {
            let said = format!("{} did not end within {} s", program.display(), MINT_TIME_MAX.as_secs());
            Err(MintError::Unavailable { principal, said })
        }
        Some(false) => Err(classify(principal, said)),
    }
}

/// Waits for a program and kills it at the end of its time; returns whether it succeeded.
fn ended(child: &mut Child) -> io::Result<Option<bool>> {
    let end = Instant::now() + MINT_TIME_MAX;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Finds the kind of an error in MIT's messages, which are those of the C locale.
fn classify(principal: String, said: String) -> MintError {
    const DELEGATION: [&str; 3] = ["can't fulfill requested option", "delegation", "not forwardable"];
    const ACCOUNT: [&str; 3] =
        ["have been revoked", "entry in database has expired", "not found in Kerberos database"];
    let has = |parts: &[&str]| parts.iter().any(|part| said.contains(part));
    if has(&DELEGATION) {
        MintError::NoDelegation { principal, said }
    } else if has(&ACCOUNT) {
        MintError::Account { principal, said }
    } else {
        MintError::Unavailable { principal, said }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_end_or_writes_without_end_is_bounded() {
        let mut chatty = Command::new("sh");
        chatty.args(["-c", "yes 1>&2 & pid=$!; sleep 0.3; kill $pid; exit 3"]);
        let Err(MintError::Unavailable { said, .. }) = run(chatty, "alice@R") else { panic!("it failed") };
        assert!(said.len() <= 2 * MINT_OUTPUT_MAX as usize);
        let missing = run(Command::new("/nonexistent/kinit"), "alice@R");
        assert!(matches!(missing, Err(MintError::Io { .. })));
    }
}
