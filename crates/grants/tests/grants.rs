//! Grants, tickets and agents with a real KDC.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gss::{Acceptor, Credential, Initiator, Step};
use orthrus_grants::{
    AgentSettings, AttachedRun, GrantCallError, GrantLimits, GrantReply, GrantRequest, GrantServer,
    GrantService, GrantSubmission, MintError, NodeAgent, RunStatus, ServiceSettings, TicketMint,
    TicketSource, attach, detach,
};
use realm::{Realm, RealmOptions, in_realm};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Pid, Signal, kill_process};

const ALICE: &str = "alice@ORTHRUS.TEST";
/// Lifetime of tickets in most tests.
const LIFE: u64 = 3;
/// How long anything else may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn options() -> RealmOptions {
    RealmOptions {
        delegation: true,
        clients: vec!["n1".into(), "n2".into(), "ctl".into()],
        clock_skew: Duration::from_secs(1),
        ..RealmOptions::default()
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Waits until `found` returns something.
fn soon<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A realm with a grant service.
struct GrantSite<'a> {
    realm: &'a Realm,
    settings: ServiceSettings,
    service: Option<GrantService>,
}

impl<'a> GrantSite<'a> {
    fn start(realm: &'a Realm) -> Self {
        let settings = ServiceSettings {
            keytab: realm.grants_keytab(),
            folder: realm.dir().with_file_name("grants"),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            services: vec!["nfs/localhost".into()],
            admins: vec!["bob@ORTHRUS.TEST".into()],
            schedulers: vec!["host/ctl@ORTHRUS.TEST".into()],
            ticket_life: LIFE,
            limits: GrantLimits { per_user: 3, ..GrantLimits::default() },
        };
        let mut site = Self { realm, settings, service: None };
        site.restart();
        site
    }

    fn restart(&mut self) {
        self.service = None;
        let service = GrantService::start(self.settings.clone()).unwrap();
        self.settings.listen = service.address();
        self.service = Some(service);
    }

    fn server(&self) -> GrantServer {
        GrantServer { host: "localhost".into(), port: self.settings.listen.port() }
    }

    fn user(&self, name: &str) -> Credential {
        let cache = self.realm.dir().with_file_name(format!("cache-{name}"));
        if !cache.exists() {
            self.realm.kinit(name, &cache).unwrap();
        }
        Credential::Ccache(format!("FILE:{}", cache.display()))
    }

    fn host(&self, name: &str) -> Credential {
        Credential::Keytab {
            path: self.realm.client_keytab(),
            principal: format!("host/{name}@ORTHRUS.TEST"),
        }
    }

    fn call(&self, credential: &Credential, request: GrantRequest) -> Result<GrantReply, GrantCallError> {
        self.server().call(credential, &request)
    }

