//! AUTH_SYS callers with the groups of the server's accounts (RFC 5531 appendix A has room for 16).

use crate::client::{COMPOUND, NULL, accepted, encoded, plain_call};
use crate::server::{CONNECTION, Echo, Host};
use crate::waiting::{Elsewhere, SlowNames, execute_and_sync};
use identity::{ANONYMOUS_ID, Identity, IdentitySource, Mapper, Rules, SourceError, StaticSource, Wait};
use orthrus_server::dispatch::{Action, DeferredCall, DeferredOutcome, ReplySink};
use rpc::{AuthSys, ConnectionId, OpaqueAuth};
use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// The lane of calls that wait for the name service.
const NAMES: u32 = u32::MAX;

fn call(target: (u32, u32, u32), uid: u32, gid: u32) -> Vec<u8> {
    call_with(target, uid, gid, b"args")
}

fn call_with(target: (u32, u32, u32), uid: u32, gid: u32, args: &[u8]) -> Vec<u8> {
    let body = encoded(&AuthSys::new(77, b"host", uid, gid, &[0, 4]));
    plain_call(1, target, &OpaqueAuth::sys(&body), &OpaqueAuth::NONE, args)
}

fn groups() -> Vec<u32> {
    (2000..4000).collect()
}

/// alice has 2,000 groups; the directory may be down.
#[derive(Clone, Default)]
struct GroupDirectory {
    down: Arc<AtomicBool>,
    lookups: Arc<AtomicUsize>,
}

impl GroupDirectory {
    fn ask<T>(&self, ask: impl FnOnce(&StaticSource) -> T) -> Result<T, SourceError> {
        self.lookups.fetch_add(1, SeqCst);
        let table = StaticSource::default().with_user("alice", 1000, 100, &groups());
        match self.down.load(SeqCst) {
            true => Err(SourceError { what: "it".to_owned(), why: "down".to_owned() }),
            false => Ok(ask(&table)),
        }
    }
}

impl IdentitySource for GroupDirectory {
    fn identity(&self, user: &str) -> Result<Option<Identity>, SourceError> {
        self.ask(|table| table.identity(user))?
    }
    fn uid(&self, user: &str) -> Result<Option<u32>, SourceError> {
        self.ask(|table| table.uid(user))?
    }
    fn gid(&self, group: &str) -> Result<Option<u32>, SourceError> {
        self.ask(|table| table.gid(group))?
    }
    fn user(&self, uid: u32) -> Result<Option<String>, SourceError> {
        self.ask(|table| table.user(uid))?
    }
    fn group(&self, gid: u32) -> Result<Option<String>, SourceError> {
        self.ask(|table| table.group(gid))?
    }
}

fn host() -> (Host, GroupDirectory) {
    let directory = GroupDirectory::default();
    (Host::with_sys_accounts(Mapper::new(Rules::default(), directory.clone())), directory)
}

/// Keeps the calls that are deferred.
#[derive(Default)]
struct GroupsElsewhere {
    deferred: Vec<DeferredCall<Infallible>>,
    replies: Vec<Vec<u8>>,
}

impl ReplySink<Infallible> for GroupsElsewhere {
    fn reply(&mut self, _: ConnectionId, action: Action) {
        let Action::Send(reply) = action else { panic!("the connection stays") };
        self.replies.push(reply[4..].to_vec());
    }

    fn can_defer(&self) -> bool {
        true
    }

    fn defer(&mut self, deferred: DeferredCall<Infallible>) -> Result<(), DeferredCall<Infallible>> {
        self.deferred.push(deferred);
        Ok(())
    }
}

#[test]
fn the_groups_of_a_caller_are_those_of_its_account() {
    let (mut host, _) = host();
    for (gid, effective) in [(100, 100), (2001, 2001), (0, 100)] {
        for _ in 0..2 {
            host.answer(call(COMPOUND, 1000, gid)).unwrap();
            let [seen] = &host.seen()[..] else { panic!("one call") };
            assert_eq!((seen.uid, seen.gid), (Some(1000), Some(effective)), "as newgrp {gid}");
            assert_eq!(seen.gids, groups());
        }
    }
    host.answer(call(COMPOUND, 1001, 0)).unwrap();
    let [seen] = &host.seen()[..] else { panic!("one call") };
    assert_eq!((seen.uid, seen.gid, &seen.gids[..]), (Some(1001), Some(ANONYMOUS_ID), &[][..]));
}

#[test]
fn groups_are_looked_up_elsewhere_once_and_again_after_their_time() {
    let (mut host, directory) = host();
    let mut elsewhere = GroupsElsewhere::default();
    host.tick_into(vec![(CONNECTION, call(NULL, 1000, 100))], &mut elsewhere);
    assert_eq!((elsewhere.replies.len(), elsewhere.deferred.len()), (1, 0), "NULL needs no groups");
    host.tick_into(vec![(CONNECTION, call(COMPOUND, 1000, 100))], &mut elsewhere);
    let deferred = elsewhere.deferred.pop().expect("it is deferred");
    assert_eq!(deferred.lane(), NAMES);
    let completed = execute_and_sync(&host.server, deferred);
    host.take_completed(completed);
    host.tick_into(vec![(CONNECTION, call(COMPOUND, 1000, 100))], &mut elsewhere);
    assert!(elsewhere.deferred.is_empty(), "its groups are known");
    assert_eq!(elsewhere.replies.len(), 3);
    assert!(host.seen().iter().all(|seen| seen.gids == groups()));
    let lookups = directory.lookups.load(SeqCst);
    host.advance(2 * Rules::default().expiry);
    host.tick_into(vec![(CONNECTION, call(COMPOUND, 1000, 100))], &mut elsewhere);
    let completed = execute_and_sync(&host.server, elsewhere.deferred.pop().expect("it is deferred"));
    host.take_completed(completed);
    assert!(directory.lookups.load(SeqCst) > lookups);
}

