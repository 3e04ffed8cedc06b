//! Accounts of contexts: looked up when a context is created and while it lives.

use crate::client::{Client, NONE, PRIVACY, accepted, denied, init_call};
use crate::server::{Host, token};
use identity::{Identity, Mapped, NoAccount, PrincipalError, SourceError};
use krb5::Enctype;
use orthrus_server::rpcsec::Identities;
use rpc::{Accepted, AuthStat, Denied};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ETYPE: Enctype = Enctype::Aes256CtsHmacSha384_192;

/// The interval of refreshes (`RpcsecLimits::default`), and rounds that cover all stripes.
const REFRESH: Duration = Duration::from_secs(300);
const ROUNDS: usize = 16;

/// The present answer of a directory.
#[derive(Clone, Debug)]
enum SiteAnswer {
    User(u32),
    Absent,
    Refused,
    Down,
    /// The lookup has not ended.
    Slow,
}

#[derive(Clone)]
struct TestSite(Arc<Mutex<SiteAnswer>>);

impl TestSite {
    fn new(answer: SiteAnswer) -> Self {
        Self(Arc::new(Mutex::new(answer)))
    }

    fn set(&self, answer: SiteAnswer) {
        *self.0.lock().unwrap() = answer;
    }
}

impl Identities for TestSite {
    fn resolve(&self, principal: &str, now: Duration) -> Result<Mapped, PrincipalError> {
        self.poll(principal, now).expect("no context is created while the directory is slow")
    }

    fn poll(&self, principal: &str, _: Duration) -> Option<Result<Mapped, PrincipalError>> {
        let unknown = NoAccount::Unknown(principal.to_owned());
        let down = || SourceError { what: principal.to_owned(), why: "it is down".to_owned() };
        Some(match self.0.lock().unwrap().clone() {
            SiteAnswer::User(uid) => {
                Ok(Mapped { identity: Ok(Identity { uid, gid: uid, groups: [uid].into() }), machine: false })
            }
            SiteAnswer::Absent => {
                Ok(Mapped { identity: Err(unknown), machine: principal.starts_with("host/") })
            }
            SiteAnswer::Refused => Err(PrincipalError::Refused(principal.to_owned(), unknown)),
            SiteAnswer::Down => Err(down().into()),
            SiteAnswer::Slow => return None,
        })
    }
}

/// The user that the next call of a client acts as.
fn acts_as(host: &mut Host, client: &mut Client) -> Option<u32> {
    client.exchange(host, PRIVACY, b"data");
    let [call] = &host.seen()[..] else { panic!("one call") };
    assert_eq!(call.gids, Vec::from_iter(call.uid), "user and groups belong together");
    call.uid
}

fn rounds(host: &Host) {
    (0..ROUNDS).for_each(|_| host.server.housekeeping());
}

#[test]
fn a_directory_that_is_down_delays_the_context_and_maps_no_user_to_nobody() // RFC 5531 section 9
{
    let site = TestSite::new(SiteAnswer::Down);
    let mut host = Host::with_identities(site.clone());
    let reply = host.answer(init_call(&token(ETYPE, "alice@TEST"))).unwrap();
    assert_eq!(accepted(&reply).1, Accepted::SystemErr);
    assert_eq!((host.count("contexts_delayed"), host.count("contexts_refused")), (1, 0));
    assert!(host.server.rpcsec().unwrap().contexts().is_empty());
    site.set(SiteAnswer::User(1000));
    let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
    assert_eq!(acts_as(&mut host, &mut client), Some(1000));
}

#[test]
fn the_identity_of_a_live_context_is_refreshed() {
    let site = TestSite::new(SiteAnswer::Absent);
    let mut host = Host::with_identities(site.clone());
    let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
    assert_eq!(acts_as(&mut host, &mut client), None);
    site.set(SiteAnswer::User(1000));
    host.advance(REFRESH / 2);
    rounds(&host);
    assert_eq!(acts_as(&mut host, &mut client), None, "it is not due yet");
    host.advance(REFRESH / 2);
    rounds(&host);
    assert_eq!(acts_as(&mut host, &mut client), Some(1000));
    assert_eq!(host.count("identities_changed"), 1);
    site.set(SiteAnswer::User(1001));
    host.advance(REFRESH / 2);
    acts_as(&mut host, &mut client);
    host.advance(REFRESH / 2);
    rounds(&host);
    assert_eq!(acts_as(&mut host, &mut client), Some(1001), "again and again");
}

#[test]
fn a_reload_refreshes_all_contexts_in_one_round() {
    let site = TestSite::new(SiteAnswer::User(1000));
    let mut host = Host::with_identities(site.clone());
    let mut clients: Vec<_> = (0..50).map(|_| Client::establish(&mut host, ETYPE, "alice@TEST")).collect();
    site.set(SiteAnswer::Slow);
    host.server.rpcsec().unwrap().contexts().refresh_all();
    host.server.housekeeping();
    assert!(clients.iter_mut().all(|client| acts_as(&mut host, client) == Some(1000)), "nothing waits");
    site.set(SiteAnswer::User(1001));
    host.server.housekeeping();
    assert!(clients.iter_mut().all(|client| acts_as(&mut host, client) == Some(1001)));
    assert_eq!(host.count("identities_changed"), 50);
}

#[test]
fn a_directory_that_is_down_leaves_live_contexts_as_they_are() {
    let site = TestSite::new(SiteAnswer::User(1000));
    let mut host = Host::with_identities(site.clone());
    let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
    site.set(SiteAnswer::Down);
    host.server.rpcsec().unwrap().contexts().refresh_all();
    host.server.housekeeping();
    assert_eq!(acts_as(&mut host, &mut client), Some(1000));
    assert_eq!((host.count("identities_kept"), host.count("identities_changed")), (1, 0));
}

#[test]
fn a_context_of_a_user_that_is_refused_by_now_ends() {
    let site = TestSite::new(SiteAnswer::User(1000));
    let mut host = Host::with_identities(site.clone());
    let mut client = Client::establish(&mut host, ETYPE, "alice@TEST");
    site.set(SiteAnswer::Refused);
    host.server.rpcsec().unwrap().contexts().refresh_all();
    host.server.housekeeping();
    let record = client.call(NONE, b"data");
    let reply = host.answer(record).unwrap();
    assert_eq!(denied(&reply), Denied::Auth(AuthStat::RPCSEC_GSS_CREDPROBLEM));
}

#[test]
fn contexts_of_users_without_an_account_are_counted_and_those_of_machines_are_not() {
    let mut host = Host::with_identities(TestSite::new(SiteAnswer::Absent));
    for principal in ["carol@TEST", "carol@TEST", "host/client@TEST"] {
        Client::establish(&mut host, ETYPE, principal);
    }
    assert_eq!(host.count("contexts_of_nobody"), 2);
}
