//! Delegations from grant to return, recall and revocation.

use super::world::*;
use crate::*;
use nfs4::{Nfsstat4, SEQ4_STATUS_RECALLABLE_STATE_REVOKED, Stateid4, WhyNoDelegation4};
use std::collections::BTreeMap;
use std::time::Duration;

const READ: u32 = 1;
const WRITE: u32 = 2;
const BOTH: u32 = 3;
/// The file of most tests.
const FILE: u32 = 1;

fn ask(
    world: &World,
    client: &TestClient,
    mode: DelegationMode,
) -> core::result::Result<Delegated, WhyNoDelegation4> {
    let request =
        DelegationRequest { file: &FILE, mode, reclaim: false, change: 1, opener: anyone().principal };
    world.state.delegate(world.now, world.key(client), &request, 5)
}

/// Opens the file and gets a delegation.
fn delegated(world: &mut World, client: &TestClient, mode: DelegationMode) -> Stateid4 {
    world.open(client, "o", FILE, if mode == DelegationMode::Write { BOTH } else { READ }, 0).unwrap();
    ask(world, client, mode).unwrap().stateid
}

/// The delegations that were recalled since the last call.
fn recalled(world: &World) -> Vec<(ClientKey, DelegationKey)> {
    let recall = |task| match task {
        CallbackTask::Recall { client, delegation } => Some((client, delegation)),
        _ => None,
    };
    world.state.take_callbacks().into_iter().filter_map(recall).collect()
}

fn flags(world: &mut World, client: &mut TestClient) -> u32 {
    let begun = world.begin(client);
    let flags = begun.reply.status_flags;
    world.state.sessions().finish(begun.token, None);
    flags
}

#[test]
fn clients_read_by_their_delegations_until_one_of_them_wants_to_write() {
    // RFC 8881 section 10.4.1
    let mut world = World::new();
    let (a, b, c) = (world.ready("a"), world.ready("b"), world.ready("c"));
    let (first, second) =
        (delegated(&mut world, &a, DelegationMode::Read), delegated(&mut world, &b, DelegationMode::Read));
    let (key_a, key_b) = (world.key(&a), world.key(&b));
    assert_eq!(world.state.access(key_a, &first, &FILE, READ), Ok(5));
    assert_eq!(world.state.access(key_a, &first, &FILE, WRITE), Err(Nfsstat4::NFS4ERR_OPENMODE));
    assert_eq!(world.state.access(key_b, &first, &FILE, READ), Err(Nfsstat4::NFS4ERR_BAD_STATEID));
    assert_eq!(world.state.access(key_a, &first, &2, READ), Err(Nfsstat4::NFS4ERR_BAD_STATEID));
    world.open(&c, "o", FILE, READ, 0).unwrap();
    assert_eq!(recalled(&world), [], "reading is in nobody's way");
    assert_eq!(world.open(&c, "o", FILE, WRITE, 0), Err(Nfsstat4::NFS4ERR_DELAY));
    let out: BTreeMap<ClientKey, DelegationKey> = recalled(&world).into_iter().collect();
    assert_eq!(out.len(), 2);
    let out = [out[&key_a], out[&key_b]];
    assert_eq!(world.open(&c, "o", FILE, WRITE, 0), Err(Nfsstat4::NFS4ERR_DELAY));
    assert_eq!(recalled(&world), [], "once is enough");
    let recall = world.state.delegations().recall(out[0]).unwrap();
    assert_eq!((recall.stateid, recall.file), (first, FILE));
    assert_eq!(world.state.access(key_a, &first, &FILE, READ), Ok(5), "it holds until it is back");
    world.state.delegreturn(key_a, &first, &FILE).unwrap();
    assert_eq!(world.state.delegations().recall(out[0]), None);
    assert_eq!(world.open(&c, "o", FILE, WRITE, 0), Err(Nfsstat4::NFS4ERR_DELAY));
    world.state.delegreturn(key_b, &second, &FILE).unwrap();
    world.open(&c, "o", FILE, WRITE, 0).unwrap();
    assert_eq!(world.state.access(key_a, &first, &FILE, READ), Err(Nfsstat4::NFS4ERR_BAD_STATEID));
}

