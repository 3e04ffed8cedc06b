//! The rules of exports and of the pseudo file system above them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use orthrus_vfs::{
    ANON_ID, Backend, Caller, ClientPeer, Export, ExportRule, ExportTable, Exports, ExportsError, FileType,
    MemoryBackend, MemoryLimits, NamedClients, PSEUDO_FSID, Place, RULES_MAX, RuleClient, RuleError,
    SecFlavor, Squash, Timestamp, export_id, normalise,
};
use std::{cell::Cell, fmt, net::IpAddr, sync::Arc, time::Duration};

const NOW: Timestamp = Timestamp { seconds: 1_800_000_000, nanoseconds: 5 };

fn backend() -> Arc<dyn Backend> {
    Arc::new(MemoryBackend::new(MemoryLimits { bytes_max: 1 << 20, objects_max: 100 }, [7; 16]).unwrap())
}

fn export(path: &str) -> Export {
    Export::new(path, backend()).unwrap()
}

fn table(exports: Vec<Export>) -> ExportTable {
    ExportTable::new(exports, NOW).unwrap()
}

fn peer(address: &str, port: u16) -> ClientPeer {
    ClientPeer { address: (address.parse::<IpAddr>().unwrap(), port).into(), now: Duration::ZERO }
}

fn client() -> ClientPeer {
    peer("192.0.2.1", 1023)
}

/// The rule for some networks, with the default terms.
fn rule(networks: &[&str]) -> ExportRule {
    let network = |text: &&str| RuleClient::Network(text.parse().unwrap());
    ExportRule { clients: networks.iter().map(network).collect(), ..ExportRule::default() }
}

fn with_flavors(rule: ExportRule, flavors: &[SecFlavor]) -> ExportRule {
    ExportRule { flavors: flavors.to_vec(), ..rule }
}

fn place(path: &str) -> Place {
    Place::Export(export_id(path))
}

fn names(table: &ExportTable, at: Place, client: ClientPeer) -> Vec<String> {
    let mut names: Vec<String> =
        table.pseudo().entries(at, 0, client).map(|entry| entry.name.to_owned()).collect();
    names.sort();
    names
}

#[test]
fn the_way_to_an_export_leads_through_pseudo_directories() /* RFC 8881 section 7.3 */
{
    let table = table(vec![export("/a/b/data"), export("/a/home"), export("/top")]);
    let (pseudo, from) = (table.pseudo(), client());
    let root = pseudo.root(from).unwrap();
    assert_eq!(names(&table, root, from), ["a", "top"]);
    assert_eq!(pseudo.lookup(root, b"top", from).unwrap(), Some(place("/top")));
    let a = pseudo.lookup(root, b"a", from).unwrap().unwrap();
    assert!(matches!(a, Place::Node(_)));
    assert_eq!(pseudo.lookup(a, b"home", from).unwrap(), Some(place("/a/home")));
    let b = pseudo.lookup(a, b"b", from).unwrap().unwrap();
    assert_eq!(pseudo.lookup(b, b"data", from).unwrap(), Some(place("/a/b/data")));
    assert_eq!(pseudo.lookup(b, b"nothing", from).unwrap(), None);
    assert_eq!(pseudo.lookup(b, b"\xff", from).unwrap(), None);
    assert_eq!(pseudo.parent(place("/a/b/data"), from).unwrap(), Some(b));
    assert_eq!(pseudo.parent(b, from).unwrap(), Some(a));
    assert_eq!(pseudo.parent(a, from).unwrap(), Some(root));
    assert_eq!(pseudo.parent(root, from).unwrap(), None);
}

#[test]
fn an_export_at_the_root_takes_the_place_of_the_pseudo_root() {
    let table = table(vec![export("/"), export("/x/data")]);
    let (pseudo, from) = (table.pseudo(), client());
    assert_eq!(pseudo.root(from).unwrap(), place("/"));
    assert_eq!(names(&table, place("/"), from), ["x"]);
    let x = pseudo.lookup(place("/"), b"x", from).unwrap().unwrap();
    assert_eq!(pseudo.lookup(x, b"data", from).unwrap(), Some(place("/x/data")));
    assert_eq!(pseudo.parent(x, from).unwrap(), Some(place("/")));
    assert_eq!(pseudo.parent(place("/"), from).unwrap(), None);
}

