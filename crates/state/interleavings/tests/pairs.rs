//! Pairs of operations that touch the same state, in hundreds of thread orders each. Every test
//! checks an invariant that holds in all of them. At each lock and atomic, `shuttle` chooses the
//! thread that runs next; a failure prints the seed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use nfs4::{Nfsstat4, Sessionid4, Stateid4};
use orthrus_state_interleavings::*;
use shuttle::thread;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Thread orders that one test runs.
const ORDERS: usize = 400;
const NOW: Duration = Duration::from_secs(1000);
const READ: u32 = 1;
const WRITE: u32 = 2;
const CHANNEL: ChannelAttrs = ChannelAttrs {
    header_pad_size: 0,
    request_size: 1 << 20,
    response_size: 1 << 20,
    response_cached: 2048,
    operations: 16,
    requests: 4,
};

type PairState = State<u32, u64>;

/// A server's state with two clients, both past RECLAIM_COMPLETE.
struct Scene {
    state: PairState,
    sessions: [Sessionid4; 2],
    clients: [ClientKey; 2],
}

fn caller(connection: u64) -> Caller<'static> {
    static PRINCIPAL: LazyLock<Principal> = LazyLock::new(|| Principal::new("sys:0"));
    let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    Caller { connection, address, principal: &PRINCIPAL, protection: Protection::None }
}

/// EXCHANGE_ID and CREATE_SESSION of one incarnation of a client.
fn mount(state: &PairState, number: usize, verifier: u8) -> Result<Sessionid4> {
    let (caller, mut effects) = (caller(number as u64), Effects::default());
    let owner = [b'a' + number as u8];
    let args = ExchangeId { owner: &owner, verifier: [verifier; 8], flags: 0, protect: StateProtect::None };
    let known = state.clients().exchange_id(NOW, &caller, &args, 7, &mut effects)?;
    let args = CreateSession {
        clientid: known.clientid,
        sequence: known.sequenceid,
        flags: 2,
        fore: CHANNEL,
        back: CHANNEL,
        minor_version: 1,
        callback_program: 0x4000_0000,
        callback_security: vec![CallbackSecurity::None],
    };
    let random = (number as u64) << 32 | u64::from(verifier);
    Ok(state.sessions().create_session(NOW, &caller, &args, random, &mut effects)?.sessionid)
}

impl Scene {
    fn new() -> Self {
        let boot = Boot { epoch: 1, hash_key: [7; 16], principal_key: [3; 16], prior_clients: Vec::new() };
        let state = State::new(Limits::default(), boot, NOW);
        let sessions = [0, 1].map(|number| mount(&state, number, 1).unwrap());
        let clients = sessions.map(|id| state.sessions().client_of_session(&id).unwrap());
        for client in clients {
            state.leases().reclaim_complete(NOW, client, false, &mut Effects::default()).unwrap();
        }
        Self { state, sessions, clients }
    }

    /// Opens file 1 for one of the clients.
    fn open(&self, number: usize, access: u32, deny: u32, effects: &mut Effects<u64>) -> Result<Stateid4> {
        let request = OpenRequest {
            owner: b"owner",
            file: &1,
            access,
            deny,
            claim: OpenClaim::New,
            opener: caller(number as u64),
            truncates: false,
        };
        match self.state.opens().open(NOW, self.clients[number], &request, 5, 3, effects)? {
            OpenOutcome::Opened(stateid) => Ok(stateid),
            OpenOutcome::Reopen(_) => panic!("the payload allows all access"),
        }
    }

    fn close(&self, number: usize, open: &Stateid4) -> Result<Stateid4> {
        self.state.opens().close(self.clients[number], open, &1, &mut Effects::default())
    }

    /// Locks all of file 1 for writing, under an open.
    fn lock(&self, number: usize, open: Stateid4, waits: bool) -> core::result::Result<Stateid4, LockError> {
        let locker = Locker::New { open_stateid: open, owner: b"locker" };
        let request = Lock {
            file: &1,
            mode: LockMode::Write,
            waits,
            reclaim: false,
            offset: 0,
            length: u64::MAX,
            locker,
        };
        self.state.locks().lock(NOW, self.clients[number], &request, &mut Effects::default())
    }

    /// Asks for a delegation for writing on file 1.
    fn delegate(&self, number: usize, effects: &mut Effects<u64>) -> Option<Stateid4> {
        let request = DelegationRequest {
            file: &1,
            mode: DelegationMode::Write,
            reclaim: false,
            change: 1,
            opener: caller(0).principal,
        };
        let client = self.clients[number];
        let granted = self.state.delegations().delegate(NOW, client, &request, None, 6, effects);
        granted.ok().map(|granted| granted.stateid)
    }