#[test]
fn a_delegation_for_writing_is_recalled_when_another_opens_or_looks() {
    // RFC 8881 section 10.4
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let stateid = delegated(&mut world, &a, DelegationMode::Write);
    let key = world.key(&a);
    assert_eq!(world.state.access(key, &stateid, &FILE, BOTH), Ok(5));
    assert_eq!(world.state.check_unopened_read(world.now, key, &FILE), Ok(()), "its holder may");
    assert_eq!(world.state.check_unopened_read(world.now, world.key(&b), &2), Ok(()));
    assert_eq!(recalled(&world), []);
    assert_eq!(
        world.state.check_unopened_read(world.now, world.key(&b), &FILE),
        Err(Nfsstat4::NFS4ERR_DELAY)
    );
    assert_eq!(recalled(&world).len(), 1);
    assert_eq!(world.open(&b, "o", FILE, READ, 0), Err(Nfsstat4::NFS4ERR_DELAY));
    world.state.delegreturn(key, &stateid, &FILE).unwrap();
    world.open(&b, "o", FILE, READ, 0).unwrap();
}

#[test]
fn a_client_does_not_conflict_with_its_own_delegation() {
    // RFC 8881 section 10.4.1
    let mut world = World::new();
    let a = world.ready("a");
    delegated(&mut world, &a, DelegationMode::Read);
    world.open(&a, "another owner", FILE, BOTH, WRITE).unwrap();
    let key = world.key(&a);
    world.state.begin_change(world.now, key, &FILE).unwrap();
    world.state.delegations().end_change(&FILE);
    assert_eq!(recalled(&world), []);
}

#[test]
fn a_change_recalls_delegations_of_others_and_none_is_granted_until_its_end() {
    // RFC 8881 section 10.4: SETATTR, REMOVE, RENAME, LINK, WRITE with a special stateid
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let stateid = delegated(&mut world, &a, DelegationMode::Read);
    let (key_a, key_b) = (world.key(&a), world.key(&b));
    assert_eq!(world.state.begin_change(world.now, key_b, &FILE), Err(Nfsstat4::NFS4ERR_DELAY));
    assert_eq!(recalled(&world).len(), 1);
    world.state.delegreturn(key_a, &stateid, &FILE).unwrap();
    world.pass(60);
    world.state.begin_change(world.now, key_b, &FILE).unwrap();
    world.open(&a, "o", FILE, READ, 0).unwrap();
    assert_eq!(ask(&world, &a, DelegationMode::Read), Err(WhyNoDelegation4::WND4_CONTENTION));
    world.state.delegations().end_change(&FILE);
    ask(&world, &a, DelegationMode::Read).unwrap();
}

#[test]
fn a_delegation_is_granted_only_without_conflicting_opens() {
    // RFC 8881 section 10.4
    let contention = Err(WhyNoDelegation4::WND4_CONTENTION);
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let open = world.open(&b, "o", FILE, WRITE, 0).unwrap();
    world.open(&a, "o", FILE, READ, 0).unwrap();
    assert_eq!(
        (ask(&world, &a, DelegationMode::Read), ask(&world, &a, DelegationMode::Write)),
        (contention, contention)
    );
    let key = world.key(&b);
    world.state.close(key, &open, &FILE).unwrap();
    world.open(&b, "o", FILE, READ, 0).unwrap();
    assert_eq!(ask(&world, &a, DelegationMode::Write), contention, "somebody reads");
    ask(&world, &a, DelegationMode::Read).unwrap();
    assert_eq!(ask(&world, &a, DelegationMode::Read), Err(WhyNoDelegation4::WND4_RESOURCE), "it has it");
    assert_eq!(ask(&world, &a, DelegationMode::Write), Err(WhyNoDelegation4::WND4_NOT_SUPP_UPGRADE));
    assert_eq!(ask(&world, &b, DelegationMode::Write), contention);
    ask(&world, &b, DelegationMode::Read).unwrap();
}

#[test]
fn a_file_that_had_to_be_recalled_is_not_delegated_again_at_once() {
    // RFC 8881 section 10.4
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let stateid = delegated(&mut world, &a, DelegationMode::Read);
    assert_eq!(world.open(&b, "o", FILE, WRITE, 0), Err(Nfsstat4::NFS4ERR_DELAY));
    let key = world.key(&a);
    world.state.delegreturn(key, &stateid, &FILE).unwrap();
    assert_eq!(ask(&world, &a, DelegationMode::Read), Err(WhyNoDelegation4::WND4_CONTENTION));
    world.pass(30);
    ask(&world, &a, DelegationMode::Read).unwrap();
}