#[test]
fn an_export_inside_another_is_a_name_on_its_root() {
    let table = table(vec![export("/data"), export("/data/inner")]);
    let (pseudo, from) = (table.pseudo(), client());
    assert_eq!(pseudo.lookup(place("/data"), b"inner", from).unwrap(), Some(place("/data/inner")));
    assert_eq!(pseudo.parent(place("/data/inner"), from).unwrap(), Some(place("/data")));
}

#[test]
fn hidden_objects_do_not_exist_for_a_client() {
    let mut hidden = export("/secret/data");
    hidden.rules = vec![rule(&["10.0.0.0/8"])];
    let table = table(vec![hidden, export("/open")]);
    let (pseudo, inside) = (table.pseudo(), peer("::ffff:10.1.1.1", 1023));
    let root = pseudo.root(client()).unwrap();
    assert_eq!(names(&table, root, client()), ["open"]);
    assert_eq!(names(&table, root, inside), ["open", "secret"]);
    assert_eq!(pseudo.lookup(root, b"secret", client()).unwrap(), None);
    let Some(Place::Node(secret)) = pseudo.lookup(root, b"secret", inside).unwrap() else {
        panic!("a pseudo directory")
    };
    assert!(pseudo.contains(secret, inside).unwrap());
    assert!(!pseudo.contains(secret, client()).unwrap());
    assert_eq!(pseudo.lookup(Place::Node(secret), b"data", client()).unwrap(), None);
    assert!(!table.by_path("/secret/data").unwrap().admits(client()).unwrap());
}

#[test]
fn a_root_export_for_others_leaves_the_pseudo_root() {
    let mut root = export("/");
    root.rules = vec![rule(&["10.0.0.0/8"])];
    let table = table(vec![root, export("/open")]);
    let at = table.pseudo().root(client()).unwrap();
    assert!(matches!(at, Place::Node(_)));
    assert_eq!(names(&table, at, client()), ["open"]);
    assert_eq!(table.pseudo().parent(place("/open"), client()).unwrap(), Some(at));
}

/// Returns the flavors that an export offers to a client, and checks the pseudo root above it: it
/// is as open as the export, and no more.
fn usable(export: &Export, client: ClientPeer) -> Vec<SecFlavor> {
    let table = table(vec![export.clone()]);
    let rule = export.rule(export.rule_for(client).unwrap().expect("a rule names the client"));
    let flavors: Vec<_> = rule.flavors_for(client).collect();
    assert!(SecFlavor::ALL.iter().all(|one| rule.allows(*one, client) == flavors.contains(one)));
    let Place::Node(root) = table.pseudo().root(client).unwrap() else { panic!("a pseudo root") };
    assert_eq!(table.pseudo().flavors(root, client).unwrap(), flavors);
    let allows = |one| table.pseudo().allows(root, one, client).unwrap();
    assert!(SecFlavor::ALL.into_iter().all(|one| allows(one) == flavors.contains(&one)));
    flavors
}

#[test]
fn the_first_rule_that_names_a_client_decides_and_without_one_the_export_is_closed() {
    let mut home = export("/x/home");
    home.rules = vec![
        ExportRule { read_only: true, ..with_flavors(rule(&["192.0.2.1"]), &[SecFlavor::Krb5i]) },
        with_flavors(rule(&["10.0.0.0/8", "192.0.2.0/24"]), &[SecFlavor::Sys, SecFlavor::Krb5]),
        with_flavors(rule(&["0.0.0.0/0"]), &[SecFlavor::Krb5p]),
    ];
    for (address, flavors, read_only) in [
        ("192.0.2.1", &[SecFlavor::Krb5i][..], true),
        ("192.0.2.2", &[SecFlavor::Sys, SecFlavor::Krb5], false),
        ("10.9.9.9", &[SecFlavor::Sys, SecFlavor::Krb5], false),
        ("198.51.100.1", &[SecFlavor::Krb5p], false),
    ] {
        let client = peer(address, 1023);
        assert_eq!(usable(&home, client), flavors);
        assert_eq!(home.rule(home.rule_for(client).unwrap().unwrap()).read_only, read_only);
    }
    assert!(!home.admits(peer("2001:db8::1", 1023)).unwrap());
    home.rules = Vec::new();
    assert!(!home.admits(client()).unwrap(), "without a rule it is for nobody");
    home.rules = vec![with_flavors(rule(&["10.0.0.0/8"]), &[])];
    assert_eq!(
        ExportTable::new(vec![home.clone()], NOW).unwrap_err(),
        ExportsError::NoFlavor("/x/home".into())
    );
    home.rules = vec![ExportRule::default(); RULES_MAX + 1];
    assert_eq!(ExportTable::new(vec![home], NOW).unwrap_err(), ExportsError::RulesMax("/x/home".into()));
}

