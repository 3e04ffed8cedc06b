//! Maps principals and owners by rule, with tables and with a source that counts and fails.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use orthrus_identity::{
    Identity, IdentitySource, Mapper, NoAccount, OwnerError, PrincipalError, Rules, SourceError,
    StaticSource, Unknown, Wait,
};

const T0: Duration = Duration::ZERO;

fn table() -> StaticSource {
    StaticSource::default()
        .with_user("root", 0, 0, &[])
        .with_user("alice", 5001, 5001, &(6000..6100).collect::<Vec<_>>())
        .with_user("toor", 0, 0, &[])
        .with_user("nfsd", 700, 700, &[])
        .with_group("staff", 50)
}

fn mapper() -> Mapper {
    Mapper::new(Rules::new("example.org", "EXAMPLE.ORG"), table())
}

/// Asks a mapper, and waits as long as its rules permit.
fn waited<T>(mapper: &Mapper, ask: impl FnOnce(Wait<'_>) -> Option<T>) -> T {
    ask(Wait::Within(&Cell::new(mapper.lookup_wait_max()))).expect("the wait is permitted")
}

fn owner_of_uid(mapper: &Mapper, uid: u32, now: Duration) -> String {
    waited(mapper, |wait| mapper.owner_of_uid_within(uid, now, wait))
}

fn owner_of_gid(mapper: &Mapper, gid: u32, now: Duration) -> String {
    waited(mapper, |wait| mapper.owner_of_gid_within(gid, now, wait))
}

fn uid_of_owner(mapper: &Mapper, owner: &[u8], now: Duration) -> Result<u32, OwnerError> {
    waited(mapper, |wait| mapper.uid_of_owner_within(owner, now, wait))
}

fn gid_of_owner(mapper: &Mapper, owner: &[u8], now: Duration) -> Result<u32, OwnerError> {
    waited(mapper, |wait| mapper.gid_of_owner_within(owner, now, wait))
}

#[test]
fn a_user_of_an_accepted_realm_is_the_local_user_with_all_groups() {
    let mapped = mapper().principal("alice@EXAMPLE.ORG", T0).unwrap();
    let identity = mapped.identity.unwrap();
    assert_eq!((identity.uid, identity.gid, identity.groups.len()), (5001, 5001, 100));
    assert!(!mapped.machine);
}

#[test]
fn users_of_other_realms_and_unknown_users_are_nobody() {
    for text in ["alice@OTHER.ORG", "alice@example.org", "alice", "carol@EXAMPLE.ORG", "", "@", "a@b@c"] {
        let mapped = mapper().principal(text, T0).unwrap();
        assert!(mapped.identity.is_err(), "{text:?}");
    }
}

#[test]
fn a_rule_gives_names_with_a_domain_and_a_principal_cannot_choose_the_domain() {
    let mapped = |rule: &str, principal: &str| {
        let mut rules = Rules::new("example.org", "EXAMPLE.ORG");
        rules.realms.push("AD.EXAMPLE.ORG".into());
        rules.local = vec![rule.parse().unwrap()];
        let table = table().with_user("alice@ad.example.org", 5002, 5002, &[]).with_user(
            r"AD\alice",
            5003,
            5003,
            &[],
        );
        let mapped = Mapper::new(rules, table).principal(principal, T0).unwrap();
        mapped.identity.map(|identity| identity.uid)
    };
    let sssd = r"RULE:[1:$1@$0](.*@AD\.EXAMPLE\.ORG)s/@.*/@ad.example.org/";
    assert_eq!(mapped(sssd, "alice@AD.EXAMPLE.ORG"), Ok(5002));
    assert_eq!(mapped(r"RULE:[1:AD\$1]", "alice@AD.EXAMPLE.ORG"), Ok(5003));
    for rule in ["DEFAULT", "RULE:[1:$1]"] {
        for principal in [r"alice\@ad.example.org@EXAMPLE.ORG", r"AD\\alice@EXAMPLE.ORG"] {
            assert_eq!(mapped(rule, principal), Err(NoAccount::Name), "{rule} {principal}");
        }
    }
}

#[test]
fn no_principal_becomes_uid_0_by_its_name() {
    for text in ["root@EXAMPLE.ORG", "toor@EXAMPLE.ORG", "root/admin@EXAMPLE.ORG", r"\root@EXAMPLE.ORG"] {
        assert!(mapper().principal(text, T0).unwrap().identity.is_err(), "{text}");
    }
}

#[test]
fn machine_principals_are_nobody_unless_configured() {
    let mut rules = Rules::new("example.org", "EXAMPLE.ORG");
    rules.unknown = Unknown::Refused;
    rules.principals.insert("host/backup.example.org@EXAMPLE.ORG".into(), "nfsd".into());
    let mapper = Mapper::new(rules.clone(), table());
    for text in
        ["nfs/root@EXAMPLE.ORG", "host/alice@EXAMPLE.ORG", "alice/x@EXAMPLE.ORG", "ALICE$@EXAMPLE.ORG"]
    {
        // A machine's principal is accepted even if unknown users are refused: a mount begins with
        // it.
        let mapped = mapper.principal(text, T0).unwrap();
        assert_eq!((mapped.identity, mapped.machine), (Err(NoAccount::Machine), true), "{text}");
    }
    // Any realm that the KDC trusts has machines, and anonymous users look like one (RFC 8062).
    let anonymous = ["WELLKNOWN/ANONYMOUS@WELLKNOWN:ANONYMOUS", "WELLKNOWN/ANONYMOUS@EXAMPLE.ORG"];
    for text in ["host/alice@OTHER.ORG"].into_iter().chain(anonymous) {
        let refused = mapper.principal(text, T0);
        assert!(matches!(refused, Err(PrincipalError::Refused(..))), "{text}: {refused:?}");
    }
    let machine_realms = vec!["OTHER.ORG".to_owned()];
    let wider = Mapper::new(Rules { machine_realms, ..rules.clone() }, table());
    assert!(wider.principal("host/alice@OTHER.ORG", T0).is_ok());
    assert!(wider.principal("alice@OTHER.ORG", T0).is_err(), "no user of that realm");
    let backup = mapper.principal("host/backup.example.org@EXAMPLE.ORG", T0).unwrap();
    assert_eq!((backup.identity.unwrap().uid, backup.machine), (700, true));
}

#[test]
fn unknown_users_are_refused_where_the_rules_say_so() {
    let mapper =
        Mapper::new(Rules { unknown: Unknown::Refused, ..Rules::new("example.org", "EXAMPLE.ORG") }, table());
    let refused = mapper.principal("carol@EXAMPLE.ORG", T0);
    let why = NoAccount::Unknown("carol".into());
    assert_eq!(refused, Err(PrincipalError::Refused("carol@EXAMPLE.ORG".into(), why)));
    assert!(mapper.principal("alice@EXAMPLE.ORG", T0).is_ok());
}

#[test]
fn owners_go_both_ways() {
    // RFC 8881 section 5.9
    let mapper = mapper();
    assert_eq!(owner_of_uid(&mapper, 5001, T0), "alice@example.org");
    assert_eq!(owner_of_uid(&mapper, 4242, T0), "4242");
    assert_eq!(owner_of_gid(&mapper, 50, T0), "staff@example.org");
    assert_eq!(owner_of_gid(&mapper, 51, T0), "51");
    assert_eq!(uid_of_owner(&mapper, b"alice@example.org", T0), Ok(5001));
    assert_eq!(uid_of_owner(&mapper, b"4242", T0), Ok(4242));
    assert_eq!(gid_of_owner(&mapper, b"staff@EXAMPLE.ORG", T0), Ok(50));
    assert_eq!(uid_of_owner(&mapper, b"carol@example.org", T0), Err(OwnerError::Unknown));
    assert_eq!(uid_of_owner(&mapper, b"\xff", T0), Err(OwnerError::Malformed));
}

#[derive(Clone, Default)]
struct CountingSource(Arc<AtomicUsize>);

impl CountingSource {
    fn failing(&self) -> SourceError {
        self.0.fetch_add(1, Ordering::Relaxed);
        SourceError { what: "x".into(), why: "down".into() }
    }
}

impl IdentitySource for CountingSource {
    fn identity(&self, _: &str) -> Result<Option<Identity>, SourceError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Identity { uid: 1, gid: 1, groups: [].into() }))
    }
    fn uid(&self, _: &str) -> Result<Option<u32>, SourceError> {
        Err(self.failing())
    }
    fn gid(&self, _: &str) -> Result<Option<u32>, SourceError> {
        Err(self.failing())
    }
    fn user(&self, _: u32) -> Result<Option<String>, SourceError> {
        Err(self.failing())
    }
    fn group(&self, _: u32) -> Result<Option<String>, SourceError> {
        Err(self.failing())
    }
}