    fn sequence(&self, now: Duration, number: usize, sequenceid: u32) -> Result<Sequenced> {
        let args = Sequence {
            sessionid: self.sessions[number],
            sequenceid,
            slotid: 0,
            highest_slotid: 0,
            cache_this: true,
            fingerprint: sequenceid.into(),
            request_size: 200,
            operations: 2,
            reply_min: 100,
        };
        self.state.sessions().sequence(now, &caller(number as u64), &args, &mut Effects::default())
    }
}

/// Runs two operations at once in many orders, then a check of the resulting state.
fn race<S: Clone + Send + 'static, A: Send + 'static, B: Send + 'static>(
    prepare: impl Fn(&Scene) -> S + Send + Sync + 'static,
    first: impl Fn(&Scene, S) -> A + Send + Sync + 'static,
    second: impl Fn(&Scene, S) -> B + Send + Sync + 'static,
    check: impl Fn(&Scene, S, A, B) + Send + Sync + 'static,
) {
    let (first, second) = (Arc::new(first), Arc::new(second));
    let run = move || {
        let world = Arc::new(Scene::new());
        let prepared = prepare(&world);
        let other = {
            let (world, first, prepared) = (Arc::clone(&world), Arc::clone(&first), prepared.clone());
            thread::spawn(move || first(&world, prepared))
        };
        let b = second(&world, prepared.clone());
        let a = other.join().unwrap();
        check(&world, prepared, a, b);
    };
    shuttle::check_pct(run, ORDERS, 3);
}

#[test]
fn an_open_and_the_return_of_a_delegation_never_leave_both() {
    // RFC 8881 section 10.4
    race(
        |world| world.delegate(0, &mut Effects::default()).unwrap(),
        |world, delegation| {
            let returned = world.state.delegations().delegreturn(
                world.clients[0],
                &delegation,
                &1,
                &mut Effects::default(),
            );
            returned.unwrap();
        },
        |world, delegation| {
            let opened = world.open(1, WRITE, 0, &mut Effects::default());
            if opened.is_ok() {
                let access = world.state.opens().access(world.clients[0], &delegation, &1, WRITE, |_| ());
                assert!(access.is_err(), "an open beside a delegation that still allows I/O");
            }
            opened
        },
        |world, _, (), opened| {
            assert!(opened.is_ok() || opened == Err(Nfsstat4::NFS4ERR_DELAY), "{opened:?}");
            world.open(1, WRITE, 0, &mut Effects::default()).unwrap();
            assert_eq!(world.state.counts().delegations, 0);
        },
    );
}

#[test]
fn when_a_server_says_that_it_enforces_a_grace_period_nothing_is_granted_any_more() {
    // RFC 8881 section 8.4.2.1
    race(
        |_| (),
        |world, ()| {
            world.state.leases().enforce_grace();
            world.state.counts()
        },
        |world, ()| {
            let opened = world.open(0, WRITE, 0, &mut Effects::default());
            let locked = opened.map(|open| world.lock(0, open, false).is_ok());
            let delegated = world.delegate(1, &mut Effects::default());
            (locked, delegated)
        },
        |world, (), then, _| assert_eq!(world.state.counts(), then),
    );
}

#[test]
fn a_delegation_is_granted_or_another_client_opens_but_not_both() {
    // RFC 8881 section 10.4
    race(
        |_| (),
        |world, ()| world.delegate(0, &mut Effects::default()),
        |world, ()| {
            let mut effects = Effects::default();
            let opened = world.open(1, READ, 0, &mut effects);
            assert_eq!(opened.is_err(), !effects.callbacks.is_empty(), "a refusal recalls");
            opened
        },
        |_, (), delegation, opened| assert_ne!(delegation.is_some(), opened.is_ok()),
    );
}

#[test]
fn a_lock_never_outlives_the_close_of_its_open() {
    // RFC 8881 section 18.2.4
    race(
        |world| world.open(0, WRITE, 0, &mut Effects::default()).unwrap(),
        |world, open| world.close(0, &open).map(|_| ()),
        |world, open| world.lock(0, open, false),
        |world, _, closed, locked| {
            assert_eq!(closed, Ok(()));
            assert!(locked.is_ok() || locked == Err(LockError::Status(Nfsstat4::NFS4ERR_BAD_STATEID)));
            let counts = world.state.counts();
            assert_eq!((counts.opens, counts.lock_stateids, counts.ranges, counts.files), (0, 0, 0, 0));
        },
    );
}

