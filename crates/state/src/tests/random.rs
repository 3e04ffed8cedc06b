//! Anything that clients may send, in any order: no panic, and the tables agree with each other.

use super::checks::{check_counts, check_ranges, check_shares};
use super::images::again;
use super::shared::{Shared, TestState};
use super::world::*;
use crate::delegations::DelegationPhase;
use crate::order::Held;
use crate::stateids::StateRef;
use crate::*;
use nfs4::Stateid4;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum RandomStep {
    ExchangeId { client: usize, verifier: u8, principal: u8, flags: u32 },
    CreateSession { client: usize, sequence: i8, requests: u32 },
    Sequence { client: usize, slot: u32, delta: u8, connection: u64, finish: u8 },
    Finish,
    ReclaimComplete { client: usize },
    Open { client: usize, owner: u8, file: u32, access: u32, deny: u32, reclaim: bool },
    Downgrade { stateid: usize, access: u32, deny: u32 },
    Close { stateid: usize },
    Lock { stateid: usize, owner: u8, mode: LockMode, range: (u64, u64) },
    Unlock { stateid: usize, range: (u64, u64) },
    FreeStateid { stateid: usize },
    DestroySession { client: usize },
    DestroyClientid { client: usize },
    ConnectionClosed(u64),
    Delegate { client: usize, file: u32, mode: DelegationMode, reclaim: bool },
    Delegreturn { stateid: usize },
    OpenUnder { stateid: usize, owner: u8, access: u32, deny: u32 },
    Use { stateid: usize, access: u32 },
    BeginChange { client: usize, file: u32 },
    EndChange,
    Look { client: usize, file: u32 },
    Bind { client: usize, connection: u64 },
    Callback { answered: bool },
    Revoke { stateid: usize },
    Upgrade,
    Pass(u64),
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![(0..40u64, 0..20u64), (0..40u64, Just(u64::MAX)), any::<(u64, u64)>()]
}

fn session_step() -> impl Strategy<Value = RandomStep> {
    let client = 0..3usize;
    prop_oneof![
        1 => (
            client.clone(),
            0..2u8,
            0..2u8,
            prop_oneof![4 => Just(0u32), 1 => Just(0x4000_0000), 1 => any::<u32>()]
        )
            .prop_map(|(client, verifier, principal, flags)| RandomStep::ExchangeId {
                client,
                verifier,
                principal,
                flags
            }),
        2 => (client.clone(), -1..2i8, 0..20u32).prop_map(|(client, sequence, requests)| RandomStep::CreateSession {
            client,
            sequence,
            requests
        }),
        12 => (client.clone(), 0..9u32, 0..3u8, 0..4u64, 0..3u8).prop_map(
            |(client, slot, delta, connection, finish)| RandomStep::Sequence {
                client,
                slot,
                delta,
                connection,
                finish
            }
        ),
        4 => Just(RandomStep::Finish),
        4 => client.clone().prop_map(|client| RandomStep::ReclaimComplete { client }),
        1 => client.clone().prop_map(|client| RandomStep::DestroySession { client }),
        1 => client.prop_map(|client| RandomStep::DestroyClientid { client }),
        2 => (0..4u64).prop_map(RandomStep::ConnectionClosed),
        4 => (0..20u64).prop_map(RandomStep::Pass),
    ]
}

fn state_step() -> impl Strategy<Value = RandomStep> {
    let stateid = 0..6usize;
    prop_oneof![
        6 => (0..3usize, 0..3u8, 0..4u32, 0..5u32, 0..5u32, any::<bool>())
            .prop_map(|(client, owner, file, access, deny, reclaim)| RandomStep::Open { client, owner, file, access, deny, reclaim }),
        2 => (stateid.clone(), 0..4u32, 0..4u32).prop_map(|(stateid, access, deny)| RandomStep::Downgrade { stateid, access, deny }),
        2 => stateid.clone().prop_map(|stateid| RandomStep::Close { stateid }),
        8 => (stateid.clone(), 0..3u8, prop_oneof![Just(LockMode::Read), Just(LockMode::Write)], range())
            .prop_map(|(stateid, owner, mode, range)| RandomStep::Lock { stateid, owner, mode, range }),
        4 => (stateid.clone(), range()).prop_map(|(stateid, range)| RandomStep::Unlock { stateid, range }),
        1 => stateid.prop_map(|stateid| RandomStep::FreeStateid { stateid }),
    ]
}