#[test]
fn without_a_way_to_call_back_there_is_none() {
    // RFC 8881 section 10.2
    let mut world = World::new();
    let a = world.ready("a");
    world.open(&a, "o", FILE, READ, 0).unwrap();
    world.state.sessions().connection_closed(1);
    assert_eq!(ask(&world, &a, DelegationMode::Read), Err(WhyNoDelegation4::WND4_RESOURCE));
    assert_eq!(world.closed(), 1, "what it would have been used with is given back");
}

#[test]
fn an_overdue_delegation_is_revoked_and_its_client_is_notified() {
    // RFC 8881 sections 10.4.6, 18.38.3 and 18.48.3
    let mut world =
        World::with(Limits { recall_time: Duration::from_secs(20), ..Limits::default() }, boot(1, &[]));
    let (mut a, b) = (world.ready("a"), world.ready("b"));
    let stateid = delegated(&mut world, &a, DelegationMode::Read);
    let key = world.key(&a);
    assert_eq!(world.open(&b, "o", FILE, WRITE, 0), Err(Nfsstat4::NFS4ERR_DELAY));
    world.pass(19);
    world.state.expire(world.now);
    assert_eq!(world.state.test_stateid(key, &stateid), Nfsstat4::NFS4_OK);
    assert_eq!(world.state.free_stateid(key, &stateid), Err(Nfsstat4::NFS4ERR_LOCKS_HELD));
    world.pass(1);
    world.state.expire(world.now);
    let revoked = Nfsstat4::NFS4ERR_DELEG_REVOKED;
    assert_eq!(world.state.access(key, &stateid, &FILE, READ), Err(revoked));
    assert_eq!(world.state.delegreturn(key, &stateid, &FILE), Err(revoked));
    let under = world.open_as(&a, "p", FILE, READ, 0, OpenClaim::Delegated(stateid));
    assert_eq!(under, Err(revoked));
    assert_eq!(world.state.test_stateid(key, &stateid), revoked);
    assert_eq!(flags(&mut world, &mut a), SEQ4_STATUS_RECALLABLE_STATE_REVOKED);
    world.open(&b, "o", FILE, WRITE, 0).unwrap();
    world.state.free_stateid(key, &stateid).unwrap();
    assert_eq!(flags(&mut world, &mut a), 0);
    assert_eq!(world.state.test_stateid(key, &stateid), Nfsstat4::NFS4ERR_BAD_STATEID);
    assert_eq!(world.state.counts().delegations, 0);
}

#[test]
fn a_delegation_that_two_conflicts_recall_is_revoked_once() {
    // RFC 8881 sections 10.4.6 and 18.38.3
    for is_late in [false, true] {
        let mut world =
            World::with(Limits { recall_time: Duration::from_secs(20), ..Limits::default() }, boot(1, &[]));
        let (mut a, b) = (world.ready("a"), world.ready("b"));
        let stateid = delegated(&mut world, &a, DelegationMode::Read);
        assert_eq!(world.open(&b, "o", FILE, WRITE, 0), Err(Nfsstat4::NFS4ERR_DELAY));
        let key = world.state.delegations.recalls().first().unwrap().1;
        world.now += Duration::from_secs(20);
        if is_late {
            // The other thread saw a later time, and enters the recall last.
            world.state.delegations.recalls().insert((world.now + Duration::from_secs(1), key));
        }
        for _ in 0..3 {
            world.state.expire(world.now);
            world.now += Duration::from_secs(1);
        }
        assert_eq!(world.state.counts().delegations_revoked, 1);
        assert_eq!(world.state.counts().recalled, 0);
        assert_eq!(flags(&mut world, &mut a), SEQ4_STATUS_RECALLABLE_STATE_REVOKED);
        let holder = world.key(&a);
        world.state.free_stateid(holder, &stateid).unwrap();
        assert_eq!(flags(&mut world, &mut a), 0);
    }
}