    /// Has the service refuse a request for good, and returns its words.
    fn refused(&self, credential: &Credential, request: GrantRequest) -> String {
        match self.call(credential, request.clone()) {
            Err(GrantCallError::Refused { transient: false, text }) => text,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    fn submit(&self, user: &str, job: &str, nodes: &[&str]) -> GrantReply {
        self.call(&self.user(user), submission(job, nodes)).unwrap()
    }

    fn agent(&self, node: &str) -> TestAgent {
        let folder = self.realm.dir().with_file_name(format!("agent-{node}"));
        let caches = self.realm.dir().with_file_name(format!("tmp-{node}"));
        fs::create_dir_all(&caches).unwrap();
        let (keytab, server) = (self.realm.client_keytab(), self.server());
        let principal = format!("host/{node}@ORTHRUS.TEST");
        TestAgent::start(AgentSettings { server, keytab, principal, folder, caches })
    }
}

fn submission(job: &str, nodes: &[&str]) -> GrantRequest {
    let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
    let (job, services, deadline) = (job.to_owned(), Vec::new(), now() + 600);
    GrantRequest::Submit(GrantSubmission { job, services, nodes, deadline, forwarded: false })
}

fn tickets(principal: &str, job: &str) -> GrantRequest {
    GrantRequest::Tickets { principal: principal.into(), job: job.into() }
}

fn assign(job: &str, run: &str, nodes: &[&str]) -> GrantRequest {
    let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
    GrantRequest::Assign { principal: ALICE.into(), job: job.into(), run: run.into(), nodes }
}

fn end(job: &str) -> GrantRequest {
    GrantRequest::End { principal: None, job: job.into() }
}

/// An agent on a thread.
struct TestAgent {
    settings: AgentSettings,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl TestAgent {
    fn start(settings: AgentSettings) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut agent, flag) = (NodeAgent::open(settings.clone()).unwrap(), stop.clone());
        let thread = Some(std::thread::spawn(move || agent.serve(&flag)));
        Self { settings, stop, thread }
    }

    fn attach(&self, run: &str, job: &str) -> RunStatus {
        self.attach_within(run, job, PATIENCE)
    }

    fn attach_within(&self, run: &str, job: &str, wait: Duration) -> RunStatus {
        let (uid, gid) = own_ids(&self.settings.caches);
        let (run, job, principal) = (run.into(), job.into(), ALICE.into());
        attach(&self.settings.folder, &AttachedRun { run, job, principal, uid, gid }, wait).unwrap()
    }

    fn detach(&self, run: &str) {
        detach(&self.settings.folder, &self.settings.caches, run, PATIENCE).unwrap();
    }

    fn file(&self) -> PathBuf {
        let uid = own_ids(&self.settings.caches).0;
        self.settings.caches.join(format!("krb5cc_{uid}_orthrus"))
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

impl Drop for TestAgent {
    fn drop(&mut self) {
        self.stop();
    }
}

fn own_ids(folder: &Path) -> (u32, u32) {
    let found = fs::metadata(folder).unwrap();
    (found.uid(), found.gid())
}

/// Establishes a context with the NFS server by the tickets of a file; returns the principal that
/// the server sees.
fn used(realm: &Realm, file: &Path, server: &str) -> Result<String, String> {
    let acceptor = Acceptor::from_keytab(&realm.server_keytab()).unwrap();
    let credential = Credential::Ccache(format!("FILE:{}", file.display()));
    let mut initiator = Initiator::new(server, &credential).map_err(|error| error.to_string())?;
    let Step::Send(token) = initiator.step(None).map_err(|error| error.to_string())? else { panic!() };
    Ok(acceptor.accept(&token).map_err(|error| error.to_string())?.principal)
}

fn is_ready(status: &RunStatus) -> bool {
    matches!(status, RunStatus::Ready { .. })
}

#[test]
fn tickets_are_renewed_for_as_long_as_the_grant_lasts_and_vanish_with_it() {
    in_realm("tickets_are_renewed_for_as_long_as_the_grant_lasts_and_vanish_with_it", &options(), |realm| {
        let site = GrantSite::start(realm);
        site.submit("alice", "7", &["n1"]);
        let agent = site.agent("n1");
        let status = agent.attach("7", "7");
        let RunStatus::Ready { file, ends } = status else { panic!("{status:?}") };
        assert_eq!(file, agent.file());
        assert!(ends <= now() + LIFE, "a short ticket");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        // Three lifetimes; no moment is without a valid ticket.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(3 * LIFE) {
            assert_eq!(used(realm, &file, "nfs@localhost").as_deref(), Ok(ALICE));
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(used(realm, &file, "grants@localhost").is_err(), "tickets for the granted services only");
        let copy = realm.dir().with_file_name("copy");
        fs::copy(&file, &copy).unwrap();
        let ended = Instant::now();
        site.call(&site.user("alice"), end("7")).unwrap();
        soon("the end of the grant", || (!file.exists()).then_some(()));
        assert!(ended.elapsed() < Duration::from_secs(LIFE + 1), "{:?}", ended.elapsed());
        // A thief's copy ends with its tickets.
        std::thread::sleep(Duration::from_secs(LIFE + 1).saturating_sub(ended.elapsed()));
        assert!(used(realm, &copy, "nfs@localhost").is_err());
    });
}

#[test]
fn jobs_keep_their_tickets_and_new_ones_get_some_when_the_first_kdc_is_killed() {
    // MS-SFU section 3.2.5: any KDC of the realm delegates.
    let options = RealmOptions { replicas: 1, ..options() };
    let test = "jobs_keep_their_tickets_and_new_ones_get_some_when_the_first_kdc_is_killed";
    in_realm(test, &options, |realm| {
        let mut site = GrantSite::start(realm);
        site.submit("alice", "7", &["n1"]);
        let agent = site.agent("n1");
        assert!(is_ready(&agent.attach("7", "7")));
        assert!(realm.kill_kdc(0).unwrap(), "it ran");
        // Two lifetimes: tickets of the first KDC are of no use at the end.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(2 * LIFE + 1) {
            assert_eq!(used(realm, &agent.file(), "nfs@localhost").as_deref(), Ok(ALICE));
            std::thread::sleep(Duration::from_millis(100));
        }
        // A login, a submission and a service that starts need no more than the other KDC.
        site.restart();
        site.submit("bob", "8", &["n1"]);
        assert!(matches!(
            site.call(&site.host("n1"), tickets("bob@ORTHRUS.TEST", "8")),
            Ok(GrantReply::Tickets(_))
        ));
        // Without any KDC the service says so, and the grant stays.
        assert!(realm.kill_kdc(1).unwrap(), "it ran");
        let none = site.call(&site.user("bob"), submission("9", &[]));
        assert!(none.is_err(), "{none:?}");
    });
}

#[test]
fn a_run_that_ends_takes_its_tickets_along_but_not_those_of_another_run() {
    in_realm("a_run_that_ends_takes_its_tickets_along_but_not_those_of_another_run", &options(), |realm| {
        let site = GrantSite::start(realm);
        site.submit("alice", "7", &[]);
        let mut agent = site.agent("n1");
        assert!(!is_ready(&agent.attach_within("7_1", "7", Duration::from_millis(500))), "not announced yet");
        for run in ["7_1", "7_2"] {
            site.call(&site.host("ctl"), assign("7", run, &["n1"])).unwrap();
            assert!(is_ready(&agent.attach(run, "7")));
        }
        agent.detach("7_1");
        assert_eq!(used(realm, &agent.file(), "nfs@localhost").as_deref(), Ok(ALICE));
        // A run that ends while no agent runs is cleaned up as well.
        agent.stop();
        assert!(agent.file().exists());
        agent.detach("7_2");
        assert!(!agent.file().exists());
    });
}

#[test]
fn a_stolen_node_gets_only_tickets_of_jobs_that_run_on_it() {
    in_realm("a_stolen_node_gets_only_tickets_of_jobs_that_run_on_it", &options(), |realm| {
        let site = GrantSite::start(realm);
        site.submit("alice", "7", &["n1"]);
        let (node, other) = (site.host("n1"), site.host("n2"));
        assert!(matches!(site.call(&node, tickets(ALICE, "7")), Ok(GrantReply::Tickets(_))));
        assert!(site.refused(&other, tickets(ALICE, "7")).contains("no grant"));
        assert!(site.refused(&node, tickets(ALICE, "8")).contains("no grant"));
        assert!(site.refused(&node, tickets("bob@ORTHRUS.TEST", "7")).contains("no grant"));
        // Nor does its key do anything else.
        assert!(site.refused(&node, assign("7", "7", &["n2"])).contains("no scheduler"));
        assert!(site.refused(&node, submission("9", &["n1"])).contains("only users"));
        let of_alice = GrantRequest::End { principal: Some(ALICE.into()), job: "7".into() };
        assert!(site.refused(&node, of_alice).contains("own grants"));
        let Ok(GrantReply::Grants { grants, .. }) = site.call(&node, GrantRequest::List) else { panic!() };
        assert_eq!(grants, []);
        // Neither a user nor the NFS server's key obtains tickets.
        for user in ["alice", "bob"] {
            assert!(site.refused(&site.user(user), tickets(ALICE, "7")).contains("no host"));
        }
        let (path, principal) = (realm.server_keytab(), "nfs/localhost@ORTHRUS.TEST".to_owned());
        assert!(
            site.refused(&Credential::Keytab { path, principal }, tickets(ALICE, "7")).contains("no host")
        );
        // When its run is over, the node is out, whatever its agent does.
        site.call(&site.host("ctl"), assign("8", "8", &["n1"])).unwrap();
        site.submit("alice", "8", &[]);
        assert!(site.call(&node, tickets(ALICE, "8")).is_ok());
        site.call(&site.host("ctl"), assign("8", "8", &[])).unwrap();
        site.refused(&node, tickets(ALICE, "8"));
    });
}

#[test]
fn users_see_and_end_their_own_grants_and_administrators_all() {
    in_realm("users_see_and_end_their_own_grants_and_administrators_all", &options(), |realm| {
        let site = GrantSite::start(realm);
        for job in ["1", "2", "3"] {
            site.submit("alice", job, &["n1"]);
        }
        assert!(site.refused(&site.user("alice"), submission("4", &[])).contains("you have 3 grants"));
        site.submit("bob", "1", &["n1"]);
        let count = |user: &str| match site.call(&site.user(user), GrantRequest::List) {
            Ok(GrantReply::Grants { grants, more: false }) => grants.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!((count("alice"), count("bob")), (3, 4));
        let of = |user: &str, job: &str| GrantRequest::End {
            principal: Some(format!("{user}@ORTHRUS.TEST")),
            job: job.into(),
        };
        site.refused(&site.user("alice"), of("bob", "1"));
        site.call(&site.user("bob"), of("alice", "1")).unwrap();
        site.call(&site.host("ctl"), of("alice", "2")).unwrap();
        assert_eq!((count("alice"), count("bob")), (1, 2));
        let other = GrantSubmission {
            job: "5".into(),
            services: vec!["nfs/127.0.0.1".into()],
            nodes: vec![],
            deadline: now() + 60,
            forwarded: false,
        };
        assert!(site.refused(&site.user("alice"), GrantRequest::Submit(other)).contains("not offered"));
    });
}

#[test]
fn a_submission_without_a_live_ticket_is_refused_with_the_remedy() {
    in_realm("a_submission_without_a_live_ticket_is_refused_with_the_remedy", &options(), |realm| {
        let site = GrantSite::start(realm);
        let short = realm.dir().with_file_name("short");
        realm.kinit_with("alice", &short, &realm.users_keytab(), &["-l", "1s"]).unwrap();
        std::thread::sleep(Duration::from_millis(2500));
        for cache in [&short, &realm.dir().with_file_name("none")] {
            let credential = Credential::Ccache(format!("FILE:{}", cache.display()));
            let error = site.call(&credential, submission("7", &["n1"])).unwrap_err();
            assert!(matches!(error, GrantCallError::NoTicket(_)), "{error}");
            assert!(error.to_string().contains("kinit"), "{error}");
        }
    });
}

#[test]
fn a_disabled_account_has_no_tickets_after_one_lifetime() {
    in_realm("a_disabled_account_has_no_tickets_after_one_lifetime", &options(), |realm| {
        let site = GrantSite::start(realm);
        site.submit("alice", "7", &["n1"]);
        let agent = site.agent("n1");
        assert!(is_ready(&agent.attach("7", "7")));
        realm.kadmin("modprinc -allow_tix alice").unwrap();
        let disabled = Instant::now();
        soon("the end of the tickets", || (!agent.file().exists()).then_some(()));
        assert!(disabled.elapsed() < Duration::from_secs(LIFE + 1), "{:?}", disabled.elapsed());
        let text = site.refused(&site.host("n1"), tickets(ALICE, "7"));
        assert!(text.contains("revoked"), "{text}");
        assert!(site.refused(&site.user("alice"), submission("8", &["n1"])).contains("revoked"));
        realm.kadmin("modprinc +allow_tix alice").unwrap();
        soon("tickets after the account is back", || agent.file().exists().then_some(()));
    });
}

#[test]
fn an_agent_rides_out_an_outage_and_grants_outlive_the_service() {
    in_realm("an_agent_rides_out_an_outage_and_grants_outlive_the_service", &options(), |realm| {
        let mut site = GrantSite::start(realm);
        site.submit("alice", "7", &["n1"]);
        let mut agent = site.agent("n1");
        assert!(is_ready(&agent.attach("7", "7")));
        site.service = None;
        let begin = Instant::now();
        // At least half a lifetime is left.
        while begin.elapsed() < Duration::from_millis(LIFE * 500 - 600) {
            assert_eq!(used(realm, &agent.file(), "nfs@localhost").as_deref(), Ok(ALICE));
            std::thread::sleep(Duration::from_millis(50));
        }
        // An agent that starts meanwhile keeps them.
        agent.stop();
        agent = site.agent("n1");
        soon("the end of the tickets", || (!agent.file().exists()).then_some(()));
        assert!(
            begin.elapsed() < Duration::from_secs(LIFE + 1),
            "expired tickets stay: {:?}",
            begin.elapsed()
        );
        // A damaged record and a torn one are no grants, and cost none.
        fs::write(site.settings.folder.join("grant-damaged"), "orthrus-grant-1 0\n{}\n").unwrap();
        fs::write(site.settings.folder.join(".new-grant-torn"), "orth").unwrap();
        site.restart();
        let ready = || used(realm, &agent.file(), "nfs@localhost").ok();
        assert_eq!(soon("tickets after the outage", ready), ALICE);
    });
}

#[test]
fn tickets_come_again_after_the_key_of_the_service_is_replaced() {
    in_realm("tickets_come_again_after_the_key_of_the_service_is_replaced", &options(), |realm| {
        let mut site = GrantSite::start(realm);
        site.settings.keytab = realm.dir().with_file_name("grants.keytab");
        fs::copy(realm.grants_keytab(), &site.settings.keytab).unwrap();
        site.restart();
        site.submit("alice", "7", &["n1"]);
        let agent = site.agent("n1");
        assert!(is_ready(&agent.attach("7", "7")));
        // As after a theft: the new file has no earlier key.
        let fresh = realm.dir().with_file_name("fresh.keytab");
        realm.kadmin(&format!("ktadd -k \"{}\" grants/localhost\n", fresh.display())).unwrap();
        fs::rename(&fresh, &site.settings.keytab).unwrap();
        let error = site.call(&site.user("alice"), GrantRequest::List).unwrap_err();
        assert!(matches!(error, GrantCallError::NotAccepted(_)), "{error}");
        assert!(error.to_string().contains("kdestroy"), "{error}");
        // The agent has a ticket for the earlier key as well.
        assert!(is_ready(&agent.attach("8", "7")));
    });
}

#[test]
fn a_file_of_the_user_is_never_replaced() {
    in_realm("a_file_of_the_user_is_never_replaced", &options(), |realm| {
        let site = GrantSite::start(realm);
        site.submit("alice", "7", &["n1"]);
        let agent = site.agent("n1");
        realm.kinit("alice", &agent.file()).unwrap();
        let before = fs::read(agent.file()).unwrap();
        let status = agent.attach_within("7", "7", Duration::from_secs(2));
        assert!(
            matches!(&status, RunStatus::Waiting(text) if text.contains("not of this agent")),
            "{status:?}"
        );
        agent.detach("7");
        assert_eq!(fs::read(agent.file()).unwrap(), before);
        // A link is not followed, and its target is left alone.
        let target = realm.dir().with_file_name("target");
        fs::write(&target, "precious").unwrap();
        fs::remove_file(agent.file()).unwrap();
        std::os::unix::fs::symlink(&target, agent.file()).unwrap();
        assert!(!is_ready(&agent.attach_within("7", "7", Duration::from_secs(1))));
        agent.detach("7");
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        assert!(fs::symlink_metadata(agent.file()).unwrap().is_symlink());
    });
}

#[test]
fn strangers_hold_little_and_do_not_keep_others_out() {
    in_realm("strangers_hold_little_and_do_not_keep_others_out", &options(), |realm| {
        let site = GrantSite::start(realm);
        let address = site.settings.listen;
        let idle: Vec<_> = (0..200)
            .filter_map(|number| {
                let mut stream = TcpStream::connect(address).ok()?;
                // Nothing, half a length, a large length, and noise.
                let bytes: &[u8] =
                    [&b""[..], b"\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x08GET / HT"][number % 4];
                let _ = stream.write_all(bytes);
                Some(stream)
            })
            .collect();
        // They have three seconds.
        let begin = Instant::now();
        let submitted =
            soon("a submission", || site.call(&site.user("alice"), submission("7", &["n1"])).ok());
        assert!(matches!(submitted, GrantReply::Submitted(_)));
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        drop(idle);
    });
}

#[test]
fn announcements_of_many_jobs_at_the_same_moment_all_arrive() {
    in_realm("announcements_of_many_jobs_at_the_same_moment_all_arrive", &options(), |realm| {
        let site = GrantSite::start(realm);
        let (server, controller) = (site.server(), site.host("ctl"));
        let announce = |number: usize| {
            let (job, run) = (format!("{number}"), format!("run-{number}"));
            server.call_patiently(&controller, &assign(&job, &run, &["n1"]), PATIENCE)
        };
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..48).map(|number| scope.spawn(move || announce(number))).collect();
            for call in calls {
                assert!(matches!(call.join().unwrap(), Ok(GrantReply::Done)));
            }
        });
    });
}