#[test]
fn a_mapping_is_looked_up_once_until_it_expires() {
    let source = CountingSource::default();
    let mapper = Mapper::new(Rules::new("d", "R"), source.clone());
    for _ in 0..10 {
        mapper.principal("alice@R", T0).unwrap();
    }
    assert_eq!(source.0.load(Ordering::Relaxed), 1);
    mapper.principal("alice@R", T0 + Rules::default().expiry + Duration::from_secs(1)).unwrap();
    assert_eq!(source.0.load(Ordering::Relaxed), 2);
    mapper.forget();
    mapper.principal("alice@R", T0).unwrap();
    assert_eq!(source.0.load(Ordering::Relaxed), 3);
}

#[test]
fn a_failing_name_service_is_an_error_for_setattr_and_a_number_for_getattr() {
    let source = CountingSource::default();
    let mapper = Mapper::new(Rules::new("d", "R"), source.clone());
    assert!(matches!(uid_of_owner(&mapper, b"alice@d", T0), Err(OwnerError::Source(_))));
    for _ in 0..10 {
        assert_eq!(owner_of_uid(&mapper, 7, T0), "7");
    }
    assert_eq!(source.0.load(Ordering::Relaxed), 2);
}

/// A source that fails while its switch is on.
#[derive(Clone, Default)]
struct FailingSource(Arc<AtomicUsize>);

