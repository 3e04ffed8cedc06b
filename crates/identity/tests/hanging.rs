//! Owners while the name service hangs: callers that may wait do so for a bounded time, all others
//! return at once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use orthrus_identity::{
    Identity, IdentitySource, Mapper, NoAccount, OwnerError, PrincipalError, Rules, SourceError, Wait,
};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const T0: Duration = Duration::from_secs(1000);
/// Time limit of each step, long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A directory that answers while its gate is open.
#[derive(Default)]
struct DirectoryGate {
    open: Mutex<bool>,
    changed: Condvar,
    calls: AtomicUsize,
    inside: AtomicUsize,
    most_inside: AtomicUsize,
}

impl DirectoryGate {
    fn set(&self, open: bool) {
        *self.open.lock().unwrap() = open;
        self.changed.notify_all();
    }

    fn pass(&self) {
        self.calls.fetch_add(1, SeqCst);
        self.most_inside.fetch_max(self.inside.fetch_add(1, SeqCst) + 1, SeqCst);
        let open = self.changed.wait_while(self.open.lock().unwrap(), |open| !*open);
        drop(open);
        self.inside.fetch_sub(1, SeqCst);
    }
}

#[derive(Clone, Default)]
struct GatedDirectory(Arc<DirectoryGate>);

impl IdentitySource for GatedDirectory {
    fn identity(&self, user: &str) -> Result<Option<Identity>, SourceError> {
        // Users of the file are known although the rest of the directory hangs.
        if !user.starts_with("file") {
            self.0.pass();
        }
        Ok((!user.contains("absent")).then(|| Identity { uid: 7, gid: 7, groups: [7].into() }))
    }
    fn uid(&self, user: &str) -> Result<Option<u32>, SourceError> {
        self.0.pass();
        Ok(user.strip_prefix('u').and_then(|number| number.parse().ok()))
    }
    fn gid(&self, group: &str) -> Result<Option<u32>, SourceError> {
        self.0.pass();
        Ok(group.strip_prefix('g').and_then(|number| number.parse().ok()))
    }
    fn user(&self, uid: u32) -> Result<Option<String>, SourceError> {
        self.0.pass();
        Ok(Some(format!("u{uid}")))
    }
    fn group(&self, gid: u32) -> Result<Option<String>, SourceError> {
        self.0.pass();
        Ok(Some(format!("g{gid}")))
    }
}

fn world(open: bool) -> (GatedDirectory, Mapper) {
    let directory = GatedDirectory::default();
    directory.0.set(open);
    (directory.clone(), Mapper::new(Rules::new("d", "R"), directory))
}

/// Asks a mapper, and waits as long as its rules permit.
fn waited<T>(mapper: &Mapper, ask: impl FnOnce(Wait<'_>) -> Option<T>) -> T {
    ask(Wait::Within(&Cell::new(mapper.lookup_wait_max()))).expect("the wait is permitted")
}

fn owner_of_uid(mapper: &Mapper, uid: u32, now: Duration) -> String {
    waited(mapper, |wait| mapper.owner_of_uid_within(uid, now, wait))
}

fn uid_of_owner(mapper: &Mapper, owner: &[u8], now: Duration) -> Result<u32, OwnerError> {
    waited(mapper, |wait| mapper.uid_of_owner_within(owner, now, wait))
}

#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn callers_that_may_not_wait_are_refused_until_the_answer_is_there() {
    let (directory, mapper) = world(false);
    for _ in 0..3 {
        assert_eq!(mapper.owner_of_uid_within(7, T0, Wait::Never), None);
        assert_eq!(mapper.owner_of_gid_within(7, T0, Wait::Never), None);
        assert_eq!(mapper.uid_of_owner_within(b"u8@d", T0, Wait::Never), None);
        assert_eq!(mapper.gid_of_owner_within(b"g8@d", T0, Wait::Never), None);
    }
    assert_eq!(mapper.uid_of_owner_within(b"8", T0, Wait::Never), Some(Ok(8)), "a number needs no directory");
    let malformed = mapper.uid_of_owner_within(b"a/b", T0, Wait::Never);
    assert_eq!(malformed, Some(Err(OwnerError::Malformed)));
    directory.0.set(true);
    until("the name is known", || mapper.owner_of_uid_within(7, T0, Wait::Never).is_some());
    until("the group is known", || mapper.owner_of_gid_within(7, T0, Wait::Never).is_some());
    until("the uid is known", || mapper.uid_of_owner_within(b"u8@d", T0, Wait::Never).is_some());
    until("the gid is known", || mapper.gid_of_owner_within(b"g8@d", T0, Wait::Never).is_some());
    assert_eq!(mapper.owner_of_uid_within(7, T0, Wait::Never).unwrap(), "u7@d");
    assert_eq!(mapper.uid_of_owner_within(b"u8@d", T0, Wait::Never), Some(Ok(8)));
    assert_eq!(directory.0.calls.load(SeqCst), 4, "each owner is looked up once, however many ask");
}