#[test]
fn a_lease_that_runs_out_ends_the_client_or_is_renewed_by_a_request() {
    // RFC 8881 section 8.3
    let late = NOW + Duration::from_secs(61);
    race(
        |_| (),
        move |world, ()| world.state.leases().expire(late, &mut Effects::default()),
        move |world, ()| match world.sequence(late, 0, 1) {
            Ok(Sequenced::Execute(begun)) => {
                let found = world.state.sessions().client_of_session(&world.sessions[0]);
                assert_eq!(found, Ok(world.clients[0]), "its session stays while it runs");
                world.state.sessions().finish(begun.token, None);
                true
            }
            Ok(Sequenced::Replay(_)) => panic!("nothing was sent before"),
            Err(status) => {
                assert_eq!(status, Nfsstat4::NFS4ERR_BADSESSION);
                false
            }
        },
        |world, (), expired, renewed| {
            assert_eq!(expired, if renewed { 1 } else { 2 });
            assert_eq!(world.state.counts().clients, usize::from(renewed));
        },
    );
}

#[test]
fn a_session_is_destroyed_only_while_no_request_runs_on_it() {
    // RFC 8881 section 18.37.3
    race(
        |_| (),
        |world, ()| world.state.sessions().destroy_session(&caller(0), &world.sessions[0], None),
        |world, ()| match world.sequence(NOW, 0, 1) {
            Ok(Sequenced::Execute(begun)) => {
                let found = world.state.sessions().client_of_session(&world.sessions[0]);
                assert_eq!(found, Ok(world.clients[0]), "its session stays while it runs");
                world.state.sessions().finish(begun.token, None);
                Ok(())
            }
            Ok(Sequenced::Replay(_)) => panic!("nothing was sent before"),
            Err(status) => Err(status),
        },
        |world, (), destroyed, ran| {
            assert!(ran.is_ok() || (ran == Err(Nfsstat4::NFS4ERR_BADSESSION) && destroyed.is_ok()));
            assert!(destroyed.is_ok() || destroyed == Err(Nfsstat4::NFS4ERR_DELAY));
            assert_eq!(world.state.counts().sessions, if destroyed.is_ok() { 1 } else { 2 });
        },
    );
}

#[test]
fn a_client_that_restarts_takes_with_it_an_open_that_is_under_way() {
    // RFC 8881 section 18.35.4, case 5
    race(
        |_| (),
        |world, ()| mount(&world.state, 0, 2).map(|_| ()),
        |world, ()| world.open(0, WRITE, 0, &mut Effects::default()).map(|_| ()),
        |world, (), mounted, opened| {
            assert_eq!(mounted, Ok(()));
            assert!(opened.is_ok() || opened == Err(Nfsstat4::NFS4ERR_DEADSESSION), "{opened:?}");
            let counts = world.state.counts();
            assert_eq!((counts.clients, counts.opens, counts.files), (2, 0, 0));
        },
    );
}

#[test]
fn of_two_opens_that_deny_each_other_one_succeeds() {
    // RFC 8881 section 9.7
    race(
        |_| (),
        |world, ()| world.open(0, WRITE, WRITE, &mut Effects::default()).is_ok(),
        |world, ()| world.open(1, WRITE, WRITE, &mut Effects::default()).is_ok(),
        |world, (), a, b| {
            assert_ne!(a, b);
            assert_eq!(world.state.counts().opens, 1);
        },
    );
}

#[test]
fn a_lock_that_waits_is_granted_or_notified_when_the_range_is_unlocked() {
    // RFC 8881 section 20.11
    race(
        |world| {
            let mut effects = Effects::default();
            let opens = [0, 1].map(|number| world.open(number, WRITE, 0, &mut effects).unwrap());
            (world.lock(0, opens[0], false).unwrap(), opens[1])
        },
        |world, (held, _)| {
            let (client, mut effects) = (world.clients[0], Effects::default());
            world.state.locks().locku(client, &held, &1, 0, u64::MAX, &mut effects).unwrap();
            effects.callbacks
        },
        |world, (_, open)| world.lock(1, open, true),
        |_, _, callbacks, locked| {
            let notified = callbacks.iter().any(|task| matches!(task, CallbackTask::NotifyLock { .. }));
            assert_ne!(notified, locked.is_ok(), "{locked:?}");
        },
    );
}