impl FailingSource {
    fn unless_down<T>(&self, answer: T) -> Result<Option<T>, SourceError> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(Some(answer)),
            _ => Err(SourceError { what: "x".into(), why: "down".into() }),
        }
    }
}

impl IdentitySource for FailingSource {
    fn identity(&self, _: &str) -> Result<Option<Identity>, SourceError> {
        self.unless_down(Identity { uid: 1, gid: 1, groups: [].into() })
    }
    fn uid(&self, _: &str) -> Result<Option<u32>, SourceError> {
        self.unless_down(1)
    }
    fn gid(&self, _: &str) -> Result<Option<u32>, SourceError> {
        self.unless_down(1)
    }
    fn user(&self, uid: u32) -> Result<Option<String>, SourceError> {
        self.unless_down(format!("u{uid}"))
    }
    fn group(&self, gid: u32) -> Result<Option<String>, SourceError> {
        self.unless_down(format!("g{gid}"))
    }
}

#[test]
fn previous_answers_stand_in_for_a_source_that_fails() {
    let source = FailingSource::default();
    let mapper = Mapper::new(Rules::new("d", "R"), source.clone());
    let all = |now| {
        let user = mapper.principal("alice@R", now).map(|mapped| mapped.identity.unwrap().uid);
        let ids = (uid_of_owner(&mapper, b"u1@d", now), gid_of_owner(&mapper, b"g1@d", now));
        (user, ids, owner_of_uid(&mapper, 7, now), owner_of_gid(&mapper, 7, now))
    };
    let good = (Ok(1), (Ok(1), Ok(1)), "u7@d".to_owned(), "g7@d".to_owned());
    assert_eq!(all(T0), good);
    source.0.store(1, Ordering::Relaxed);
    let later = T0 + 2 * Rules::default().expiry;
    assert_eq!(all(later), good);
    assert_eq!(all(later + Rules::default().absence_expiry * 2), good, "also after a second failure");
    assert!(mapper.counts().failed >= 10);
    let (user, (uid, gid), owner, group) =
        all(T0 + Rules::default().stale_expiry + 2 * Rules::default().expiry);
    assert!(matches!(user, Err(PrincipalError::Source(_))), "{user:?}");
    assert!(
        matches!((&uid, &gid), (Err(OwnerError::Source(_)), Err(OwnerError::Source(_)))),
        "{uid:?} {gid:?}"
    );
    assert_eq!((&*owner, &*group), ("7", "7"));
}
