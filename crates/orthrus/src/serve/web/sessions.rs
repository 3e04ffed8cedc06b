//! Links that are good once, and the sessions of browsers that have opened one.

use server::engine::hex;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use subtle::ConstantTimeEq;

/// Links to the web page that nobody has opened yet; a further one replaces the oldest.
const WEB_LINKS_MAX: usize = 16;
/// Browsers that may see the web page at once; a further one replaces the oldest.
const WEB_SESSIONS_MAX: usize = 64;
/// How long a link to the web page is good.
const WEB_LINK_TIME_MAX: Duration = Duration::from_secs(300);
/// How long a browser may see the web page without a new link.
pub(super) const WEB_SESSION_TIME_MAX: Duration = Duration::from_secs(12 * 3600);

/// A secret number in hexadecimal.
const SECRET_LEN: usize = 32;

/// Secrets with the time when each ends.
#[derive(Default)]
struct Secrets(VecDeque<(String, Duration)>);

impl Secrets {
    fn add(&mut self, secret: String, until: Duration, max: usize) {
        if self.0.len() >= max {
            self.0.pop_front();
        }
        self.0.push_back((secret, until));
    }

    fn position(&mut self, secret: &str, now: Duration) -> Option<usize> {
        self.0.retain(|(_, until)| *until > now);
        self.0.iter().position(|(known, _)| known.as_bytes().ct_eq(secret.as_bytes()).into())
    }
}

/// The links and sessions of the web page. They end with the server.
#[derive(Default)]
pub(super) struct WebSessions(Mutex<(Secrets, Secrets)>);

impl WebSessions {
    fn lock(&self) -> MutexGuard<'_, (Secrets, Secrets)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the secret of a new link.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(super) fn link(&self, now: Duration) -> Result<String, getrandom::Error> {
        let secret = secret()?;
        self.lock().0.add(secret.clone(), now + WEB_LINK_TIME_MAX, WEB_LINKS_MAX);
        Ok(secret)
    }

    /// Exchanges the secret of a link for that of a session, once.
    pub(super) fn open(&self, link: &str, now: Duration) -> Option<String> {
        let mut secrets = self.lock();
        let at = secrets.0.position(link, now)?;
        secrets.0.0.remove(at);
        let session = secret().ok()?;
        secrets.1.add(session.clone(), now + WEB_SESSION_TIME_MAX, WEB_SESSIONS_MAX);
        Some(session)
    }

    /// Returns whether a session is good.
    pub(super) fn is_open(&self, session: &str, now: Duration) -> bool {
        self.lock().1.position(session, now).is_some()
    }
}

fn secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0; SECRET_LEN];
    getrandom::fill(&mut bytes)?;
    Ok(hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_good_once_and_for_a_while_and_a_session_until_it_ends() {
        let sessions = WebSessions::default();
        let at = Duration::from_secs;
        let link = sessions.link(at(0)).unwrap();
        assert_eq!(sessions.open("", at(1)), None);
        assert_eq!(sessions.open(&link[1..], at(1)), None);
        let session = sessions.open(&link, at(1)).unwrap();
        assert_eq!(sessions.open(&link, at(1)), None, "once");
        assert!(!sessions.is_open(&link, at(1)) && !sessions.is_open("", at(1)));
        assert!(sessions.is_open(&session, at(12 * 3600)) && !sessions.is_open(&session, at(12 * 3600 + 1)));
        let late = sessions.link(at(0)).unwrap();
        assert_eq!(sessions.open(&late, at(300)), None);
    }

    #[test]
    fn links_and_sessions_are_bounded() {
        let sessions = WebSessions::default();
        let first = sessions.link(Duration::ZERO).unwrap();
        for _ in 0..WEB_LINKS_MAX {
            sessions.link(Duration::ZERO).unwrap();
        }
        assert_eq!(sessions.open(&first, Duration::ZERO), None);
        for _ in 0..2 * WEB_SESSIONS_MAX {
            let link = sessions.link(Duration::ZERO).unwrap();
            sessions.open(&link, Duration::ZERO).unwrap();
        }
        assert_eq!(sessions.lock().1.0.len(), WEB_SESSIONS_MAX);
    }
}