/// Clients whose directory does not answer, or answers at last.
#[derive(Debug)]
struct UnknownNames(Option<IpAddr>);

impl fmt::Display for UnknownNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("@slow")
    }
}

impl NamedClients for UnknownNames {
    fn contains(&self, client: IpAddr, _: Duration) -> Option<bool> {
        self.0.map(|member| member == client)
    }

    fn resolve(&self, _: IpAddr, _: Duration, _: &Cell<Duration>) -> bool {
        self.0.is_some()
    }
}

fn named(member: Option<&str>) -> RuleClient {
    RuleClient::Named(Arc::new(UnknownNames(member.map(|member| member.parse().unwrap()))))
}

#[test]
fn a_rule_whose_names_are_unknown_decides_only_if_no_earlier_rule_does() {
    let closed =
        with_flavors(ExportRule { clients: vec![named(None)], ..ExportRule::default() }, &[SecFlavor::Sys]);
    let mut home = export("/home");
    home.rules = vec![rule(&["10.0.0.0/8"]), closed.clone(), rule(&["0.0.0.0/0"])];
    let rule_of = |client| home.rule_for(client).map(|rule| rule.unwrap().number());
    assert_eq!(rule_of(peer("10.0.0.1", 1)).unwrap(), 1);
    // The later rule may be wider than the one that is unknown.
    assert_eq!(rule_of(client()).unwrap_err().0.to_string(), "@slow");
    // A network of the same rule decides without the name.
    let both = ExportRule { clients: vec![named(None), RuleClient::Any], ..ExportRule::default() };
    assert!(export("/x").with_rule(both).admits(client()).unwrap());
    let known = ExportRule { clients: vec![named(Some("192.0.2.1"))], ..ExportRule::default() };
    let known = export("/known").with_rule(known);
    assert!(known.admits(client()).unwrap() && !known.admits(peer("192.0.2.2", 1)).unwrap());

    // An export of which nothing is known hides no other, and closes no way to it.
    let (waits, open) = (export("/a/waits").with_rule(closed), export("/a/open"));
    let table = table(vec![waits, open]);
    let pseudo = table.pseudo();
    assert!(table.admits(client()).unwrap());
    let Place::Node(root) = pseudo.root(client()).unwrap() else { panic!("a pseudo root") };
    let a = pseudo.lookup(Place::Node(root), b"a", client()).unwrap().unwrap();
    assert_eq!(pseudo.lookup(a, b"open", client()).unwrap(), Some(place("/a/open")));
    assert!(pseudo.lookup(a, b"waits", client()).is_err());
    assert!(pseudo.check_entries(a, client()).is_err());
    assert_eq!(names(&table, a, client()), ["open"]);
    assert!(pseudo.hidden(a, b"waits", client()).is_none(), "it may be there");
    assert!(pseudo.allows(root, SecFlavor::Krb5p, client()).unwrap());
    assert!(pseudo.allows(root, SecFlavor::Sys, client()).is_err());
    assert!(pseudo.flavors(root, client()).is_err());
    let all = [SecFlavor::Krb5p, SecFlavor::Krb5i, SecFlavor::Krb5, SecFlavor::Sys];
    assert_eq!(pseudo.flavors_at_most(root, client()), all);
}

#[test]
fn an_export_offers_kerberos_only_until_sys_is_named() {
    let [rule] = &export("/x").rules[..] else { panic!("one rule") };
    assert_eq!(rule.flavors, [SecFlavor::Krb5p, SecFlavor::Krb5i, SecFlavor::Krb5]);
    assert!(rule.secure);
}