fn delegation_step() -> impl Strategy<Value = RandomStep> {
    let (client, file, stateid) = (0..3usize, 0..4u32, 0..6usize);
    let mode = prop_oneof![Just(DelegationMode::Read), Just(DelegationMode::Write)];
    prop_oneof![
        8 => (client.clone(), file.clone(), mode, prop::bool::weighted(0.2))
            .prop_map(|(client, file, mode, reclaim)| RandomStep::Delegate { client, file, mode, reclaim }),
        3 => stateid.clone().prop_map(|stateid| RandomStep::Delegreturn { stateid }),
        2 => (stateid.clone(), 0..3u8, 0..4u32, 0..4u32)
            .prop_map(|(stateid, owner, access, deny)| RandomStep::OpenUnder { stateid, owner, access, deny }),
        4 => (stateid.clone(), 0..4u32).prop_map(|(stateid, access)| RandomStep::Use { stateid, access }),
        2 => stateid.clone().prop_map(|stateid| RandomStep::FreeStateid { stateid }),
        1 => stateid.prop_map(|stateid| RandomStep::Revoke { stateid }),
        2 => (client.clone(), file.clone()).prop_map(|(client, file)| RandomStep::BeginChange { client, file }),
        3 => Just(RandomStep::EndChange),
        2 => (client.clone(), file).prop_map(|(client, file)| RandomStep::Look { client, file }),
        2 => (client, 0..4u64).prop_map(|(client, connection)| RandomStep::Bind { client, connection }),
        2 => any::<bool>().prop_map(|answered| RandomStep::Callback { answered }),
        1 => Just(RandomStep::Upgrade),
        1 => (20..70u64).prop_map(RandomStep::Pass),
    ]
}

/// A world with three clients that may be at any point of their lives.
struct RandomRun {
    world: World,
    clients: Vec<TestClient>,
    slots: BTreeMap<(usize, u32), u32>,
    running: Vec<SlotToken>,
    /// Every stateid that was ever given out, with its client and file.
    stateids: Vec<(usize, u32, Stateid4)>,
    opened: usize,
    closed: usize,
    /// Files with a change in progress.
    changing: Vec<u32>,
    /// Stateids of delegations that were revoked or given back.
    ended: BTreeSet<[u8; 12]>,
}

impl RandomRun {
    fn new() -> Self {
        let limits = Limits {
            opens_per_client_max: 8,
            locks_per_client_max: 20,
            slots_max: 6,
            delegations_per_client_max: 3,
            delegations_max: 7,
            recall_time: std::time::Duration::from_secs(30),
            ..Limits::default()
        };
        let mut world = World::with(limits, boot(1, &[b"client 0"]));
        let mut clients: Vec<TestClient> = (0..2).map(|i| TestClient::new(&format!("client {i}"))).collect();
        clients.push(TestClient::machine("client 2"));
        clients.iter_mut().for_each(|client| world.mount(client));
        Self {
            world,
            clients,
            slots: BTreeMap::new(),
            running: vec![],
            stateids: vec![],
            opened: 0,
            closed: 0,
            changing: vec![],
            ended: BTreeSet::new(),
        }
    }

    /// The client's key, while its session lives.
    fn key(&self, client: usize) -> Option<ClientKey> {
        self.world.state.sessions().client_of_session(&self.clients[client].sessionid).ok()
    }

    fn stateid(&self, index: usize) -> Option<(ClientKey, u32, Stateid4)> {
        let (client, file, stateid) = *self.stateids.iter().rev().nth(index)?;
        Some((self.key(client)?, file, stateid))
    }

    fn note(&mut self, index: usize, stateid: Stateid4) {
        if let Some((client, file, _)) = self.stateids.iter().rev().nth(index).copied() {
            self.stateids.push((client, file, stateid));
        }
    }

