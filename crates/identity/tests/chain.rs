//! Several sources, each for the realms that it names, behind rules from principals to users.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use orthrus_identity::{
    AccountAnswer, AccountSource, Identity, IdentitySource, Mapper, NoAccount, PrincipalError, Rules,
    SourceError, StaticSource, Wait,
};
use std::cell::Cell;
use std::time::Duration;

const T0: Duration = Duration::ZERO;

/// A source that is down.
struct DownSource;

impl DownSource {
    fn fails<T>() -> Result<T, SourceError> {
        Err(SourceError { what: "it".to_owned(), why: "the directory is down".to_owned() })
    }
}

impl IdentitySource for DownSource {
    fn identity(&self, _: &str) -> Result<Option<Identity>, SourceError> {
        Self::fails()
    }
    fn uid(&self, _: &str) -> Result<Option<u32>, SourceError> {
        Self::fails()
    }
    fn gid(&self, _: &str) -> Result<Option<u32>, SourceError> {
        Self::fails()
    }
    fn user(&self, _: u32) -> Result<Option<String>, SourceError> {
        Self::fails()
    }
    fn group(&self, _: u32) -> Result<Option<String>, SourceError> {
        Self::fails()
    }
}

fn source(name: &str, realms: &[&str], accounts: impl IdentitySource + 'static) -> AccountSource {
    let realms = realms.iter().map(|realm| (*realm).to_owned()).collect();
    AccountSource { name: name.to_owned(), realms, accounts: Box::new(accounts) }
}

fn table(users: &[(&str, u32)]) -> StaticSource {
    users.iter().fold(StaticSource::default(), |table, (name, id)| table.with_user(name, *id, *id, &[]))
}

fn rules(local: &[&str]) -> Rules {
    let local = local.iter().map(|rule| rule.parse().unwrap()).collect();
    Rules { realms: vec!["A".to_owned(), "B".to_owned()], local, ..Rules::new("d", "A") }
}

fn uid(mapper: &Mapper, principal: &str) -> Result<u32, NoAccount> {
    mapper.principal(principal, T0).unwrap().identity.map(|identity| identity.uid)
}

#[test]
fn the_first_source_that_serves_the_realm_and_has_the_account_counts() {
    let sources = vec![
        source("table", &[], table(&[("alice", 1), ("root", 0)])),
        source("a", &["A"], table(&[("alice", 2), ("bob", 3)])),
        source("b", &["B"], table(&[("bob", 4), ("carol", 5)])),
    ];
    let mapper = Mapper::with_sources(rules(&["DEFAULT"]), sources);
    assert_eq!(
        [uid(&mapper, "alice@A"), uid(&mapper, "bob@A"), uid(&mapper, "bob@B")],
        [Ok(1), Ok(3), Ok(4)]
    );
    assert_eq!(uid(&mapper, "carol@A"), Err(NoAccount::Unknown("carol".into())), "a source of another realm");
    assert_eq!(uid(&mapper, "alice@C"), Err(NoAccount::Realm("C".into())));
    assert_eq!(uid(&mapper, "root@A"), Err(NoAccount::Superuser));
    let left = Cell::new(mapper.lookup_wait_max());
    let owner = mapper.owner_of_uid_within(4, T0, Wait::Within(&left));
    assert_eq!(owner.as_deref(), Some("bob@d"));
}

#[test]
fn a_source_that_fails_is_not_skipped() {
    let sources = vec![
        source("table", &[], table(&[("alice", 1)])),
        source("down", &["A"], DownSource),
        source("last", &[], table(&[("bob", 4)])),
    ];
    let mapper = Mapper::with_sources(rules(&["DEFAULT"]), sources);
    assert_eq!((uid(&mapper, "alice@A"), uid(&mapper, "bob@B")), (Ok(1), Ok(4)));
    let failed = mapper.principal("bob@A", T0);
    assert!(matches!(failed, Err(PrincipalError::Source(_))), "it could be another bob: {failed:?}");
}