#[test]
fn a_call_of_a_silent_service_ends_within_its_time() {
    in_realm("a_call_of_a_silent_service_ends_within_its_time", &options(), |realm| {
        let site = GrantSite::start(realm);
        // The system accepts connections, and no program reads them.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = GrantServer { host: "localhost".into(), port: silent.local_addr().unwrap().port() };
        let begin = Instant::now();
        let called = server.call_patiently(&site.host("ctl"), &assign("7", "7", &[]), Duration::from_secs(1));
        assert!(matches!(called, Err(GrantCallError::Exchange { .. })), "{called:?}");
        // An exchange alone has twice as long.
        assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    });
}

/// Returns the first frame of a call, as anybody on the network can record it.
fn recorded(credential: &Credential) -> Vec<u8> {
    let mut initiator = Initiator::new("grants@localhost", credential).unwrap();
    let Step::Send(token) = initiator.step(None).unwrap() else { panic!() };
    [&u32::try_from(token.len()).unwrap().to_be_bytes()[..], &token].concat()
}

/// Connects from another address of the loopback device.
fn connect_from(host: u8, to: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, host], 0))).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    socket.into()
}

#[test]
fn a_recorded_token_holds_no_more_than_a_stranger() {
    // RFC 4120 section 3.2.3: without a replay cache an AP-REQ is accepted again.
    in_realm("a_recorded_token_holds_no_more_than_a_stranger", &options(), |realm| {
        let site = GrantSite::start(realm);
        let replay = |host: u8, frame: &[u8]| {
            let mut stream = connect_from(host, site.settings.listen);
            let accepted = stream.write_all(frame).and_then(|()| stream.read_exact(&mut [0; 4]));
            accepted.is_ok().then_some(stream)
        };
        let of_user = recorded(&site.user("alice"));
        let held: Vec<_> = (0..8).filter_map(|_| replay(2, &of_user)).collect();
        assert!(!held.is_empty(), "the service accepts the token");
        assert!(site.call(&site.user("alice"), GrantRequest::List).is_ok(), "no place of the user");
        let of_scheduler = recorded(&site.host("ctl"));
        let more: Vec<_> = (0..64).filter_map(|_| replay(3, &of_scheduler)).collect();
        assert!(more.len() < 32, "{} places", more.len());
        assert!(site.call(&site.user("bob"), GrantRequest::List).is_ok());
    });
}