#[test]
fn a_recall_is_due_until_the_client_has_taken_it() {
    // RFC 8881 section 20.2
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    delegated(&mut world, &a, DelegationMode::Read);
    assert_eq!(world.state.delegations().unanswered_recalls(), []);
    let _ = world.open(&b, "o", FILE, WRITE, 0);
    let due = world.state.delegations().unanswered_recalls();
    let [CallbackTask::Recall { client, delegation }] = due[..] else { panic!("{due:?}") };
    assert_eq!(client, world.key(&a));
    world.state.delegations().recall_answered(delegation);
    assert_eq!(world.state.delegations().unanswered_recalls(), []);
}

#[test]
fn opens_under_a_delegation_are_reported_before_it_is_returned() {
    // RFC 8881 section 10.4.1: CLAIM_DELEGATE_CUR
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let key = world.key(&a);
    let first = world.open(&a, "o", FILE, BOTH, 0).unwrap();
    let stateid = ask(&world, &a, DelegationMode::Write).unwrap().stateid;
    world.state.close(key, &first, &FILE).unwrap();
    let _ = world.open(&b, "o", FILE, READ, 0);
    let claim = OpenClaim::Delegated(stateid);
    let open = world.open_as(&a, "local", FILE, BOTH, WRITE, claim).unwrap();
    world.state.delegreturn(key, &stateid, &FILE).unwrap();
    assert_eq!(world.open(&b, "o", FILE, WRITE, 0), Err(Nfsstat4::NFS4ERR_SHARE_DENIED));
    world.state.close(key, &open, &FILE).unwrap();
    let bad = Nfsstat4::NFS4ERR_BAD_STATEID;
    assert_eq!(world.open_as(&a, "local", FILE, READ, 0, claim), Err(bad));
    assert_eq!(world.open_as(&b, "local", FILE, READ, 0, claim), Err(bad));
}

#[test]
fn a_delegation_for_reading_opens_nothing_for_writing() {
    // RFC 8881 section 10.4.1
    let mut world = World::new();
    let a = world.ready("a");
    let claim = OpenClaim::Delegated(delegated(&mut world, &a, DelegationMode::Read));
    world.open_as(&a, "local", FILE, READ, 0, claim).unwrap();
    let write = world.open_as(&a, "local", FILE, WRITE, 0, claim);
    assert_eq!(write, Err(Nfsstat4::NFS4ERR_BAD_STATEID));
}

#[test]
fn delegations_are_reclaimed_in_the_grace_period() {
    // RFC 8881 section 10.2.1
    let mut world = World::with(Limits::default(), boot(2, &[b"a"]));
    let mut a = TestClient::new("a");
    world.mount(&mut a);
    world.open_as(&a, "o", FILE, READ, 0, OpenClaim::Previous).unwrap();
    let request = DelegationRequest {
        file: &FILE,
        mode: DelegationMode::Read,
        reclaim: true,
        change: 1,
        opener: anyone().principal,
    };
    let key = world.key(&a);
    world.state.sessions().connection_closed(1);
    let delegated = world.state.delegate(world.now, key, &request, 5).unwrap();
    assert!(delegated.recall, "there is no way to recall it later");
    assert_eq!(world.state.access(key, &delegated.stateid, &FILE, READ), Ok(5));
}

#[test]
fn delegations_end_with_the_lease_when_they_are_in_the_way_and_a_client_that_has_one_is_busy() {
    // RFC 8881 sections 8.4.3 and 18.50.3
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let stateid = delegated(&mut world, &a, DelegationMode::Write);
    let key = world.key(&a);
    let open = Stateid4 { seqid: 0, ..world.open(&a, "o", FILE, READ, 0).unwrap() };
    world.state.close(key, &open, &FILE).unwrap();
    assert_eq!(world.state.access(key, &stateid, &FILE, READ), Ok(5), "it outlives the open");
    world.state.sessions().destroy_session(&a.caller(), &a.sessionid, None).unwrap();
    let destroyed = world.state.destroy_clientid(&a.caller(), a.clientid);
    assert_eq!(destroyed, Err(Nfsstat4::NFS4ERR_CLIENTID_BUSY));
    world.pass(59);
    let mut b = b;
    world.renew(&mut b);
    world.pass(1);
    world.state.expire(world.now);
    assert_eq!(world.state.counts().delegations, 1, "nobody wants the file");
    assert_eq!(world.open(&b, "o", FILE, WRITE, 0), Err(Nfsstat4::NFS4ERR_DELAY));
    assert_eq!(world.state.expire(world.now), 1, "whose lease is over is not waited for");
    assert_eq!((world.state.counts().delegations, world.state.counts().files), (0, 0));
    world.open(&b, "o", FILE, WRITE, 0).unwrap();
}