#[test]
fn waiting_callers_share_the_answer_of_the_lookup_in_flight() {
    let (directory, mapper) = world(false);
    assert_eq!(mapper.owner_of_uid_within(7, T0, Wait::Never), None);
    std::thread::scope(|scope| {
        let waits = || {
            let left = Cell::new(PATIENCE);
            mapper.owner_of_uid_within(7, T0, Wait::Within(&left))
        };
        let waiting = [(); 4].map(|()| scope.spawn(waits));
        directory.0.set(true);
        for thread in waiting {
            assert_eq!(thread.join().unwrap().as_deref(), Some("u7@d"));
        }
    });
    assert_eq!(directory.0.calls.load(SeqCst), 1);
}

#[test]
fn a_call_waits_once_for_all_of_its_owners() {
    let (directory, mapper) = world(false);
    let left = Cell::new(Duration::from_millis(50));
    for uid in 0..1000 {
        assert_eq!(mapper.owner_of_uid_within(uid, T0, Wait::Within(&left)), Some(uid.to_string()));
    }
    assert!(left.get().is_zero());
    let late = mapper.uid_of_owner_within(b"u8@d", T0, Wait::Within(&left));
    assert!(matches!(late, Some(Err(OwnerError::Source(_)))), "for a later try: {late:?}");
    directory.0.set(true);
    until("all are looked up meanwhile", || {
        (0..1000).all(|uid| mapper.owner_of_uid_within(uid, T0, Wait::Never) == Some(format!("u{uid}@d")))
    });
    assert!(directory.0.most_inside.load(SeqCst) <= 8, "a directory that hangs holds eight threads");
}

#[test]
fn lookups_fail_at_once_while_the_directory_hangs_for_long() {
    let (directory, mapper) = world(false);
    for uid in 0..20 {
        assert_eq!(mapper.owner_of_uid_within(uid, T0, Wait::Never), None);
    }
    until("numbers stand for names", || mapper.owner_of_uid_within(7, T0, Wait::Never).is_some());
    until("of new owners as well", || mapper.owner_of_uid_within(100_000, T0, Wait::Never).is_some());
    assert_eq!(mapper.owner_of_uid_within(100_000, T0, Wait::Never).unwrap(), "100000");
    directory.0.set(true);
    until("names are back", || mapper.owner_of_uid_within(7, T0, Wait::Never).as_deref() == Some("u7@d"));
}

#[test]
fn a_name_that_has_expired_stands_until_there_is_a_newer_one() {
    let (directory, mapper) = world(true);
    assert_eq!(owner_of_uid(&mapper, 7, T0), "u7@d");
    directory.0.set(false);
    let later = T0 + 2 * Rules::default().expiry;
    let left = Cell::new(Duration::from_millis(10));
    assert_eq!(mapper.owner_of_uid_within(7, later, Wait::Never), None);
    assert_eq!(mapper.owner_of_uid_within(7, later, Wait::Within(&left)).as_deref(), Some("u7@d"));
    directory.0.set(true);
}

#[test]
fn answers_to_questions_before_a_reload_are_not_used_after_it() {
    let (directory, mapper) = world(false);
    assert_eq!(mapper.owner_of_uid_within(7, T0, Wait::Never), None);
    until("it is asked", || directory.0.inside.load(SeqCst) == 1);
    mapper.forget();
    directory.0.set(true);
    until("it has answered", || directory.0.inside.load(SeqCst) == 0);
    assert_eq!(owner_of_uid(&mapper, 7, T0), "u7@d");
    assert_eq!(directory.0.calls.load(SeqCst), 2);
}