    fn session_step(&mut self, step: &RandomStep) {
        let (now, world) = (self.world.now, &mut self.world);
        match *step {
            RandomStep::ExchangeId { client, verifier, principal, flags } => {
                let client = &mut self.clients[client];
                client.verifier = [verifier; 8];
                if client.protect == StateProtect::None {
                    client.principal = Principal::new([principal]);
                }
                let _ = world.exchange_id(client, flags);
            }
            RandomStep::CreateSession { client, sequence, requests } => {
                let client = &self.clients[client];
                let args = CreateSession {
                    sequence: client.sequenceid.wrapping_add_signed(sequence.into()),
                    fore: ChannelAttrs { requests, ..CHANNEL },
                    ..client.create_args()
                };
                let created =
                    world.state.create_session(now, &client.caller(), &args, u64::from(args.sequence));
                if let (Ok(ok), RandomStep::CreateSession { client, .. }) = (created, step) {
                    self.clients[*client].sessionid = ok.sessionid;
                    self.slots.retain(|(other, _), _| other != client);
                }
            }
            RandomStep::Sequence { client, slot, delta, connection, finish } => {
                let last = self.slots.entry((client, slot)).or_default();
                let sequenceid = last.wrapping_add(delta.into());
                let sender = &self.clients[client];
                let args = Sequence { sequenceid, slotid: slot, highest_slotid: 8, ..sender.args() };
                let caller = Caller { connection, ..sender.caller() };
                if let Ok(Sequenced::Execute(begun)) = world.state.sequence(now, &caller, &args) {
                    *last = sequenceid;
                    match finish {
                        0 => self.running.push(begun.token),
                        1 => world.state.sessions().finish(begun.token, None),
                        _ => world.state.sessions().finish(begun.token, Some(&[1; 100])),
                    }
                }
            }
            RandomStep::Finish => {
                if let Some(token) = self.running.pop() {
                    world.state.sessions().finish(token, Some(&[2; 50]));
                }
            }
            RandomStep::DestroySession { client } => {
                let client = &self.clients[client];
                let _ = world.state.sessions().destroy_session(&client.caller(), &client.sessionid, None);
            }
            RandomStep::DestroyClientid { client } => {
                let client = &self.clients[client];
                let _ = world.state.destroy_clientid(&client.caller(), client.clientid);
            }
            RandomStep::ConnectionClosed(connection) => world.state.sessions().connection_closed(connection),
            RandomStep::Pass(seconds) => {
                world.pass(seconds);
                world.state.expire(world.now);
                // A conflict ends the courtesy of expired clients.
                world.state.free_expired(world.now, seconds as u32 % 4);
            }
            _ => {}
        }
    }

    fn state_step(&mut self, step: &RandomStep) -> Option<()> {
        let now = self.world.now;
        match *step {
            RandomStep::ReclaimComplete { client } => {
                let _ = self.world.state.reclaim_complete(now, self.key(client)?, false);
            }
            RandomStep::Open { client, owner, file, access, deny, reclaim } => {
                let claim = if reclaim { OpenClaim::Previous } else { OpenClaim::New };
                let request = OpenRequest {
                    owner: &[owner],
                    file: &file,
                    access,
                    deny,
                    claim,
                    opener: anyone(),
                    truncates: false,
                };
                // The payload is opened for the request alone, without the bits of open_check: so
                // Reopen happens, too.
                self.opened += 1;
                let opened = self.world.state.open(
                    now,
                    self.key(client).or_else(|| {
                        self.closed += 1;
                        None
                    })?,
                    &request,
                    1,
                    access & 3,
                );
                if let Ok(OpenOutcome::Opened(stateid)) = opened {
                    self.stateids.push((client, file, stateid));
                }
            }
            RandomStep::Downgrade { stateid, access, deny } => {
                let (key, file, given) = self.stateid(stateid)?;
                self.opened += 1;
                let share = (access, deny);
                let downgraded = self.world.state.open_downgrade(key, &given, &file, share, Some(1)).ok()?;
                self.note(stateid, downgraded);
            }
            RandomStep::Close { stateid } => {
                let (key, file, given) = self.stateid(stateid)?;
                let _ = self.world.state.close(key, &given, &file);
            }
            RandomStep::Lock { stateid, owner, mode, range: (offset, length) } => {
                let (key, file, given) = self.stateid(stateid)?;
                let locker = match given.other[8] & 0x80 {
                    0 => Locker::New { open_stateid: given, owner: &[owner] },
                    _ => Locker::Existing(given),
                };
                let request =
                    Lock { file: &file, mode, waits: true, reclaim: owner == 2, offset, length, locker };
                let locked = self.world.state.lock(now, key, &request).ok()?;
                self.note(stateid, locked);
            }
            RandomStep::Unlock { stateid, range: (offset, length) } => {
                let (key, file, given) = self.stateid(stateid)?;
                let unlocked = self.world.state.locku(key, &given, &file, offset, length).ok()?;
                self.note(stateid, unlocked);
            }
            RandomStep::FreeStateid { stateid } => {
                let (key, _, given) = self.stateid(stateid)?;
                let _ = self.world.state.free_stateid(key, &given);
            }
            _ => return self.delegation_step(step),
        }
        Some(())
    }