#[test]
fn sys_is_good_only_from_a_privileged_port_and_kerberos_from_any() {
    let mut home = export("/x/home");
    home.rules = vec![
        with_flavors(rule(&["198.51.100.0/24"]), &[SecFlavor::Sys]),
        with_flavors(ExportRule::default(), &[SecFlavor::Sys, SecFlavor::Krb5p]),
    ];
    let mut open = home.clone();
    open.rules.iter_mut().for_each(|rule| rule.secure = false);
    for port in [0, 1, 665, 1023] {
        assert_eq!(usable(&home, peer("192.0.2.1", port)), [SecFlavor::Sys, SecFlavor::Krb5p]);
        assert_eq!(usable(&home, peer("198.51.100.1", port)), [SecFlavor::Sys]);
    }
    for port in [1024, 2049, 65535] {
        assert_eq!(usable(&home, peer("192.0.2.1", port)), [SecFlavor::Krb5p]);
        assert_eq!(usable(&home, peer("2001:db8::1", port)), [SecFlavor::Krb5p]);
        // Where `sys` is all that there is, nothing is left.
        assert_eq!(usable(&home, peer("198.51.100.1", port)), []);
        assert_eq!(usable(&open, peer("192.0.2.1", port)), [SecFlavor::Sys, SecFlavor::Krb5p]);
        assert_eq!(usable(&open, peer("198.51.100.1", port)), [SecFlavor::Sys]);
    }
}

#[test]
fn a_pseudo_directory_allows_every_flavor_that_an_export_below_allows() {
    let a = export("/x/a").with_rule(with_flavors(ExportRule::default(), &[SecFlavor::Krb5p]));
    let local = with_flavors(rule(&["192.0.2.0/24"]), &[SecFlavor::Sys, SecFlavor::Krb5p]);
    let table = table(vec![a, export("/x/b").with_rule(local)]);
    let (pseudo, other) = (table.pseudo(), peer("198.51.100.1", 1023));
    let Place::Node(root) = pseudo.root(other).unwrap() else { panic!("a pseudo root") };
    assert_eq!(pseudo.flavors(root, client()).unwrap(), [SecFlavor::Krb5p, SecFlavor::Sys]);
    assert_eq!(pseudo.flavors(root, other).unwrap(), [SecFlavor::Krb5p]);
    let none = ExportTable::new(Vec::new(), NOW).unwrap();
    assert_eq!(none.pseudo().flavors(root, peer("198.51.100.1", 1024)).unwrap().len(), 4);
}

#[test]
fn pseudo_directories_are_read_only_with_fileids_and_an_fsid_of_their_own() {
    let table = table(vec![export("/a/b"), export("/c")]);
    let Place::Node(root) = table.pseudo().root(client()).unwrap() else { panic!("a pseudo root") };
    let attributes = table.pseudo().attributes(root, client()).unwrap();
    assert_eq!((attributes.file_type, attributes.mode), (FileType::Directory, 0o555));
    assert_eq!((attributes.fsid, attributes.fileid, attributes.nlink), (PSEUDO_FSID, root, 4));
    let entries: Vec<_> = table.pseudo().entries(Place::Node(root), 0, client()).collect();
    assert!(entries.iter().all(|entry| entry.cookie > 2 && entry.cookie <= i64::MAX as u64));
    let rest: Vec<_> = table.pseudo().entries(Place::Node(root), entries[0].cookie, client()).collect();
    assert_eq!(rest, entries[1..]);
    assert_eq!(table.pseudo().fileid(entries[0].place), Some(entries[0].fileid));
    assert_eq!(table.pseudo().attributes(1, client()), None);
}

#[test]
fn numbers_and_fileids_are_the_same_after_a_restart_and_a_reload_moves_the_change_attribute() {
    let one = table(vec![export("/a/b"), export("/c")]);
    let later = Timestamp { seconds: NOW.seconds + 1, ..NOW };
    let two = ExportTable::new(vec![export("/d"), export("/c"), export("/a/b")], later).unwrap();
    let a = one.pseudo().lookup(one.pseudo().root(client()).unwrap(), b"a", client()).unwrap().unwrap();
    assert_eq!(two.pseudo().lookup(two.pseudo().root(client()).unwrap(), b"a", client()).unwrap(), Some(a));
    assert_eq!(one.by_path("/c").unwrap().id, two.by_path("/c").unwrap().id);
    let Place::Node(a) = a else { panic!("a pseudo directory") };
    let change = |table: &ExportTable| table.pseudo().attributes(a, client()).unwrap().change;
    assert!(change(&two) > change(&one));
}

