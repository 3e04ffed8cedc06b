//! Several threads at once. Each test checks an invariant that holds in any order; at the end the
//! tables agree with each other.

use super::checks::check_counts;
use super::shared::TestState;
use super::world::*;
use crate::*;
use nfs4::{Nfsstat4, Stateid4};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

const THREADS: usize = 4;
const ROUNDS: usize = 400;

/// Runs the same on each of several threads.
#[expect(clippy::disallowed_methods, reason = "tests may start threads")]
fn on_threads(work: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for number in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(number));
        }
    });
}

fn sequence(state: &TestState, now: Duration, client: &TestClient, args: &Sequence) -> Result<Sequenced> {
    state.sessions().sequence(now, &client.caller(), args, &mut Effects::default())
}

fn open(state: &TestState, client: ClientKey, owner: &[u8], share: (u32, u32)) -> Result<Stateid4> {
    let request = OpenRequest {
        owner,
        file: &1,
        access: share.0,
        deny: share.1,
        claim: OpenClaim::New,
        opener: anyone(),
        truncates: false,
    };
    match state.opens().open(Duration::from_secs(1000), client, &request, 7, 3, &mut Effects::default())? {
        OpenOutcome::Opened(stateid) => Ok(stateid),
        OpenOutcome::Reopen(_) => panic!("the payload has all access"),
    }
}

fn close(state: &TestState, client: ClientKey, stateid: &Stateid4) -> usize {
    let mut effects = Effects::default();
    state.opens().close(client, &Stateid4 { seqid: 0, ..*stateid }, &1, &mut effects).unwrap();
    effects.closed.len()
}

#[test]
fn of_many_copies_of_a_request_one_runs_and_all_others_wait_or_get_its_reply() {
    // RFC 8881 section 2.10.6.1
    let mut world = World::new();
    let client = world.ready("a");
    let ran: Vec<AtomicUsize> = (0..=ROUNDS).map(|_| AtomicUsize::new(0)).collect();
    let (state, now) = (world.shared(), world.now);
    on_threads(|_| {
        for (sequenceid, ran) in (0u32..).zip(&ran).skip(1) {
            let args = Sequence { sequenceid, fingerprint: sequenceid.into(), ..client.args() };
            loop {
                match sequence(state, now, &client, &args) {
                    Ok(Sequenced::Execute(begun)) => {
                        assert_eq!(ran.fetch_add(1, SeqCst), 0, "it runs once");
                        state.sessions().finish(begun.token, Some(&sequenceid.to_be_bytes()));
                        break;
                    }
                    Ok(Sequenced::Replay(reply)) => {
                        assert_eq!((&*reply, ran.load(SeqCst)), (&sequenceid.to_be_bytes()[..], 1));
                        break;
                    }
                    Err(Nfsstat4::NFS4ERR_DELAY) => thread::yield_now(),
                    // The others are ahead.
                    Err(Nfsstat4::NFS4ERR_SEQ_MISORDERED) => break,
                    Err(status) => panic!("{status}"),
                }
            }
        }
    });
    assert!(ran.iter().skip(1).all(|ran| ran.load(SeqCst) == 1));
    check_counts(state);
}

#[test]
fn a_session_goes_only_when_nothing_runs_on_it_and_lets_nothing_begin_then() {
    // RFC 8881 section 18.37.3
    for _ in 0..20 {
        let mut world = World::new();
        let client = world.ready("a");
        let (running, gone) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (state, now) = (world.shared(), world.now);
        on_threads(|number| {
            for round in 1..=ROUNDS {
                if number == 0 {
                    let destroyed =
                        state.sessions().destroy_session(&client.caller(), &client.sessionid, None);
                    if destroyed.is_ok() {
                        gone.store(true, SeqCst);
                        assert_eq!(running.load(SeqCst), 0);
                        return;
                    }
                    assert_eq!(destroyed, Err(Nfsstat4::NFS4ERR_DELAY));
                    continue;
                }
                let slotid = number as u32;
                let args = Sequence { slotid, highest_slotid: 9, sequenceid: round as u32, ..client.args() };
                match sequence(state, now, &client, &args) {
                    Ok(Sequenced::Execute(begun)) => {
                        assert!(!gone.load(SeqCst));
                        running.fetch_add(1, SeqCst);
                        running.fetch_sub(1, SeqCst);
                        state.sessions().finish(begun.token, None);
                    }
                    other => assert_eq!(other.unwrap_err(), Nfsstat4::NFS4ERR_BADSESSION),
                }
            }
        });
        check_counts(state);
    }
}