#[test]
fn a_client_near_its_limit_is_asked_for_some_back_and_beyond_it_gets_no_more() {
    // RFC 8881 section 20.6
    let limits = Limits { delegations_per_client_max: 8, delegations_max: 12, ..Limits::default() };
    let mut world = World::with(limits, boot(1, &[]));
    let (a, b) = (world.ready("a"), world.ready("b"));
    let grant = |world: &mut World, client: &TestClient, file: u32| {
        world.open(client, "o", file, READ, 0).unwrap();
        let request = DelegationRequest {
            file: &file,
            mode: DelegationMode::Read,
            reclaim: false,
            change: 1,
            opener: anyone().principal,
        };
        world.state.delegate(world.now, world.key(client), &request, 5).map(|_| ())
    };
    for file in 10..17 {
        grant(&mut world, &a, file).unwrap();
    }
    assert_eq!(world.state.take_callbacks(), []);
    grant(&mut world, &a, 17).unwrap();
    let any = CallbackTask::RecallAny { client: world.key(&a), keep: 4 };
    assert_eq!(world.state.take_callbacks(), [any]);
    assert_eq!(grant(&mut world, &a, 18), Err(WhyNoDelegation4::WND4_RESOURCE));
    assert_eq!(world.state.take_callbacks(), [], "not more often than that");
    for file in 10..14 {
        grant(&mut world, &b, file).unwrap();
    }
    assert_eq!(grant(&mut world, &b, 14), Err(WhyNoDelegation4::WND4_RESOURCE));
    world.pass(10);
    world.state.expire(world.now);
    let keep = |client| CallbackTask::RecallAny { client, keep: 3 };
    let mut asked = world.state.take_callbacks();
    asked.sort();
    let mut expected = [keep(world.key(&a)), keep(world.key(&b))];
    expected.sort();
    assert_eq!(asked, expected);
}

#[test]
fn a_stateid_of_two_kinds_is_none() {
    // RFC 8881 section 8.2.4
    let mut world = World::new();
    let a = world.ready("a");
    let mut stateid = delegated(&mut world, &a, DelegationMode::Read);
    stateid.other[8] |= 0x80;
    assert_eq!(world.state.test_stateid(world.key(&a), &stateid), Nfsstat4::NFS4ERR_BAD_STATEID);
}

#[test]
fn a_reader_of_attributes_gets_an_answer_that_the_holder_gave_after_the_question() {
    // RFC 8881 section 10.4.3
    let mut world = World::new();
    let (a, b, c) = (world.ready("a"), world.ready("b"), world.ready("c"));
    delegated(&mut world, &a, DelegationMode::Write);
    let (key_a, key_b, key_c) = (world.key(&a), world.key(&b), world.key(&c));
    let delay = Err(Nfsstat4::NFS4ERR_DELAY);
    assert_eq!(world.state.holder_attributes(world.now, key_a, &FILE), Ok(None), "the holder knows");
    assert_eq!(world.state.holder_attributes(world.now, key_b, &2), Ok(None));
    world.state.take_callbacks();
    assert_eq!(world.state.holder_attributes(world.now, key_b, &FILE), delay);
    let asked = world.state.take_callbacks();
    let [CallbackTask::Getattr { client, delegation }] = asked[..] else { panic!("{asked:?}") };
    assert_eq!((client, world.state.delegations().getattr_file(delegation)), (key_a, Some(FILE)));
    assert_eq!(world.state.holder_attributes(world.now, key_c, &FILE), delay, "the holder was asked before");
    assert_eq!(world.state.holder_attributes(world.now, key_b, &FILE), delay);
    assert_eq!(world.state.take_callbacks(), []);
    let first = HeldAttributes { change: 2, size: 10 };
    assert!(world.state.delegations().getattr_answered(world.now, delegation, first), "for who came late");
    assert_eq!(
        world.state.holder_attributes(world.now, key_b, &FILE),
        Ok(Some(HolderReply { held: first, granted: 1 }))
    );
    assert_eq!(world.state.holder_attributes(world.now, key_c, &FILE), delay);
    let second = HeldAttributes { change: 2, size: 20 };
    assert!(!world.state.delegations().getattr_answered(world.now, delegation, second));
    assert_eq!(
        world.state.holder_attributes(world.now, key_c, &FILE),
        Ok(Some(HolderReply { held: second, granted: 1 }))
    );
    assert_eq!(world.state.delegations().getattr_file(delegation), None);
    assert_eq!(world.state.holder_attributes(world.now, key_b, &FILE), delay, "an answer is for one look");
    assert_eq!(world.state.take_callbacks(), asked);
}

