//! Images of the state: a restored state behaves as the one before.

use super::shared::{Shared, TestState};
use super::world::*;
use crate::quotas::NoQuotas;
use crate::state::image::{RestoreParameters, StateImage};
use crate::*;
use image::ImageError;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

const FILE: u32 = 1;
const BOTH: u32 = 3;

/// Makes an image, encodes it, and restores the state.
pub(super) fn again(state: &TestState) -> TestState {
    let (bytes, payloads) = encoded(state);
    let restored = restored(&bytes, &payloads, state.limits()).unwrap();
    assert_eq!(encoded(&restored), (bytes, payloads), "the image of a restored state is the same");
    // A change in progress makes a file known; those that continue begin theirs again.
    let counts = |state: &TestState| Counts { files: 0, ..state.counts() };
    assert_eq!(counts(&restored), counts(state));
    restored
}

fn encoded(state: &TestState) -> (Vec<u8>, Vec<u64>) {
    let mut payloads = Vec::new();
    let image = state.image(
        |name| *name,
        |_, payload| {
            payloads.push(*payload);
            payloads.len() as u32 - 1
        },
    );
    (image::encode(&image.unwrap()).to_vec(), payloads)
}

fn restored(bytes: &[u8], payloads: &[u64], limits: &Limits) -> core::result::Result<TestState, ImageError> {
    let image: StateImage<u32> = image::decode(bytes)?;
    let with = RestoreParameters {
        limits: limits.clone(),
        principal_key: PRINCIPAL_KEY,
        view: |_| 0,
        quotas: Arc::new(NoQuotas),
    };
    let payload = |_: &u32, number: u32| {
        payloads.get(number as usize).copied().ok_or(ImageError::Inconsistent("a payload"))
    };
    State::restore(image, with, Ok, payload)
}

impl World {
    /// Goes on with the state that the next process would have.
    pub(super) fn upgrade(&mut self) {
        let _ = self.records();
        let _ = self.state.locks().take_unlocked();
        self.state = Shared::new(again(self.shared()));
    }
}

#[test]
fn a_cached_reply_is_repeated_and_a_slot_goes_on_after_an_upgrade() {
    // RFC 8881 section 2.10.6.2
    let mut world = World::new();
    let mut client = world.ready("client");
    let args = client.args();
    let begun = world.begin(&mut client);
    world.state.sessions().finish(begun.token, Some(b"reply"));
    world.upgrade();
    let sequenced = world.sequence(&client, args).unwrap();
    assert!(matches!(sequenced, Sequenced::Replay(reply) if *reply == *b"reply"));
    let other = Sequence { fingerprint: 99, ..args };
    let refused = world.sequence(&client, other).unwrap_err();
    assert_eq!(refused, nfs4::Nfsstat4::NFS4ERR_SEQ_FALSE_RETRY);
    world.renew(&mut client);
    world.upgrade();
    world.renew(&mut client);
}

#[test]
fn a_shorter_lease_waits_for_a_restart() {
    // RFC 8881 section 8.4.2: clients ask for the lease only with a new client ID
    let mut world = World::new();
    let silent = world.ready("silent");
    world.open(&silent, "o", FILE, BOTH, BOTH).unwrap();
    let _ = world.records();
    let (bytes, payloads) = encoded(world.shared());
    let with = |lease| {
        let limits = Limits { lease: Duration::from_secs(lease), ..world.shared().limits().clone() };
        restored(&bytes, &payloads, &limits).unwrap()
    };
    assert_eq!(with(90).limits().lease, Duration::from_secs(90));
    world.state = Shared::new(with(5));
    world.pass(59);
    assert!(!world.state.free_expired(world.now, FILE), "it was told 60 seconds");
    world.pass(1);
    assert!(world.state.free_expired(world.now, FILE));
}

#[test]
fn stateids_stay_valid_and_used_ones_never_come_back() {
    // RFC 8881 section 8.2
    let mut world = World::new();
    let client = world.ready("client");
    let gone = world.open(&client, "owner", 1, 3, 0).unwrap();
    let key = world.key(&client);
    world.state.close(key, &gone, &1).unwrap();
    let stays = world.open(&client, "owner", 2, 3, 0).unwrap();
    world.upgrade();
    assert_eq!(world.key(&client), key);
    assert!(world.state.access(key, &stays, &2, 3).is_ok());
    for file in 10..200 {
        let opened = world.open(&client, "owner", file, 1, 0).unwrap();
        assert!(opened.other != gone.other && opened.other != stays.other);
    }
}