#[test]
fn a_lease_either_runs_out_or_is_renewed() {
    // RFC 8881 section 8.3
    for _ in 0..50 {
        let mut world = World::new();
        let client = world.ready("a");
        let (state, now) = (world.shared(), world.now);
        let (renewed, over) = (now + Duration::from_secs(30), now + Duration::from_secs(60));
        let alive = AtomicBool::new(false);
        on_threads(|number| {
            for sequenceid in 1..=20 {
                if number == 0 {
                    state.leases().expire(over, &mut Effects::default());
                    continue;
                }
                let was_alive = alive.load(SeqCst);
                let slotid = number as u32;
                let args = Sequence { slotid, highest_slotid: 9, sequenceid, ..client.args() };
                match sequence(state, renewed, &client, &args) {
                    Ok(Sequenced::Execute(begun)) => {
                        // At no time does it lose its state.
                        state.leases().expire(over, &mut Effects::default());
                        assert!(open(state, begun.client, b"o", (1, 0)).is_ok());
                        state.sessions().finish(begun.token, None);
                        alive.store(true, SeqCst);
                    }
                    other => {
                        assert_eq!(other.unwrap_err(), Nfsstat4::NFS4ERR_BADSESSION);
                        assert!(!was_alive, "its lease was renewed");
                        return;
                    }
                }
            }
        });
        check_counts(state);
    }
}