/// A KDC that answers no request, until it is dropped.
struct SilentKdc(Pid);

impl SilentKdc {
    fn of(realm: &Realm) -> Self {
        let number = fs::read_to_string(realm.dir().join("kdc.pid")).unwrap();
        let kdc = Self(Pid::from_raw(number.trim().parse().unwrap()).unwrap());
        kill_process(kdc.0, Signal::STOP).unwrap();
        kdc
    }
}

impl Drop for SilentKdc {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

#[test]
fn a_user_with_many_exchanges_does_not_keep_others_out() {
    in_realm("a_user_with_many_exchanges_does_not_keep_others_out", &options(), |realm| {
        let site = GrantSite::start(realm);
        let (server, alice, bob) = (site.server(), site.user("alice"), site.user("bob"));
        let (node, controller) = (site.host("n1"), site.host("ctl"));
        // Callers have tickets for the service then, so that only the service needs the KDC.
        site.submit("bob", "7", &["n1"]);
        for credential in [&alice, &node, &site.host("n2"), &controller] {
            site.call(credential, GrantRequest::List).unwrap();
        }
        let is_refused = |credential: &Credential, most: &str| {
            soon(most, || match site.call(credential, GrantRequest::List) {
                Err(GrantCallError::Refused { transient: true, text }) => {
                    assert!(text.contains(most), "{text}");
                    Some(())
                }
                _ => None,
            });
        };
        std::thread::scope(|scope| {
            let kdc = SilentKdc::of(realm);
            let submit = || server.call_patiently(&alice, &submission("7", &["n1"]), PATIENCE);
            let calls: Vec<_> = (0..8).map(|_| scope.spawn(submit)).collect();
            is_refused(&alice, "8 requests");
            assert!(site.call(&bob, GrantRequest::List).is_ok());
            // A node has twice as many, and a scheduler any number.
            let fetch = || server.call_patiently(&node, &tickets("bob@ORTHRUS.TEST", "7"), PATIENCE);
            let fetches: Vec<_> = (0..16).map(|_| scope.spawn(fetch)).collect();
            is_refused(&node, "16 requests");
            assert!(site.call(&site.host("n2"), GrantRequest::List).is_ok());
            site.call(&controller, assign("7", "7", &["n2"])).unwrap();
            drop(kdc);
            for call in calls.into_iter().chain(fetches) {
                assert!(call.join().unwrap().is_ok(), "places are free again");
            }
        });
    });
}

#[test]
fn a_stolen_service_key_reaches_nfs_only_and_no_protected_user_until_it_is_changed() {
    // MS-SFU section 3.2.5.2: the KDC checks the list of services and the user's flag.
    let name = "a_stolen_service_key_reaches_nfs_only_and_no_protected_user_until_it_is_changed";
    in_realm(name, &options(), |realm| {
        let thief = TicketMint::new(&realm.grants_keytab(), "grants/localhost@ORTHRUS.TEST", realm.dir());
        let get = |user: &str, service: &str| thief.delegate(user, "ORTHRUS.TEST", &[service.to_owned()], 60);
        assert!(get("alice@ORTHRUS.TEST", "nfs/localhost").is_ok());
        for other in ["grants/localhost", "host/n1", "kadmin/admin"] {
            let error = get("alice@ORTHRUS.TEST", other).unwrap_err();
            assert!(matches!(error, MintError::NoDelegation { .. }), "{other}: {error}");
        }
        realm.kadmin("modprinc -allow_forwardable bob").unwrap();
        let error = get("bob@ORTHRUS.TEST", "nfs/localhost").unwrap_err();
        assert!(matches!(error, MintError::NoDelegation { .. }), "a protected user: {error}");
        assert!(matches!(get("nobody@ORTHRUS.TEST", "nfs/localhost"), Err(MintError::Account { .. })));
        realm.kadmin("cpw -randkey grants/localhost").unwrap();
        assert!(get("alice@ORTHRUS.TEST", "nfs/localhost").is_err(), "the key is changed");
    });
}

#[test]
fn a_stolen_store_has_names_but_neither_keys_nor_tickets() {
    in_realm("a_stolen_store_has_names_but_neither_keys_nor_tickets", &options(), |realm| {
        let mut site = GrantSite::start(realm);
        site.submit("alice", "7", &["n1"]);
        let reply = site.call(&site.host("n1"), tickets(ALICE, "7")).unwrap();
        assert!(matches!(reply, GrantReply::Tickets(_)));
        site.service = None;
        let mut files = Vec::new();
        let mut folders = vec![site.settings.folder.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                if entry.path().is_dir() { folders.push(entry.path()) } else { files.push(entry.path()) }
            }
        }
        assert_eq!(files.len(), 1, "{files:?}");
        let record = fs::read_to_string(&files[0]).unwrap();
        assert!(record.contains(r#""source":"delegation""#), "{record}");
        // The record says what the list says; a ticket or a key has hundreds of bytes more.
        assert!(record.len() < 400, "{record}");
        assert_eq!(fs::metadata(&files[0]).unwrap().mode() & 0o777, 0o600);
    });
}

#[test]
fn a_stolen_scheduler_key_reaches_only_jobs_that_have_grants() {
    in_realm("a_stolen_scheduler_key_reaches_only_jobs_that_have_grants", &options(), |realm| {
        let site = GrantSite::start(realm);
        site.submit("alice", "7", &["n1"]);
        let thief = site.host("ctl");
        site.refused(&thief, tickets(ALICE, "7"));
        for job in ["7", "8"] {
            site.call(&thief, assign(job, job, &["ctl"])).unwrap();
        }
        assert!(matches!(site.call(&thief, tickets(ALICE, "7")), Ok(GrantReply::Tickets(_))));
        assert!(site.refused(&thief, tickets(ALICE, "8")).contains("no grant"), "alice granted no job 8");
        assert!(site.refused(&thief, submission("9", &["ctl"])).contains("only users"));
        let Ok(GrantReply::Grants { grants, .. }) = site.call(&thief, GrantRequest::List) else { panic!() };
        assert_eq!(grants, []);
        // Without the right to assign, the key is that of a node.
        let mut site = site;
        site.settings.schedulers.clear();
        site.restart();
        site.refused(&thief, assign("8", "8", &["ctl"]));
    });
}

#[test]
fn without_delegation_a_renewable_ticket_serves_until_its_limit() {
    // RFC 4120 section 2.3 (renewable tickets)
    in_realm("without_delegation_a_renewable_ticket_serves_until_its_limit", &options(), |realm| {
        let site = GrantSite::start(realm);
        realm.kadmin("modprinc -ok_to_auth_as_delegate grants/localhost").unwrap();
        let short = realm.dir().with_file_name("short");
        let kinit = |options: &[&str]| {
            realm.kinit_with("alice", &short, &realm.users_keytab(), options).unwrap();
        };
        let credential = Credential::Ccache(format!("FILE:{}", short.display()));
        let GrantRequest::Submit(submission) = submission("7", &["n1"]) else { panic!() };
        let submit = |forwarded| {
            site.call(&credential, GrantRequest::Submit(GrantSubmission { forwarded, ..submission.clone() }))
        };
        // A ticket that is not forwardable leaves nothing.
        kinit(&["-F", "-l", "5s", "-r", "1h"]);
        let refused = submit(false).unwrap();
        assert!(matches!(refused, GrantReply::NoDelegation(_)), "{refused:?}");
        let refused = submit(true).unwrap_err().to_string();
        assert!(refused.contains("kinit -f"), "{refused}");
        assert_eq!(fs::read_dir(site.settings.folder.join("tickets")).unwrap().count(), 0);
        kinit(&["-f", "-l", "5s", "-r", "1h"]);
        let GrantReply::Submitted(grant) = submit(true).unwrap() else { panic!() };
        let kept =
            fs::read_dir(site.settings.folder.join("tickets")).unwrap().next().unwrap().unwrap().path();
        let klist = std::process::Command::new("klist").arg("-f").arg("-c").arg(kept).output().unwrap();
        let klist = String::from_utf8_lossy(&klist.stdout).into_owned();
        assert!(klist.lines().any(|line| line.contains("Flags: Ff")), "it is forwarded: {klist}");
        let TicketSource::Renewal(until) = grant.source else { panic!("{grant:?}") };
        assert!((3500..=3600).contains(&(until - now())), "{until}");
        fs::remove_file(&short).unwrap();
        let agent = site.agent("n1");
        assert!(is_ready(&agent.attach("7", "7")));
        // Two lifetimes of the ticket-granting ticket, which is not on the node.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(10) {
            assert_eq!(used(realm, &agent.file(), "nfs@localhost").as_deref(), Ok(ALICE));
            assert!(used(realm, &agent.file(), "grants@localhost").is_err());
            std::thread::sleep(Duration::from_millis(100));
        }
        let tickets = || fs::read_dir(site.settings.folder.join("tickets")).unwrap().count();
        assert_eq!(tickets(), 1);
        site.call(&site.user("alice"), end("7")).unwrap();
        assert_eq!(tickets(), 0, "the service forgets the ticket with the grant");
        soon("the end of the tickets", || (!agent.file().exists()).then_some(()));
    });
}