#[test]
fn lookups_in_flight_are_bounded() {
    let (directory, mapper) = world(false);
    let answers = (0..5000).filter(|uid| mapper.owner_of_uid_within(*uid, T0, Wait::Never).is_some()).count();
    assert!(answers >= 5000 - 4096, "what does not fit is answered by number");
    directory.0.set(true);
}

/// Rules that wait only a short time for lookups.
fn impatient() -> Rules {
    Rules { lookup_wait_max: Duration::from_millis(300), ..Rules::new("d", "R") }
}

#[test]
fn a_principal_waits_for_a_directory_that_hangs_in_bounds_and_never_becomes_nobody() {
    let directory = GatedDirectory::default();
    let mapper = Mapper::new(impatient(), directory.clone());
    assert_eq!(mapper.principal_within("alice@R", T0, Wait::Never), None);
    let began = Instant::now();
    for _ in 0..20 {
        let late = mapper.principal("alice@R", T0);
        assert!(matches!(late, Err(PrincipalError::Source(_))), "{late:?}");
    }
    assert!(began.elapsed() < PATIENCE / 10, "each waits for the rest of the same lookup");
    directory.0.set(true);
    until("the account is known", || mapper.principal("alice@R", T0).is_ok());
    assert_eq!(directory.0.calls.load(SeqCst), 1, "one lookup for all");
}

#[test]
fn other_accounts_are_found_while_one_directory_hangs() {
    let directory = GatedDirectory::default();
    let mapper = Mapper::new(impatient(), directory.clone());
    for user in 0..20 {
        assert_eq!(mapper.principal_within(&format!("u{user}@R"), T0, Wait::Never), None);
    }
    std::thread::sleep(2 * impatient().lookup_wait_max);
    for user in 0..20 {
        let began = Instant::now();
        let found = mapper.principal(&format!("file{user}@R"), T0).expect("its source works");
        assert_eq!(found.identity.map(|identity| identity.uid), Ok(7));
        assert!(began.elapsed() < PATIENCE);
        assert_eq!(
            mapper.owner_of_uid_within(user, T0, Wait::Never),
            None,
            "names have threads of their own"
        );
    }
    directory.0.set(true);
}

#[test]
fn the_previous_account_stands_in_for_a_directory_that_hangs_up_to_its_age() {
    let directory = GatedDirectory::default();
    let mapper = Mapper::new(impatient(), directory.clone());
    directory.0.set(true);
    mapper.principal("alice@R", T0).expect("it answers");
    let absent = mapper.principal("absent@R", T0).expect("it answers").identity;
    assert_eq!(absent, Err(NoAccount::Unknown("absent".into())));
    let asked = directory.0.calls.load(SeqCst);
    assert!(mapper.principal("absent@R", T0 + impatient().absence_expiry / 2).is_ok());
    assert_eq!(directory.0.calls.load(SeqCst), asked, "absence is cached, too");
    directory.0.set(false);
    let later = T0 + 2 * impatient().expiry;
    let found = mapper.principal("alice@R", later).expect("the previous account");
    assert_eq!(found.identity.map(|identity| identity.uid), Ok(7));
    let gone = mapper.principal("absent@R", later);
    assert!(matches!(gone, Err(PrincipalError::Source(_))), "it may have an account by now: {gone:?}");
    assert_eq!(mapper.counts().stale, 1);
    assert!(mapper.counts().late >= 2);
    let too_late = mapper.principal("alice@R", T0 + impatient().stale_expiry + Duration::from_secs(60));
    assert!(matches!(too_late, Err(PrincipalError::Source(_))), "{too_late:?}");
    directory.0.set(true);
}

#[test]
fn a_reload_while_the_directory_hangs_keeps_the_previous_answers() {
    let directory = GatedDirectory::default();
    let mapper = Mapper::new(impatient(), directory.clone());
    directory.0.set(true);
    mapper.principal("alice@R", T0).expect("it answers");
    assert_eq!(
        (owner_of_uid(&mapper, 7, T0), uid_of_owner(&mapper, b"u8@d", T0)),
        ("u7@d".to_owned(), Ok(8))
    );
    directory.0.set(false);
    mapper.forget();
    assert!(mapper.principal("alice@R", T0).is_ok());
    assert_eq!(
        (owner_of_uid(&mapper, 7, T0), uid_of_owner(&mapper, b"u8@d", T0)),
        ("u7@d".to_owned(), Ok(8))
    );
    directory.0.set(true);
}