#[test]
fn two_owners_never_hold_an_access_that_one_of_them_denies() {
    // RFC 8881 section 9.7
    let mut world = World::new();
    let clients: Vec<TestClient> = (0..THREADS).map(|i| world.ready(&format!("client {i}"))).collect();
    let keys: Vec<ClientKey> = clients.iter().map(|client| world.key(client)).collect();
    let (holders, won, closed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let state = world.shared();
    on_threads(|number| {
        for _ in 0..ROUNDS {
            match open(state, keys[number], b"o", (3, 3)) {
                Ok(stateid) => {
                    assert_eq!(holders.fetch_add(1, SeqCst), 0);
                    won.fetch_add(1, SeqCst);
                    let access = state.opens().access(keys[number], &stateid, &1, 3, |payload| *payload);
                    assert_eq!(access, Ok(7));
                    holders.fetch_sub(1, SeqCst);
                    closed.fetch_add(close(state, keys[number], &stateid), SeqCst);
                    let access = state.opens().access(keys[number], &stateid, &1, 3, |payload| *payload);
                    assert_eq!(access, Err(Nfsstat4::NFS4ERR_BAD_STATEID));
                }
                Err(status) => assert_eq!(status, Nfsstat4::NFS4ERR_SHARE_DENIED),
            }
        }
    });
    assert_eq!(won.load(SeqCst), closed.load(SeqCst), "every payload is given back once");
    assert_eq!(state.counts().files, 0);
    check_counts(state);
}

#[test]
fn two_owners_never_hold_a_write_lock_on_one_byte() {
    // RFC 8881 section 9.1
    let mut world = World::new();
    let clients: Vec<TestClient> = (0..2).map(|i| world.ready(&format!("client {i}"))).collect();
    let keys: Vec<ClientKey> = clients.iter().map(|client| world.key(client)).collect();
    let holders: Vec<AtomicUsize> = (0..4).map(|_| AtomicUsize::new(0)).collect();
    let (state, now) = (world.shared(), world.now);
    on_threads(|number| {
        // Two threads for each client, each with lock owners of its own; every other round begins
        // with OPEN.
        let client = keys[number % 2];
        let name = [number as u8];
        for round in 0..ROUNDS {
            let open = open(state, client, &name, (3, 0)).unwrap();
            let byte = (round + number) % holders.len();
            let locker = Locker::New { open_stateid: open, owner: &name };
            let range = (byte as u64, 1);
            let lock = Lock {
                file: &1,
                mode: LockMode::Write,
                waits: true,
                reclaim: false,
                offset: range.0,
                length: range.1,
                locker,
            };
            match state.locks().lock(now, client, &lock, &mut Effects::default()) {
                Ok(stateid) => {
                    assert_eq!(holders[byte].fetch_add(1, SeqCst), 0);
                    thread::yield_now();
                    holders[byte].fetch_sub(1, SeqCst);
                    if round % 2 == 0 {
                        let unlocked = state
                            .locks()
                            .locku(client, &stateid, &1, range.0, range.1, &mut Effects::default())
                            .unwrap();
                        state.free_stateid(client, &unlocked, &mut Effects::default()).unwrap();
                    }
                }
                Err(LockError::Denied(denied)) => assert_ne!(denied.owner, name),
                Err(other) => panic!("{other:?}"),
            }
            close(state, client, &open);
        }
    });
    assert_eq!((state.counts().opens, state.counts().ranges), (0, 0));
    check_counts(state);
}

#[test]
fn clients_that_come_and_go_leave_nothing_behind() {
    // RFC 8881 sections 18.35.4 and 18.36.4
    let world = World::new();
    let (state, now) = (world.shared(), world.now);
    on_threads(|number| {
        // Two threads fight for each client owner, with verifiers of their own.
        let mut client = TestClient::new(&format!("client {}", number % 2));
        client.verifier = [number as u8; 8];
        for round in 0..ROUNDS / 4 {
            let mut effects = Effects::default();
            let args = ExchangeId {
                owner: &client.name,
                verifier: client.verifier,
                flags: 0,
                protect: client.protect,
            };
            let random = (number * ROUNDS + round) as u64;
            let known =
                state.clients().exchange_id(now, &client.caller(), &args, random, &mut effects).unwrap();
            (client.clientid, client.sequenceid) = (known.clientid, known.sequenceid);
            let args = client.create_args();
            let created = state.sessions().create_session(now, &client.caller(), &args, random, &mut effects);
            let Ok(created) = created else { continue };
            client.sessionid = created.sessionid;
            let args = Sequence { sequenceid: 1, ..client.args() };
            if let Ok(Sequenced::Execute(begun)) = sequence(state, now, &client, &args) {
                let _ = state.leases().reclaim_complete(now, begun.client, false, &mut effects);
                if let Ok(stateid) = open(state, begun.client, b"o", (3, 0)) {
                    let locker = Locker::New { open_stateid: stateid, owner: b"l" };
                    let lock = Lock {
                        file: &1,
                        mode: LockMode::Write,
                        waits: true,
                        reclaim: false,
                        offset: 0,
                        length: 9,
                        locker,
                    };
                    let _ = state.locks().lock(now, begun.client, &lock, &mut Effects::default());
                }
                state.sessions().finish(begun.token, Some(b"reply"));
            }
        }
    });
    state.take_effects();
    check_counts(state);
    let late = now + Duration::from_secs(1000) + Limits::default().courtesy_max;
    let mut effects = Effects::default();
    state.leases().expire(late, &mut effects);
    check_counts(state);
    assert_eq!(state.counts(), Counts::default());
}

#[test]
fn a_holder_of_a_write_delegation_is_alone_with_the_file() {
    // RFC 8881 section 10.4
    let mut world = World::new();
    let ready = |n| {
        let client = world.ready(&format!("c{n}"));
        world.key(&client)
    };
    let clients: Vec<ClientKey> = (0..THREADS).map(ready).collect();
    let (state, begun, granted) = (world.shared(), AtomicUsize::new(0), AtomicUsize::new(0));
    on_threads(|number| {
        let client = clients[number];
        for round in 0..ROUNDS as u64 {
            // Start late enough that the conflicts of one round have ended in the next.
            let now = Duration::from_secs(1000 + 31 * round);
            let mut effects = Effects::default();
            let request = OpenRequest {
                owner: b"o",
                file: &1,
                access: 3,
                deny: 0,
                claim: OpenClaim::New,
                opener: anyone(),
                truncates: false,
            };
            let Ok(OpenOutcome::Opened(open)) = state.opens().open(now, client, &request, 7, 3, &mut effects)
            else {
                thread::yield_now();
                continue;
            };
            begun.fetch_add(1, SeqCst);
            let request = DelegationRequest {
                file: &1,
                mode: DelegationMode::Write,
                reclaim: false,
                change: 0,
                opener: anyone().principal,
            };
            if let Ok(delegated) = state.delegations().delegate(now, client, &request, None, 8, &mut effects)
            {
                granted.fetch_add(1, SeqCst);
                assert_eq!(begun.load(SeqCst), 1, "nobody else has it open");
                thread::yield_now();
                assert_eq!(begun.load(SeqCst), 1, "and nobody else opens it");
                assert_eq!(
                    state.opens().access(client, &delegated.stateid, &1, 3, |payload| *payload),
                    Ok(8)
                );
                state.delegations().delegreturn(client, &delegated.stateid, &1, &mut effects).unwrap();
            }
            begun.fetch_sub(1, SeqCst);
            state.opens().close(client, &open, &1, &mut effects).unwrap();
        }
    });
    assert!(granted.load(SeqCst) > 0);
    check_counts(state);
    assert_eq!((state.counts().delegations, state.counts().files), (0, 0));
}
