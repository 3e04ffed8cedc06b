//! Several servers with the same directory: connections kept for reuse, and failover.

use crate::tls::Certificates;
use crate::{Bind, LdapConfigError, LdapSettings, Unusable};
use identity::SourceError;
use ldap3::{LdapConn, LdapConnSettings, LdapError};
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Idle connections kept for each server.
const IDLE_CONNECTIONS_MAX: usize = 8;
/// Longest time without use of an idle connection. Firewalls and load balancers forget a silent one
/// after some minutes without a word, and the next lookup over it would wait in vain.
const IDLE_TIME_MAX: Duration = Duration::from_secs(60);
/// Time after which a server that has failed is tried before the others again.
const RETRY_TIME: Duration = Duration::from_secs(30);
/// Timeouts that a search with many entries may take.
const SEARCH_TIMEOUTS: u32 = 10;

/// The servers of a directory.
pub(crate) struct Servers {
    servers: Vec<LdapServer>,
    starttls: bool,
    /// `None` if no server is reached by TLS.
    certificates: Option<Certificates>,
    bind: Bind,
    timeout: Duration,
}

struct LdapServer {
    url: String,
    state: Mutex<ServerState>,
}

#[derive(Default)]
struct ServerState {
    idle: IdlePool<LdapConnection>,
    /// The end of the time in which other servers are preferred.
    suspect_until: Option<Instant>,
}

/// Connections without a lookup, each with the time of its last one, the latest at the end.
struct IdlePool<C>(Vec<(C, Instant)>);

impl<C> Default for IdlePool<C> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<C> IdlePool<C> {
    /// Takes the connection that was used last, and drops those that have been idle for too long.
    fn take(&mut self, now: Instant) -> Option<C> {
        self.0.retain(|(_, used)| now.saturating_duration_since(*used) < IDLE_TIME_MAX);
        self.0.pop().map(|(connection, _)| connection)
    }