#[test]
fn an_unfetched_answer_of_the_holder_is_not_kept_for_a_later_getattr() {
    // RFC 8881 section 10.4.3
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    delegated(&mut world, &a, DelegationMode::Write);
    let key = world.key(&b);
    world.state.take_callbacks();
    let delay = Err(Nfsstat4::NFS4ERR_DELAY);
    assert_eq!(world.state.holder_attributes(world.now, key, &FILE), delay);
    let asked = world.state.take_callbacks();
    let [CallbackTask::Getattr { delegation, .. }] = asked[..] else { panic!("{asked:?}") };
    let held = HeldAttributes { change: 2, size: 10 };
    assert!(!world.state.delegations().getattr_answered(world.now, delegation, held));
    world.pass(21);
    assert_eq!(world.state.holder_attributes(world.now, key, &FILE), delay, "the file has grown since");
    assert_eq!(world.state.take_callbacks(), asked);
    assert!(!world.state.delegations().getattr_answered(world.now, delegation, held));
    world.pass(15);
    let reply = HolderReply { held, granted: 1 };
    assert_eq!(world.state.holder_attributes(world.now, key, &FILE), Ok(Some(reply)));
}

#[test]
fn a_holder_that_does_not_say_is_asked_for_its_delegation() {
    // RFC 8881 section 10.4.3
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let stateid = delegated(&mut world, &a, DelegationMode::Write);
    let (key_a, key_b) = (world.key(&a), world.key(&b));
    world.state.take_callbacks();
    let delay = Err(Nfsstat4::NFS4ERR_DELAY);
    assert_eq!(world.state.holder_attributes(world.now, key_b, &FILE), delay);
    let asked = world.state.take_callbacks();
    let [CallbackTask::Getattr { delegation, .. }] = asked[..] else { panic!("{asked:?}") };
    world.state.delegations().getattr_refused(delegation);
    assert_eq!(world.state.holder_attributes(world.now, key_b, &FILE), delay);
    assert_eq!(recalled(&world), [(key_a, delegation)]);
    world.state.delegreturn(key_a, &stateid, &FILE).unwrap();
    assert_eq!(world.state.holder_attributes(world.now, key_b, &FILE), Ok(None));
}

#[test]
fn a_crowd_that_looks_has_the_delegation_recalled() {
    // RFC 8881 section 10.4.3: the memory of CB_GETATTR waits is bounded
    let mut world = World::new();
    let a = world.ready("a");
    delegated(&mut world, &a, DelegationMode::Write);
    for n in 0..17 {
        let client = world.ready(&format!("looks {n}"));
        let looked = world.state.holder_attributes(world.now, world.key(&client), &FILE);
        assert_eq!(looked, Err(Nfsstat4::NFS4ERR_DELAY));
    }
    assert_eq!(recalled(&world).len(), 1);
}

#[test]
fn local_programs_have_delegations_recalled_sooner_than_clients() {
    // RFC 8881 section 10.4
    let mut world = World::new();
    let (a, b) = (world.ready("a"), world.ready("b"));
    let first = delegated(&mut world, &a, DelegationMode::Read);
    assert_eq!(world.open(&b, "o", FILE, WRITE, 0), Err(Nfsstat4::NFS4ERR_DELAY));
    let within = Duration::from_secs(3);
    assert_eq!(recalled(&world).len(), 1);
    let (now, shared) = (world.now, world.shared());
    let mut effects = Effects::default();
    shared.delegations().recall_all(now, &FILE, within, &mut effects);
    assert!(effects.callbacks.is_empty(), "it is recalled already");
    super::checks::check_delegations(shared);
    world.pass(3);
    world.state.expire(world.now);
    let used = world.state.access(world.key(&a), &first, &FILE, READ);
    assert_eq!(used, Err(Nfsstat4::NFS4ERR_DELEG_REVOKED));
}