#[test]
fn a_call_with_groups_waits_for_its_file_system_in_another_lane() {
    let accounts = Some(Mapper::new(Rules::default(), GroupDirectory::default()));
    let mut host = Host::over(SlowNames { accounts });
    let mut elsewhere = Elsewhere::with_room(1);
    host.tick_into(vec![(CONNECTION, call_with(COMPOUND, 1000, 100, b"slow"))], &mut elsewhere);
    let deferred = elsewhere.deferred.pop().expect("it is deferred");
    assert_eq!(deferred.lane(), NAMES);
    let again = host.server.execute_deferred(deferred);
    let DeferredOutcome::Suspended(deferred) = again else { panic!("{again:?}") };
    assert_eq!(deferred.lane(), 1);
    let ended = host.server.execute_deferred(deferred);
    assert!(matches!(ended, DeferredOutcome::Completed(_)), "{ended:?}");
}

#[test]
fn a_stranger_that_no_export_admits_asks_no_directory() {
    let directory = GroupDirectory::default();
    let accounts = Some(Mapper::new(Rules::default(), directory.clone()));
    let engine = Echo { accounts, admits_nobody: true, ..Echo::default() };
    let mut host = Host::without_kerberos_over(engine);
    let mut elsewhere = GroupsElsewhere::default();
    host.tick_into(vec![(CONNECTION, call(COMPOUND, 1000, 100))], &mut elsewhere);
    assert_eq!((elsewhere.replies.len(), elsewhere.deferred.len()), (1, 0));
    host.answer(call(COMPOUND, 1000, 100)).unwrap();
    assert!(host.seen().iter().all(|seen| seen.uid == Some(1000) && seen.gids.is_empty()));
    // Lookups begin in order: one that the calls had started would come before this one.
    let accounts = host.server.engine().accounts.as_ref().expect("accounts");
    let left = Cell::new(Duration::from_secs(30));
    accounts.account_of_uid_within(1001, Duration::ZERO, Wait::Within(&left)).unwrap().unwrap();
    assert_eq!(directory.lookups.load(SeqCst), 1);
}

#[test]
fn the_exports_are_searched_for_a_connection_once_a_second() {
    let mut host = Host::without_kerberos();
    let asked = |host: &Host| host.server.engine().admissions.load(SeqCst);
    (0..100).for_each(|_| drop(host.answer(call(COMPOUND, 1000, 100)).unwrap()));
    assert_eq!(asked(&host), 1);
    host.tick(vec![(ConnectionId(7), call(COMPOUND, 1000, 100))]);
    assert_eq!(asked(&host), 2);
    host.advance(Duration::from_secs(1));
    host.answer(call(COMPOUND, 1000, 100)).unwrap();
    assert_eq!(asked(&host), 3);
}

#[test]
fn a_reload_looks_groups_up_again() {
    let (mut host, directory) = host();
    host.answer(call(COMPOUND, 1000, 100)).unwrap();
    host.server.engine().accounts.as_ref().unwrap().forget();
    let lookups = directory.lookups.load(SeqCst);
    host.answer(call(COMPOUND, 1000, 100)).unwrap();
    assert!(directory.lookups.load(SeqCst) > lookups);
}

#[test]
fn a_caller_whose_groups_are_unavailable_is_delayed() {
    let (mut host, directory) = host();
    directory.down.store(true, SeqCst);
    let reply = host.answer(call(COMPOUND, 1000, 100)).unwrap();
    assert_eq!(accepted(&reply).2, b"delayed.");
    let mut elsewhere = GroupsElsewhere::default();
    for decline in [false, true] {
        host.tick_into(vec![(CONNECTION, call(COMPOUND, 1000, 100))], &mut elsewhere);
        let deferred = elsewhere.deferred.pop().expect("it is deferred");
        let completed =
            if decline { host.server.decline(deferred) } else { execute_and_sync(&host.server, deferred) };
        host.take_completed(completed);
        host.tick_into(Vec::new(), &mut elsewhere);
        assert_eq!(accepted(&elsewhere.replies.pop().unwrap()).2, b"delayed.");
    }
    assert!(host.seen().is_empty());
    directory.down.store(false, SeqCst);
    host.answer(call(COMPOUND, 1000, 100)).unwrap();
    assert_eq!(host.seen().len(), 1);
    directory.down.store(true, SeqCst);
    host.advance(2 * Rules::default().expiry);
    host.answer(call(COMPOUND, 1000, 100)).unwrap();
    let [seen] = &host.seen()[..] else { panic!("its previous groups stand in") };
    assert_eq!(seen.gids, groups());
    host.advance(2 * Rules::default().stale_expiry + Duration::from_secs(1));
    assert_eq!(accepted(&host.answer(call(COMPOUND, 1000, 100)).unwrap()).2, b"delayed.");
}