    fn delegation_step(&mut self, step: &RandomStep) -> Option<()> {
        let now = self.world.now;
        match *step {
            RandomStep::Delegate { client, file, mode, reclaim } => {
                let key = self.key(client)?;
                self.opened += 1;
                let request =
                    DelegationRequest { file: &file, mode, reclaim, change: 1, opener: anyone().principal };
                let delegated = self.world.state.delegate(now, key, &request, 2).ok()?;
                assert!(!self.changing.contains(&file), "nobody gets one while the file is changed");
                self.stateids.push((client, file, delegated.stateid));
            }
            RandomStep::Delegreturn { stateid } => {
                let (key, file, given) = self.stateid(stateid)?;
                self.world.state.delegreturn(key, &given, &file).ok()?;
                self.ended.insert(given.other);
            }
            RandomStep::OpenUnder { stateid, owner, access, deny } => {
                self.open_under(stateid, owner, access, deny)?;
            }
            RandomStep::Use { stateid, access } => {
                let (key, file, given) = self.stateid(stateid)?;
                self.world.state.access(key, &given, &file, access).ok()?;
                assert!(!self.ended.contains(&given.other), "what is revoked cannot be used");
            }
            RandomStep::BeginChange { client, file } => self.begin_change(client, file)?,
            RandomStep::EndChange => self.world.state.delegations().end_change(&self.changing.pop()?),
            RandomStep::Look { client, file } => {
                let _ = self.world.state.check_unopened_read(now, self.key(client)?, &file);
            }
            RandomStep::Bind { client, connection } => {
                let client = &self.clients[client];
                let caller = Caller { connection, ..client.caller() };
                let direction = ChannelDirection::BackOrBoth;
                let _ =
                    self.world.state.sessions().bind_conn_to_session(&caller, &client.sessionid, direction);
            }
            RandomStep::Callback { answered } => self.call_back(answered)?,
            RandomStep::Revoke { stateid } => {
                let (_, _, given) = self.stateid(stateid)?;
                let revoke = |state: &TestState, effects: &mut Effects<u64>| {
                    state.leases().revoke(given.other, effects)
                };
                self.world.state.with(revoke).ok()?;
                self.ended.insert(given.other);
            }
            RandomStep::Upgrade => self.upgrade(),
            _ => self.session_step(step),
        }
        Some(())
    }

    /// Opens a file by the delegation of another stateid.
    fn open_under(&mut self, stateid: usize, owner: u8, access: u32, deny: u32) -> Option<()> {
        let (key, file, given) = self.stateid(stateid)?;
        let (client, ..) = *self.stateids.iter().rev().nth(stateid)?;
        let claim = OpenClaim::Delegated(given);
        let (owner, opener) = (&[owner], anyone());
        let request = OpenRequest { owner, file: &file, access, deny, claim, opener, truncates: false };
        self.opened += 1;
        let opened = self.world.state.open(self.world.now, key, &request, 1, 3).ok()?;
        assert!(!self.ended.contains(&given.other), "what is revoked opens nothing");
        if let OpenOutcome::Opened(stateid) = opened {
            self.stateids.push((client, file, stateid));
        }
        Some(())
    }