#[test]
fn the_ranges_of_a_lock_owner_under_opens_of_two_users_count_for_one_of_them_at_a_time() {
    for first in [0, 1] {
        let mut world = World::new();
        let client = world.ready("a");
        let key = world.key(&client);
        let users = ["alice", "bob"]
            .map(|name| TestClient { principal: Principal::new(format!("gss:{name}@R")), ..client.clone() });
        let opens = [0, 1].map(|user| world.open(&users[user], &format!("o{user}"), FILE, BOTH, 0).unwrap());
        for (open_stateid, offset) in [(opens[0], 0), (opens[1], 100), (opens[0], 200)] {
            let locker = Locker::New { open_stateid, owner: b"p" };
            world.lock(&client, locker, FILE, LockMode::Write, (offset, 10)).unwrap();
        }
        world.upgrade();
        world.state.close(key, &opens[first], &FILE).unwrap();
        assert_eq!(world.state.counts().ranges, 3, "its other stateid keeps them");
        world.upgrade();
        world.state.close(key, &opens[1 - first], &FILE).unwrap();
        assert_eq!((world.state.counts().ranges, world.state.counts().lock_stateids), (0, 0));
        world.upgrade();
        for user in &users {
            let open_stateid = world.open(user, "again", FILE, BOTH, 0).unwrap();
            let locker = Locker::New { open_stateid, owner: b"q" };
            let stateid = world.lock(user, locker, FILE, LockMode::Write, (0, 10)).unwrap();
            world.state.locku(key, &stateid, &FILE, 0, 10).unwrap();
        }
    }
}

#[test]
fn a_state_with_a_running_request_has_no_image() {
    let mut world = World::new();
    let mut client = world.ready("client");
    let _ = world.records();
    let begun = world.begin(&mut client);
    let image = world.shared().image(|name| *name, |_, _| 0);
    assert_eq!(image.unwrap_err(), ImageError::Busy("a request"));
    world.state.sessions().finish(begun.token, None);
    assert!(world.shared().image(|name| *name, |_, _| 0).is_ok());
}

#[test]
fn a_callback_in_flight_keeps_its_slot() {
    // RFC 8881 section 2.10.6.2
    let mut world = World::new();
    let client = world.ready("client");
    let key = world.key(&client);
    let call = world.state.callbacks().begin_callback(key).unwrap();
    let image = call.image().unwrap();
    world.upgrade();
    let again = world.state.callbacks().restore_call(image.clone()).unwrap();
    assert_eq!((again.slotid, again.sequenceid), (call.slotid, call.sequenceid));
    assert!(world.state.callbacks().restore_call(image).is_err(), "its slot is taken");
    let other = world.state.callbacks().begin_callback(key).unwrap();
    assert_ne!(other.slotid, again.slotid);
    world.state.callbacks().end_callback(again, CallbackEnd::Answered);
    world.state.callbacks().end_callback(other, CallbackEnd::Answered);
}

#[test]
fn the_grace_period_and_the_right_to_reclaim_go_on() {
    // RFC 8881 section 8.4.2
    let mut world = World::with(Limits::default(), boot(2, &[b"client"]));
    let mut client = TestClient::new("client");
    world.mount(&mut client);
    world.upgrade();
    assert!(world.state.leases().in_grace());
    world.open_as(&client, "owner", 1, 3, 0, OpenClaim::Previous).unwrap();
    let key = world.key(&client);
    world.state.reclaim_complete(world.now, key, false).unwrap();
    assert!(!world.state.leases().in_grace());
}

proptest! {
    #[test]
    fn arbitrary_changes_of_an_image_are_refused_or_give_a_sound_state(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut world = World::new();
        let client = world.ready("client");
        world.open(&client, "owner", 1, 3, 0).unwrap();
        let _ = world.records();
        let (mut bytes, payloads) = encoded(world.shared());
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(state) = restored(&bytes, &payloads, &Limits::default()) {
            again(&state);
        }
    }
}