#[test]
fn rules_apply_in_order_and_only_to_realms_of_the_list() {
    let all = table(&[("alice", 1), ("b_alice", 2), ("nobody0", 0)]);
    let partner = r"RULE:[1:$1@$0](.*@(B|C))s/@.*//s/^/b_/";
    let mut rules = rules(&[partner, "RULE:[2:$1](alice)", "RULE:[1:$1](zero)s/.*/nobody0/", "DEFAULT:A"]);
    let mapper = Mapper::with_sources(rules.clone(), vec![source("table", &[], all.clone())]);
    assert_eq!((uid(&mapper, "alice@A"), uid(&mapper, "alice@B")), (Ok(1), Ok(2)));
    assert_eq!(uid(&mapper, "alice/admin@A"), Ok(1), "a rule may map a principal with an instance");
    assert_eq!(uid(&mapper, "host/alice@A"), Err(NoAccount::Machine));
    assert_eq!(uid(&mapper, "alice@C"), Err(NoAccount::Realm("C".into())), "whatever the rules match");
    assert_eq!(uid(&mapper, "zero@A"), Err(NoAccount::Superuser), "no rule gives uid 0");
    rules.local.pop();
    let mapper = Mapper::with_sources(rules, vec![source("table", &[], all)]);
    assert_eq!(uid(&mapper, "alice@A"), Err(NoAccount::Rule));
}

/// A source whose entries are no accounts.
struct EntrySource(fn(&str) -> AccountAnswer);

impl IdentitySource for EntrySource {
    fn of_user(&self, user: &str) -> Result<AccountAnswer, SourceError> {
        Ok((self.0)(user))
    }
    fn identity(&self, _: &str) -> Result<Option<Identity>, SourceError> {
        Ok(None)
    }
    fn uid(&self, _: &str) -> Result<Option<u32>, SourceError> {
        Ok(None)
    }
    fn gid(&self, _: &str) -> Result<Option<u32>, SourceError> {
        Ok(None)
    }
    fn user(&self, _: u32) -> Result<Option<String>, SourceError> {
        Ok(None)
    }
    fn group(&self, _: u32) -> Result<Option<String>, SourceError> {
        Ok(None)
    }
}

#[test]
fn an_entry_that_is_no_account_gives_the_reason_unless_a_later_source_has_the_account() {
    let incomplete = EntrySource(|user| AccountAnswer::Unusable(format!("cn={user} has no uidNumber")));
    let sources = vec![source("directory", &[], incomplete), source("table", &[], table(&[("alice", 1)]))];
    let mapper = Mapper::with_sources(rules(&["DEFAULT"]), sources);
    assert_eq!(uid(&mapper, "alice@A"), Ok(1));
    let why = NoAccount::Unusable("carol".into(), "cn=carol has no uidNumber".into());
    assert_eq!(uid(&mapper, "carol@A"), Err(why.clone()));
    assert_eq!(why.to_string(), "the account \"carol\" cannot be used: cn=carol has no uidNumber");
    let steps = mapper.explain("carol@A").steps;
    assert!(steps.iter().any(|step| step.text == "no account: cn=carol has no uidNumber"), "{steps:?}");
}

#[test]
fn no_later_source_gives_an_account_to_a_disabled_user() {
    let disabling = EntrySource(|user| match user {
        "alice" => AccountAnswer::Disabled("cn=alice is disabled".to_owned()),
        _ => AccountAnswer::Absent,
    });
    let later = table(&[("alice", 1), ("bob", 2)]);
    let sources = vec![source("directory", &["A"], disabling), source("table", &[], later)];
    let mut rules = rules(&["DEFAULT"]);
    rules.principals.insert("boss@X".into(), "alice".into());
    let mapper = Mapper::with_sources(rules, sources);
    let why = NoAccount::Unusable("alice".into(), "cn=alice is disabled".into());
    assert_eq!((uid(&mapper, "alice@A"), uid(&mapper, "boss@X")), (Err(why.clone()), Err(why)));
    assert_eq!(uid(&mapper, "bob@A"), Ok(2));
    assert_eq!(uid(&mapper, "alice@B"), Ok(1), "the directory is of another realm");
    let steps = mapper.explain("alice@A").steps;
    assert_eq!(steps.last().unwrap().text, "no account: cn=alice is disabled");
}