    fn begin_change(&mut self, client: usize, file: u32) -> Option<()> {
        let key = self.key(client)?;
        self.world.state.begin_change(self.world.now, key, &file).ok()?;
        self.changing.push(file);
        let mut others = 0;
        self.world.state.delegations.each(|_, held| {
            let stands = held.file == file && held.client != key;
            others += usize::from(stands && held.phase != DelegationPhase::Revoked);
        });
        assert_eq!(others, 0, "a change waits for all delegations of others");
        Some(())
    }

    /// Sends the recall that has no answer yet, which its client answers or not.
    fn call_back(&mut self, answered: bool) -> Option<()> {
        let unanswered = self.world.state.delegations().unanswered_recalls().pop();
        let Some(CallbackTask::Recall { client, delegation }) = unanswered else { return None };
        assert!(self.world.state.delegations().recall(delegation).is_some());
        let call = self.world.state.callbacks().begin_callback(client).ok()?;
        if answered {
            self.world.state.delegations().recall_answered(delegation);
            assert_eq!(self.world.state.delegations().recall(delegation), None);
        }
        self.world.state.callbacks().end_callback(call, CallbackEnd::Answered);
        Some(())
    }

    /// Continues with a state that is restored from an image of this one.
    fn upgrade(&mut self) {
        // Requests end before, and the server has drained its queue of effects.
        self.running.drain(..).for_each(|token| self.world.state.sessions().finish(token, Some(&[2; 50])));
        let _ = self.world.records();
        self.closed += self.world.closed();
        let _ = self.world.state.locks().take_unlocked();
        self.world.state = Shared::new(again(self.world.shared()));
        self.changing.iter().for_each(|file| self.world.state.delegations().resume_change(file));
    }

    /// Records the revocations so far.
    fn note_revoked(&mut self) {
        let mut revoked = Vec::new();
        self.world.state.delegations.each(|key, delegation| {
            if delegation.phase == DelegationPhase::Revoked {
                revoked.push(key);
            }
        });
        let state = &self.world.state;
        self.ended.extend(revoked.iter().map(|key| state.stateid(StateRef::Delegation(*key), 1).other));
    }

    fn revoked(&self) -> usize {
        let mut revoked = 0;
        let held = &mut Held::nothing();
        self.world.state.clients.each(|client| revoked += client.lock_any(held).revoked);
        revoked
    }

    fn check(&mut self) {
        self.closed += self.world.closed();
        self.note_revoked();
        let state = self.world.shared();
        let held = state.opens.len() + state.delegations.len() - self.revoked();
        assert_eq!(held, self.opened - self.closed, "every payload is held or was given back");
        check_shares(state);
        check_ranges(state);
        check_counts(state);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_sequence_of_operations_breaks_the_tables(
        steps in prop::collection::vec(
            prop_oneof![1 => session_step(), 3 => state_step(), 3 => delegation_step()],
            1..200
        ),
        ready in any::<bool>(),
    ) { // RFC 8881 sections 8, 9 and 10.4
        let mut run = RandomRun::new();
        if ready {
            for client in 0..3 {
                run.state_step(&RandomStep::ReclaimComplete { client });
            }
        }
        for step in &steps {
            run.state_step(step);
            run.check();
        }
        run.running.clear();
        run.changing.drain(..).for_each(|file| run.world.state.delegations().end_change(&file));
        let mut sessions = Vec::new();
        run.world.state.sessions.each(|session| sessions.push(session.key));
        let state = &run.world.state;
        for key in sessions {
            state.sessions().remove_session(&mut state.registry(&mut Held::nothing()), key);
        }
        run.world.pass(1000);
        run.world.now += Limits::default().courtesy_max;
        run.world.state.expire(run.world.now);
        run.check();
        // Totals only grow.
        let held = Counts { delegations_granted: 0, delegations_recalled: 0, delegations_revoked: 0, ..run.world.state.counts() };
        prop_assert_eq!(held, Counts::default());
    }
}
