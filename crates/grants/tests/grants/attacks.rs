//! Thieves, strangers and services that are silent: their reach, and the places that they hold.

use crate::site::{ALICE, GrantSite, PATIENCE, assign, is_ready, options, soon, submission, tickets};
use gss::{Credential, Initiator, Step};
use orthrus_grants::{
    GrantCallError, GrantReply, GrantRequest, GrantServer, MintError, RunStatus, TicketMint,
};
use realm::{Realm, in_realm};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

#[test]
fn a_stolen_node_gets_only_tickets_of_jobs_that_run_on_it() {
    in_realm("attacks::a_stolen_node_gets_only_tickets_of_jobs_that_run_on_it", &options(), |realm| {
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
fn names_in_requests_write_no_lines_of_the_log() {
    in_realm("attacks::names_in_requests_write_no_lines_of_the_log", &options(), |realm| {
        let site = GrantSite::start(realm);
        let (alice, node) = (site.user("alice"), site.host("n1"));
        let forged = "9\nINFO forged";
        let mut of_service = submission("9", &[]);
        if let GrantRequest::Submit(submission) = &mut of_service {
            submission.services = vec![format!("nfs/{forged}")];
        }
        for (caller, request) in [
            (&alice, GrantRequest::End { principal: None, job: forged.into() }),
            (&alice, of_service),
            (&node, tickets(ALICE, forged)),
            (&node, tickets(&format!("{forged}@ORTHRUS.TEST"), "9")),
        ] {
            // The service logs the text of each refusal.
            let said = site.refused(caller, request);
            assert!(said.contains("is not allowed") && !said.contains('\n'), "{said}");
        }
    });
}

#[test]
fn a_file_of_the_user_is_never_replaced() {
    in_realm("attacks::a_file_of_the_user_is_never_replaced", &options(), |realm| {
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
    in_realm("attacks::strangers_hold_little_and_do_not_keep_others_out", &options(), |realm| {
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
fn a_call_of_a_silent_service_ends_within_its_time() {
    in_realm("attacks::a_call_of_a_silent_service_ends_within_its_time", &options(), |realm| {
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
    in_realm("attacks::a_recorded_token_holds_no_more_than_a_stranger", &options(), |realm| {
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
    in_realm("attacks::a_user_with_many_exchanges_does_not_keep_others_out", &options(), |realm| {
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
    let name = "attacks::a_stolen_service_key_reaches_nfs_only_and_no_protected_user_until_it_is_changed";
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
    in_realm("attacks::a_stolen_store_has_names_but_neither_keys_nor_tickets", &options(), |realm| {
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
        // The record repeats the list; a ticket or a key has hundreds of bytes more.
        assert!(record.len() < 400, "{record}");
        assert_eq!(fs::metadata(&files[0]).unwrap().mode() & 0o777, 0o600);
    });
}

#[test]
fn a_stolen_scheduler_key_reaches_only_jobs_that_have_grants() {
    in_realm("attacks::a_stolen_scheduler_key_reaches_only_jobs_that_have_grants", &options(), |realm| {
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