#[test]
fn of_two_copies_of_a_request_one_runs() {
    // RFC 8881 section 2.10.6.1
    let send = |world: &Scene, ()| match world.sequence(NOW, 0, 1) {
        Ok(Sequenced::Execute(begun)) => {
            world.state.sessions().finish(begun.token, Some(b"reply"));
            true
        }
        Ok(Sequenced::Replay(reply)) => {
            assert_eq!(&*reply, b"reply");
            false
        }
        Err(status) => {
            assert_eq!(status, Nfsstat4::NFS4ERR_DELAY);
            false
        }
    };
    race(|_| (), send, send, |_, (), a, b| assert_ne!(a, b));
}

#[test]
fn a_copy_that_is_cancelled_while_it_ends_is_either_gone_or_reported() {
    // RFC 7862 sections 4.8 and 15.8
    race(
        |world| {
            let user = Principal::new("sys:0");
            let copy =
                NewCopy { file: &1, user: &user, stateids: [Stateid4::ANONYMOUS; 2], verifier: [1; 8] };
            let begun = world.state.copies().begin_copy(world.clients[0], &copy, None).unwrap();
            assert!(world.state.copies().begin_copy_piece(begun.0));
            begun
        },
        |world, (copy, _)| {
            let mut effects = Effects::default();
            world.state.copies().end_copy(copy, 10, Nfsstat4::NFS4_OK, &mut effects);
            effects.callbacks.len()
        },
        |world, (_, stateid)| {
            world.state.copies().cancel_copy(world.clients[0], &Principal::new("sys:0"), &stateid, &1)
        },
        |world, (_, stateid), reported, cancelled| {
            let again =
                world.state.copies().cancel_copy(world.clients[0], &Principal::new("sys:0"), &stateid, &1);
            match cancelled {
                Ok(()) => assert_eq!((reported, again), (0, Err(Nfsstat4::NFS4ERR_BAD_STATEID))),
                Err(Nfsstat4::NFS4ERR_DELAY) => assert_eq!((reported, again), (0, Ok(()))),
                Err(status) => assert_eq!(
                    (status, reported, again),
                    (Nfsstat4::NFS4ERR_COMPLETE_ALREADY, 1, Err(status))
                ),
            }
        },
    );
}

#[test]
fn a_delegation_that_is_late_is_revoked_or_returned_but_not_both() {
    // RFC 8881 section 10.4.6
    let late = NOW + Duration::from_secs(60);
    race(
        move |world| {
            let delegation = world.delegate(0, &mut Effects::default()).unwrap();
            assert_eq!(world.open(1, WRITE, 0, &mut Effects::default()), Err(Nfsstat4::NFS4ERR_DELAY));
            // Both leases are good beyond the time of the recall.
            for number in [0, 1] {
                let Ok(Sequenced::Execute(begun)) = world.sequence(late, number, 1) else { panic!() };
                world.state.sessions().finish(begun.token, None);
            }
            delegation
        },
        move |world, _| {
            world.state.leases().expire(late, &mut Effects::default());
        },
        |world, delegation| {
            world.state.delegations().delegreturn(world.clients[0], &delegation, &1, &mut Effects::default())
        },
        |world, delegation, (), returned| {
            let revoked = world.state.test_stateid(world.clients[0], &delegation);
            match returned {
                Ok(()) => assert_eq!(revoked, Nfsstat4::NFS4ERR_BAD_STATEID),
                Err(status) => {
                    assert_eq!((status, revoked), (Nfsstat4::NFS4ERR_DELEG_REVOKED, status));
                    world.state.free_stateid(world.clients[0], &delegation, &mut Effects::default()).unwrap();
                }
            }
            assert_eq!(world.state.counts().delegations, 0);
            world.open(1, WRITE, 0, &mut Effects::default()).unwrap();
        },
    );
}

#[test]
fn an_open_that_is_closed_while_an_administrator_revokes_it_goes_once() {
    // RFC 8881 section 15.1.5.1
    race(
        |world| world.open(0, WRITE, 0, &mut Effects::default()).unwrap(),
        |world, open| world.close(0, &open).map(|_| ()),
        |world, open| world.state.leases().revoke(open.other, &mut Effects::default()).is_ok(),
        |world, open, closed, revoked| {
            // A CLOSE that is late learns the reason.
            let late = closed == Err(Nfsstat4::NFS4ERR_ADMIN_REVOKED);
            assert!(late == revoked && (late || closed == Ok(())), "{closed:?} {revoked}");
            let tested = world.state.test_stateid(world.clients[0], &open);
            assert_eq!(tested == Nfsstat4::NFS4ERR_ADMIN_REVOKED, revoked, "{tested}");
            let counts = world.state.counts();
            assert_eq!((counts.opens, counts.files), (0, 0));
        },
    );
}