#[test]
fn an_explanation_has_each_step() {
    let sources = vec![
        source("b", &["B"], table(&[("alice", 9)])),
        source("a", &["A"], table(&[])),
        source("table", &[], table(&[("alice", 1)])),
        source("down", &[], DownSource),
    ];
    let mut rules = rules(&["DEFAULT"]);
    rules.principals.insert("boss@X".into(), "alice".into());
    let mapper = Mapper::with_sources(rules, sources);
    let steps = |principal: &str| {
        let steps = mapper.explain(principal).steps;
        steps.into_iter().map(|step| format!("{}: {}", step.kind, step.text)).collect::<Vec<_>>()
    };
    let expected = [
        "realm: A is in `realms`",
        "rule: DEFAULT gives user \"alice\"",
        "source: b: not for this realm",
        "source: a",
        "query: user alice",
        "answer: no such account",
        "source: table",
        "query: user alice",
        "answer: uid 1, gid 1, 0 groups",
    ];
    assert_eq!(steps("alice@A"), expected);
    assert_eq!(mapper.explain("alice@A").account.unwrap().unwrap().uid, 1);
    assert!(
        steps("boss@X").contains(&"rule: [principals] \"boss@X\" = \"alice\" gives user \"alice\"".into())
    );
    assert_eq!(
        steps("eve@X"),
        ["realm: X is not in `realms`", &*format!("rule: {}", NoAccount::Realm("X".into()))]
    );
    assert!(steps("carol@A").last().unwrap().contains("unavailable: the lookup of it failed"));
    assert!(mapper.explain("carol@A").account.is_err());
}

#[test]
fn a_cached_account_is_explained_with_its_age_and_not_looked_up() {
    let directory = || source("table", &[], table(&[("alice", 1)]));
    let mapper = Mapper::with_sources(rules(&["DEFAULT"]), vec![directory()]);
    let second = Duration::from_secs(1);
    let texts = |principal: &str, now| {
        let explanation = mapper.explain_cached(principal, now);
        let steps = explanation.steps.iter().map(|step| step.text.clone()).collect::<Vec<_>>();
        (steps, explanation.cached.map(|cached| (cached.age, cached.stale)))
    };
    let live = mapper.explain("alice@A").steps;
    let (first, age) = texts("alice@A", second);
    assert_eq!(first[..4], live.iter().map(|step| step.text.clone()).collect::<Vec<_>>()[..4]);
    assert_eq!((first.last().unwrap().as_str(), age), ("0 s old, fresh for 300 s", Some((T0, false))));
    // The source is gone, and the answer is the cached one.
    mapper.replace(rules(&["DEFAULT"]), vec![source("down", &[], DownSource)], true);
    let (then, age) = texts("alice@A", 41 * second);
    assert_eq!(age, Some((40 * second, true)));
    assert!(then.last().unwrap().starts_with("40 s old, stale"), "{then:?}");
    assert_eq!(mapper.explain_cached("alice@A", 42 * second).account.unwrap().unwrap().uid, 1);
    let (steps, age) = texts("carol@A", second);
    assert!(steps.last().unwrap().contains("the directory is down") && age.is_none(), "{steps:?}");
    let (steps, age) = texts("eve@X", second);
    assert!(steps[0].contains("is not in `realms`") && age.is_none());
}

#[test]
fn replaced_sources_answer_at_once_and_old_answers_stand_in_only_for_the_same_ones() {
    let mapper = Mapper::with_sources(rules(&["DEFAULT"]), vec![source("one", &[], table(&[("alice", 1)]))]);
    assert_eq!(uid(&mapper, "alice@A"), Ok(1));
    let generation = mapper.generation();
    mapper.replace(rules(&["DEFAULT:B"]), vec![source("two", &[], table(&[("alice", 2)]))], false);
    assert_ne!(mapper.generation(), generation);
    assert_eq!((uid(&mapper, "alice@B"), uid(&mapper, "alice@A")), (Ok(2), Err(NoAccount::Rule)));
    let down = || vec![source("down", &[], DownSource)];
    mapper.replace(rules(&["DEFAULT:B"]), down(), true);
    assert_eq!(uid(&mapper, "alice@B"), Ok(2), "it stands in");
    mapper.replace(rules(&["DEFAULT:B"]), down(), false);
    let failed = mapper.principal("alice@B", T0);
    assert!(matches!(failed, Err(PrincipalError::Source(_))), "it may be of another source: {failed:?}");
}