#[test]
fn exports_that_clash_are_refused_by_name() {
    let refused = |exports| ExportTable::new(exports, NOW).unwrap_err();
    assert_eq!(refused(vec![export("/a"), export("/a/")]), ExportsError::SamePath("/a".into()));
    let (mut a, mut b) = (export("/a"), export("/b"));
    (a.id, b.id) = (7, 7);
    assert_eq!(refused(vec![a, b]), ExportsError::SameId("/a".into(), "/b".into(), 7));
    let (mut zero, mut none) = (export("/a"), export("/a"));
    zero.id = 0;
    none.rules[0].flavors.clear();
    assert_eq!(refused(vec![zero]), ExportsError::ZeroId("/a".into()));
    assert_eq!(refused(vec![none]), ExportsError::NoFlavor("/a".into()));
}

#[test]
fn pseudo_paths_are_brought_into_one_form_or_refused() {
    assert_eq!(normalise("/").unwrap(), "/");
    assert_eq!(normalise("//a///b/").unwrap(), "/a/b");
    let (deep, long) = ("/x".repeat(65), format!("/{}", "n".repeat(256)));
    for wrong in ["", "a", "/a/../b", "/.", "/a\0", &deep, &long] {
        assert!(matches!(normalise(wrong), Err(ExportsError::Path(_))), "{wrong:?}");
    }
}

fn caller(uid: u32, gid: u32, groups: &[u32]) -> Caller {
    Caller { uid, gid, groups: groups.into() }
}

#[test]
fn root_squash_replaces_user_zero_and_group_zero_and_nobody_else() {
    let export = ExportRule::default();
    let anon = caller(ANON_ID, ANON_ID, &[]);
    assert_eq!(export.squash(Some(&caller(0, 0, &[0, 4]))), anon);
    assert_eq!(export.squash(Some(&caller(5, 0, &[4, 0]))), caller(5, ANON_ID, &[4, ANON_ID]));
    assert_eq!(export.squash(Some(&caller(5, 6, &[4]))), caller(5, 6, &[4]));
    assert_eq!(export.squash_uid(Some(&caller(0, 0, &[]))), ANON_ID);
    assert_eq!(export.squash_uid(Some(&caller(5, 0, &[]))), 5);
    assert_eq!(export.squash_uid(None), ANON_ID);
    assert_eq!(export.squash(None), anon);
}

#[test]
fn squash_none_keeps_root_and_squash_all_keeps_nobody() {
    let mut export = ExportRule::default();
    (export.anon_uid, export.anon_gid) = (77, 78);
    export.squash = Squash::None;
    assert_eq!(export.squash(Some(&Caller::root())), Caller::root());
    assert_eq!(export.squash(None), caller(77, 78, &[]));
    export.squash = Squash::All;
    assert_eq!(export.squash(Some(&caller(5, 6, &[4]))), caller(77, 78, &[]));
}

#[test]
fn a_reload_swaps_the_table_and_leaves_snapshots_alone() {
    let exports = Exports::new(table(vec![export("/a")]));
    let before = exports.snapshot();
    exports.replace(table(vec![export("/b")]));
    assert!(before.by_path("/a").is_some() && before.by_id(export_id("/a")).is_some());
    assert!(exports.snapshot().by_path("/a").is_none());
    assert!(exports.snapshot().by_path("/b").is_some());
}

#[test]
fn flavors_and_squash_rules_are_read_by_their_names() {
    for flavor in SecFlavor::ALL {
        assert_eq!(flavor.to_string().parse(), Ok(flavor));
    }
    assert_eq!("ntlm".parse::<SecFlavor>(), Err(RuleError::Flavor("ntlm".into())));
    assert_eq!("all".parse(), Ok(Squash::All));
    assert_eq!("some".parse::<Squash>(), Err(RuleError::Squash("some".into())));
}