    /// Keeps a connection, unless there are enough.
    fn put(&mut self, connection: C, now: Instant) {
        if self.0.len() < IDLE_CONNECTIONS_MAX {
            self.0.push((connection, now));
        }
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// A connection to one server.
pub(crate) struct LdapConnection {
    ldap: LdapConn,
    timeout: Duration,
}

impl LdapConnection {
    /// Returns the connection for one operation, which ends after the timeout. A search ends when
    /// no entry arrives for that time.
    pub(crate) fn limited(&mut self) -> &mut LdapConn {
        self.ldap.with_timeout(self.timeout)
    }

    /// Returns the time for a search with all of its entries.
    pub(crate) fn search_time_max(&self) -> Duration {
        self.timeout.saturating_mul(SEARCH_TIMEOUTS)
    }
}

impl LdapServer {
    /// Returns whether other servers come first, because this one has failed. After the pause one
    /// lookup tries it, and the others use it again once it has answered: a server that is still
    /// silent makes a single lookup late.
    fn is_suspect(&self, now: Instant) -> bool {
        let mut state = self.state();
        let Some(until) = state.suspect_until else { return false };
        if now >= until {
            state.suspect_until = Some(now + RETRY_TIME);
        }
        now < until
    }

    fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Servers {
    /// Checks the settings and reads the certificates.
    pub(crate) fn open(settings: LdapSettings) -> Result<Self, LdapConfigError> {
        if settings.servers.is_empty() {
            return Err(LdapConfigError::NoServer);
        }
        for url in &settings.servers {
            let (scheme, rest) = url.split_once("://").unwrap_or_default();
            if !["ldap", "ldaps", "ldapi"].contains(&scheme) || rest.is_empty() {
                return Err(LdapConfigError::Url(url.clone()));
            }
            if scheme == "ldap" && !settings.starttls && !settings.insecure {
                return Err(LdapConfigError::Plaintext(url.clone()));
            }
        }
        if let Bind::Simple { secret, .. } = &settings.bind {
            let file = |source| LdapConfigError::File { path: secret.clone(), source };
            if std::fs::metadata(secret).map_err(file)?.mode() & 0o007 != 0 {
                return Err(LdapConfigError::Readable(secret.clone()));
            }
            std::fs::read(secret).map_err(file)?;
        }
        let by_tls = settings.starttls || settings.servers.iter().any(|url| url.starts_with("ldaps:"));
        let is_needed =
            by_tls || settings.ca.is_some() || settings.certificate.is_some() || settings.key.is_some();
        let certificates = is_needed.then(|| Certificates::open(&settings)).transpose()?;
        let LdapSettings { servers, starttls, bind, timeout, .. } = settings;
        let server = |url| LdapServer { url, state: Mutex::default() };
        Ok(Self { servers: servers.into_iter().map(server).collect(), starttls, certificates, bind, timeout })
    }

    /// Runs a query at the first server that answers. Servers that have failed lately come last.
    pub(crate) fn with<T>(
        &self,
        what: &str,
        run: impl Fn(&mut LdapConnection) -> Result<T, Unusable>,
    ) -> Result<T, SourceError> {
        let now = Instant::now();
        let mut order: Vec<&LdapServer> = self.servers.iter().collect();
        order.sort_by_cached_key(|server| server.is_suspect(now));
        let mut failures = Vec::new();
        for server in order {
            match self.ask(server, &run) {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    let remedy = remedy(&failure, &self.bind).map(|remedy| format!(" ({remedy})"));
                    failures.push(format!("{}: {failure}{}", server.url, remedy.unwrap_or_default()));
                }
            }
        }
        Err(SourceError { what: what.to_owned(), why: failures.join("; ") })
    }

    /// Runs a query at one server, first over an idle connection. The server may have closed that
    /// one, and then a new one is tried.
    fn ask<T>(
        &self,
        server: &LdapServer,
        run: &impl Fn(&mut LdapConnection) -> Result<T, Unusable>,
    ) -> Result<T, Unusable> {
        let idle = server.state().idle.take(Instant::now());
        if let Some(mut connection) = idle {
            match run(&mut connection) {
                Ok(answer) => return Ok(self.keep(server, connection, answer)),
                Err(failure @ (Unusable::Ldap(LdapError::Timeout { .. }) | Unusable::Late(_))) => {
                    return Err(self.suspect(server, failure));
                }
                Err(Unusable::Ldap(_)) => server.state().idle.clear(),
                Err(failure) => return Err(failure),
            }
        }
        let answer = self.connect(server).and_then(|mut connection| {
            run(&mut connection).map(|answer| self.keep(server, connection, answer))
        });
        answer.map_err(|failure| self.suspect(server, failure))
    }

    fn keep<T>(&self, server: &LdapServer, connection: LdapConnection, answer: T) -> T {
        let mut state = server.state();
        state.suspect_until = None;
        state.idle.put(connection, Instant::now());
        answer
    }

    fn suspect(&self, server: &LdapServer, failure: Unusable) -> Unusable {
        let mut state = server.state();
        state.idle.clear();
        state.suspect_until = Some(Instant::now() + RETRY_TIME);
        failure
    }

    /// Connects to a server. Certificates that have been renewed are tried after a failure.
    fn connect(&self, server: &LdapServer) -> Result<LdapConnection, Unusable> {
        match self.try_connect(server) {
            Err(Unusable::Ldap(_)) if self.certificates.as_ref().is_some_and(Certificates::refresh) => {
                self.try_connect(server)
            }
            connected => connected,
        }
    }

    fn try_connect(&self, server: &LdapServer) -> Result<LdapConnection, Unusable> {
        let starttls = self.starttls && server.url.starts_with("ldap://");
        let mut settings = LdapConnSettings::new().set_conn_timeout(self.timeout).set_starttls(starttls);
        if let Some(certificates) = &self.certificates {
            settings = settings.set_config(certificates.config());
        }
        let ldap = LdapConn::with_settings(settings, &server.url)?;
        let mut connection = LdapConnection { ldap, timeout: self.timeout };
        match &self.bind {
            Bind::Anonymous => {}
            Bind::Simple { dn, secret } => {
                connection.limited().simple_bind(dn, &password(secret)?)?.success()?;
            }
            Bind::External => {
                connection.limited().sasl_external_bind()?.success()?;
            }
        }
        Ok(connection)
    }
}

/// Returns the remedy for a failure of the way to a directory.
fn remedy(failure: &Unusable, bind: &Bind) -> Option<&'static str> {
    /// Results of RFC 4511 appendix A; Active Directory answers anonymous searches with the first.
    const OPERATIONS_ERROR: u32 = 1;
    const STRONGER_AUTH_REQUIRED: u32 = 8;
    const INVALID_CREDENTIALS: u32 = 49;
    let Unusable::Ldap(error) = failure else { return None };
    match (error, bind) {
        (LdapError::LdapResult { result }, bind) => match (result.rc, bind) {
            (STRONGER_AUTH_REQUIRED, _) => Some("the server demands TLS: use ldaps:// or starttls = true"),
            (OPERATIONS_ERROR, Bind::Anonymous) => Some("the server demands bind_dn and secret"),
            (INVALID_CREDENTIALS, Bind::Simple { .. }) => Some("bind_dn or the password in secret is wrong"),
            _ => None,
        },
        (error, _) if error.to_string().contains("not valid for") => {
            Some("the certificate must have the host of the URL as a subjectAltName")
        }
        _ => None,
    }
}

/// Reads a password. An empty one would bind as nobody (RFC 4513 section 5.1.2).
fn password(path: &Path) -> Result<String, Unusable> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| Unusable::Local(format!("{}: {error}", path.display())))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    match text {
        "" => Err(Unusable::Local(format!("{} is empty", path.display()))),
        text => Ok(text.to_owned()),
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls: Vec<_> = self.servers.iter().map(|server| &*server.url).collect();
        f.write_str(&urls.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldap3::LdapResult;

    #[test]
    fn after_the_pause_one_lookup_tries_a_server_that_has_failed() {
        let server = LdapServer { url: String::new(), state: Mutex::default() };
        let mut now = Instant::now();
        assert!(!server.is_suspect(now));
        server.state().suspect_until = Some(now + RETRY_TIME);
        for _ in 0..3 {
            assert!(server.is_suspect(now));
            now += RETRY_TIME;
            let tried = (0..8).filter(|_| !server.is_suspect(now)).count();
            assert_eq!(tried, 1, "the others prefer another server");
        }
    }

    #[test]
    fn a_connection_that_was_idle_for_too_long_is_not_used_again() {
        let (mut idle, begin) = (IdlePool::default(), Instant::now());
        idle.put("first", begin);
        idle.put("second", begin + IDLE_TIME_MAX / 2);
        let later = begin + IDLE_TIME_MAX;
        assert_eq!((idle.take(later), idle.take(later)), (Some("second"), None));
        (0..20).for_each(|_| idle.put("more", later));
        assert_eq!(idle.0.len(), IDLE_CONNECTIONS_MAX);
        assert_eq!(idle.take(later + IDLE_TIME_MAX), None);
    }

    #[test]
    fn a_result_of_the_server_has_its_remedy() {
        let of = |rc, bind: &Bind| {
            let text = String::new();
            let result = LdapResult { rc, matched: String::new(), text, refs: Vec::new(), ctrls: Vec::new() };
            remedy(&Unusable::Ldap(LdapError::from(result)), bind).unwrap_or_default()
        };
        let simple = Bind::Simple { dn: "cn=x".to_owned(), secret: "/secret".into() };
        assert!(of(8, &simple).contains("starttls") && of(49, &simple).contains("password"));
        assert!(of(1, &Bind::Anonymous).contains("bind_dn"));
        assert_eq!((of(1, &simple), of(49, &Bind::External), of(32, &simple)), ("", "", ""));
    }
}
