//! Invariants of an idle state: the tables agree with each other.

use super::shared::TestState;
use crate::delegations::DelegationPhase;
use crate::order::Held;
use crate::sessions::slots::SlotState;
use crate::{DelegationMode, LockMode, LockRange};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

/// Checks that no open conflicts with another owner's denial.
pub(super) fn check_shares(state: &TestState) {
    let mut opens = Vec::new();
    state.opens.each(|key, open| opens.push((key, open.file, open.owner, open.share)));
    for (a, file, owner, share) in &opens {
        for (b, _, other_owner, other) in opens.iter().filter(|(_, other_file, ..)| other_file == file) {
            assert!(a == b || !share.conflicts(*other), "{share:?} {other:?}");
            assert!(a == b || owner != other_owner, "one owner, one open");
        }
    }
    state.opens.each(|_, open| {
        assert_eq!(open.share.access & !open.payload_access, 0, "the payload can do what the open allows");
    });
}

/// No two lock owners hold a byte that one of them has locked for writing; ranges belong to living
/// lock stateids.
pub(super) fn check_ranges(state: &TestState) {
    let mut owners = Vec::new();
    state.locks.each(|_, lock| owners.push(lock.owner));
    state.files.each(|_, file| {
        for byte in 0..64 {
            let range = LockRange::new(byte, 1).unwrap();
            for owner in &owners {
                if let Some(held) = file.ranges.conflict(*owner, range, LockMode::Read) {
                    assert!(state.opens.owner(held.holder, |_| ()).is_some(), "its owner lives");
                    let own = file.ranges.conflict(held.holder, range, LockMode::Write);
                    assert!(own.is_none_or(|own| own.holder == held.holder), "{held:?} {own:?}");
                }
            }
        }
    });
}

/// Checks that each number is the sum of its parts, and that the tables agree. No other thread may
/// run.
pub(super) fn check_counts(state: &TestState) {
    let (mut ranges, mut file_opens, mut uses) = (0, 0, 0);
    state.files.each(|_, file| {
        ranges += file.ranges.len();
        file_opens += file.opens.len();
        assert!(!file.is_idle());
    });
    state.opens.each_owner(|_, owner| uses += owner.uses);
    let (opens, locks) = (state.opens.len(), state.locks.len());
    assert_eq!(ranges, state.counts().ranges);
    assert_eq!((opens, opens), (file_opens, state.opens.count()));
    assert_eq!(uses, opens + locks);
    check_delegations(state);
    let (mut of_clients, mut records) = ([0; 4], 0);
    let held = &mut Held::nothing();
    state.clients.each(|client| {
        let client_state = client.lock_any(held);
        let of_client = [
            client_state.opens.len(),
            client_state.locks,
            client_state.lock_states.len(),
            client_state.closed.into(),
        ];
        of_clients.iter_mut().zip(of_client).for_each(|(sum, n)| *sum += n);
        records += 1;
    });
    assert_eq!(of_clients, [opens, locks + ranges, locks, 0]);
    let registry = state.registry(held);
    assert_eq!(registry.confirmed.len() + registry.unconfirmed.len(), records);
    assert_eq!((registry.by_id.len(), registry.clients.len()), (records, records));
    let sessions = registry.clients.values().map(|client| client.sessions.len()).sum();
    drop(registry);
    check_sessions(state, sessions);
}

/// Checks that no delegation conflicts with opens of others, and that files, clients and numbers
/// agree.
pub(super) fn check_delegations(state: &TestState) {
    let (mut of_files, mut writes, mut revoked) = (BTreeMap::new(), 0, 0);
    state.files.each(|name, file| {
        for ((client, _), held) in &file.delegations {
            of_files.insert(held.key, (*client, *name, held.mode));
            assert!(
                held.mode == DelegationMode::Read || file.delegations.len() == 1,
                "one for writing is alone"
            );
        }
    });
    let mut waiting = BTreeSet::new();
    state.delegations.each(|key, delegation| match delegation.phase {
        DelegationPhase::Revoked => {
            revoked += 1;
            assert_eq!((of_files.get(&key), delegation.payload), (None, None));
        }
        phase => {
            let (client, file, mode) = of_files[&key];
            assert_eq!((client, file, mode), (delegation.client, delegation.file, delegation.mode));
            writes += usize::from(mode == DelegationMode::Write);
            if let DelegationPhase::Recalled { until, .. } = phase {
                waiting.insert((until, key));
            }
        }
    });
    assert_eq!(*state.delegations.recalls(), waiting);
    assert_eq!((of_files.len() + revoked, writes), (state.delegations.len(), state.delegations.writers()));
    assert_eq!(state.delegations.len(), state.delegations.count());
    state.opens.each(|_, open| {
        let others =
            of_files.values().filter(|(client, file, _)| *client != open.client && *file == open.file);
        for (_, _, mode) in others {
            let conflicts =
                *mode == DelegationMode::Write || open.share.access & 2 != 0 || open.share.deny & 1 != 0;
            assert!(!conflicts, "an open against a delegation");
        }
    });
    let (mut of_clients, mut revoked_of_clients) = (0, 0);
    let held = &mut Held::nothing();
    state.clients.each(|client| {
        let client_state = client.lock_any(held);
        of_clients += client_state.delegations.len();
        revoked_of_clients += client_state.revoked;
        let flag = client.status.load(Relaxed) & nfs4::SEQ4_STATUS_RECALLABLE_STATE_REVOKED;
        assert_eq!(flag != 0, client_state.revoked > 0);
    });
    assert_eq!((of_clients, revoked_of_clients), (state.delegations.len(), revoked));
}

fn check_sessions(state: &TestState, of_clients: usize) {
    let (mut sessions, mut counted, mut associated) = (0, 0, 0);
    state.sessions.each(|session| {
        assert!(!session.activity.is_closed());
        sessions += 1;
        counted += session.counted.bytes();
        associated += session.connections.read(&mut Held::nothing()).len();
        let slots = || (0..session.fore.requests).map(|slot| session.slots.lock(slot).unwrap());
        assert_eq!(slots().map(|slot| slot.cached_len()).sum::<usize>(), session.activity.cached_len());
        let running = slots().filter(|slot| matches!(slot.state, SlotState::Running)).count();
        assert_eq!(running, session.activity.running() as usize);
    });
    assert_eq!((sessions, counted), (of_clients, state.counts().session_memory));
    assert_eq!(state.sessions.connection_lens().1, associated);
}
