//! The rules of exports and of the pseudo file system above them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use orthrus_vfs::{
    ANON_ID, Backend, Caller, Export, ExportTable, Exports, ExportsError, FileType, MemoryBackend,
    MemoryLimits, PSEUDO_FSID, Place, SecFlavor, Squash, Timestamp, export_id, normalise,
};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

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

fn client() -> IpAddr {
    "192.0.2.1".parse().unwrap()
}

fn place(path: &str) -> Place {
    Place::Export(export_id(path))
}

fn names(table: &ExportTable, at: Place, client: IpAddr) -> Vec<String> {
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
    let root = pseudo.root(from);
    assert_eq!(names(&table, root, from), ["a", "top"]);
    assert_eq!(pseudo.lookup(root, b"top", from), Some(place("/top")));
    let a = pseudo.lookup(root, b"a", from).unwrap();
    assert!(matches!(a, Place::Node(_)));
    assert_eq!(pseudo.lookup(a, b"home", from), Some(place("/a/home")));
    let b = pseudo.lookup(a, b"b", from).unwrap();
    assert_eq!(pseudo.lookup(b, b"data", from), Some(place("/a/b/data")));
    assert_eq!(pseudo.lookup(b, b"nothing", from), None);
    assert_eq!(pseudo.lookup(b, b"\xff", from), None);
    assert_eq!(pseudo.parent(place("/a/b/data"), from), Some(b));
    assert_eq!(pseudo.parent(b, from), Some(a));
    assert_eq!(pseudo.parent(a, from), Some(root));
    assert_eq!(pseudo.parent(root, from), None);
}

#[test]
fn an_export_at_the_root_takes_the_place_of_the_pseudo_root() {
    let table = table(vec![export("/"), export("/x/data")]);
    let (pseudo, from) = (table.pseudo(), client());
    assert_eq!(pseudo.root(from), place("/"));
    assert_eq!(names(&table, place("/"), from), ["x"]);
    let x = pseudo.lookup(place("/"), b"x", from).unwrap();
    assert_eq!(pseudo.lookup(x, b"data", from), Some(place("/x/data")));
    assert_eq!(pseudo.parent(x, from), Some(place("/")));
    assert_eq!(pseudo.parent(place("/"), from), None);
}

#[test]
fn an_export_inside_another_is_a_name_on_its_root() {
    let table = table(vec![export("/data"), export("/data/inner")]);
    let (pseudo, from) = (table.pseudo(), client());
    assert_eq!(pseudo.lookup(place("/data"), b"inner", from), Some(place("/data/inner")));
    assert_eq!(pseudo.parent(place("/data/inner"), from), Some(place("/data")));
}

#[test]
fn what_a_client_may_not_see_does_not_exist_for_it() {
    let mut hidden = export("/secret/data");
    hidden.networks = vec!["10.0.0.0/8".parse().unwrap()];
    let table = table(vec![hidden, export("/open")]);
    let (pseudo, inside) = (table.pseudo(), "::ffff:10.1.1.1".parse().unwrap());
    let root = pseudo.root(client());
    assert_eq!(names(&table, root, client()), ["open"]);
    assert_eq!(names(&table, root, inside), ["open", "secret"]);
    assert_eq!(pseudo.lookup(root, b"secret", client()), None);
    let Some(Place::Node(secret)) = pseudo.lookup(root, b"secret", inside) else {
        panic!("a pseudo directory")
    };
    assert!(pseudo.contains(secret, inside));
    assert!(!pseudo.contains(secret, client()));
    assert_eq!(pseudo.lookup(Place::Node(secret), b"data", client()), None);
    assert!(!table.by_path("/secret/data").unwrap().admits(client()));
}

#[test]
fn a_root_export_for_others_leaves_the_pseudo_root() {
    let mut root = export("/");
    root.networks = vec!["10.0.0.0/8".parse().unwrap()];
    let table = table(vec![root, export("/open")]);
    let at = table.pseudo().root(client());
    assert!(matches!(at, Place::Node(_)));
    assert_eq!(names(&table, at, client()), ["open"]);
    assert_eq!(table.pseudo().parent(place("/open"), client()), Some(at));
}

#[test]
fn a_client_has_the_flavors_of_the_first_network_that_it_is_in() {
    let mut home = export("/x/home");
    home.flavors = vec![SecFlavor::Krb5p];
    home.flavors_from = vec![
        ("192.0.2.1/32".parse().unwrap(), vec![SecFlavor::Krb5i]),
        ("192.0.2.0/24".parse().unwrap(), vec![SecFlavor::Sys, SecFlavor::Krb5]),
    ];
    let table = table(vec![home.clone()]);
    for (address, flavors) in [
        ("192.0.2.1", &[SecFlavor::Krb5i][..]),
        ("192.0.2.2", &[SecFlavor::Sys, SecFlavor::Krb5]),
        ("198.51.100.1", &[SecFlavor::Krb5p]),
    ] {
        let address = SocketAddr::new(address.parse().unwrap(), 1023);
        assert_eq!(home.flavors_for(address).collect::<Vec<_>>(), flavors);
        assert_eq!(table.pseudo().flavors(place("/x/home"), address), flavors);
        assert_eq!(table.pseudo().flavors(table.pseudo().root(address.ip()), address), flavors);
        assert!(
            SecFlavor::ALL.iter().all(|flavor| home.allows(*flavor, address) == flavors.contains(flavor))
        );
    }
    home.flavors_from.push(("10.0.0.0/8".parse().unwrap(), Vec::new()));
    assert!(ExportTable::new(vec![home], NOW).is_err());
}

#[test]
fn an_export_offers_kerberos_only_until_sys_is_named() {
    assert_eq!(export("/x").flavors, [SecFlavor::Krb5p, SecFlavor::Krb5i, SecFlavor::Krb5]);
    assert!(export("/x").secure);
}

#[test]
fn sys_is_good_only_from_a_privileged_port_and_kerberos_from_any() {
    let mut home = export("/x/home");
    home.flavors = vec![SecFlavor::Sys, SecFlavor::Krb5p];
    home.flavors_from = vec![("198.51.100.0/24".parse().unwrap(), vec![SecFlavor::Sys])];
    let open = Export { secure: false, ..home.clone() };
    let at = |address: &str, port| SocketAddr::new(address.parse().unwrap(), port);
    let usable = |export: &Export, client: SocketAddr| {
        let table = table(vec![export.clone()]);
        let flavors: Vec<_> = export.flavors_for(client).collect();
        assert!(SecFlavor::ALL.iter().all(|one| export.allows(*one, client) == flavors.contains(one)));
        let root = table.pseudo().root(client.ip());
        // The names above the export are as open as the export, and no more.
        assert_eq!(table.pseudo().flavors(root, client), flavors);
        assert_eq!(table.pseudo().flavors(place("/x/home"), client), flavors);
        flavors
    };
    for port in [0, 1, 665, 1023] {
        assert_eq!(usable(&home, at("192.0.2.1", port)), [SecFlavor::Sys, SecFlavor::Krb5p]);
        assert_eq!(usable(&home, at("198.51.100.1", port)), [SecFlavor::Sys]);
    }
    for port in [1024, 2049, 65535] {
        assert_eq!(usable(&home, at("192.0.2.1", port)), [SecFlavor::Krb5p]);
        assert_eq!(usable(&home, at("2001:db8::1", port)), [SecFlavor::Krb5p]);
        // Where `sys` is all that there is, nothing is left.
        assert_eq!(usable(&home, at("198.51.100.1", port)), []);
        assert_eq!(usable(&open, at("192.0.2.1", port)), [SecFlavor::Sys, SecFlavor::Krb5p]);
        assert_eq!(usable(&open, at("198.51.100.1", port)), [SecFlavor::Sys]);
    }
}

#[test]
fn a_pseudo_directory_allows_every_flavor_that_an_export_below_allows() {
    let (mut a, mut b) = (export("/x/a"), export("/x/b"));
    a.flavors = vec![SecFlavor::Krb5p];
    b.flavors = vec![SecFlavor::Sys, SecFlavor::Krb5p];
    b.networks = vec!["192.0.2.0/24".parse().unwrap()];
    let table = table(vec![a, b]);
    let (pseudo, other) = (table.pseudo(), "198.51.100.1".parse().unwrap());
    let low = |client| SocketAddr::new(client, 1023);
    assert_eq!(pseudo.flavors(pseudo.root(client()), low(client())), [SecFlavor::Krb5p, SecFlavor::Sys]);
    assert_eq!(pseudo.flavors(pseudo.root(other), low(other)), [SecFlavor::Krb5p]);
    assert_eq!(pseudo.flavors(place("/x/b"), low(client())), [SecFlavor::Sys, SecFlavor::Krb5p]);
    let none = ExportTable::new(Vec::new(), NOW).unwrap();
    assert_eq!(none.pseudo().flavors(pseudo.root(other), SocketAddr::new(other, 1024)).len(), 4);
}

#[test]
fn pseudo_directories_are_read_only_with_fileids_and_an_fsid_of_their_own() {
    let table = table(vec![export("/a/b"), export("/c")]);
    let Place::Node(root) = table.pseudo().root(client()) else { panic!("a pseudo root") };
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
    let a = one.pseudo().lookup(one.pseudo().root(client()), b"a", client()).unwrap();
    assert_eq!(two.pseudo().lookup(two.pseudo().root(client()), b"a", client()), Some(a));
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
    none.flavors.clear();
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
    let export = export("/a");
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
    let mut export = export("/a");
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
    assert_eq!("ntlm".parse::<SecFlavor>(), Err(ExportsError::Flavor("ntlm".into())));
    assert_eq!("all".parse(), Ok(Squash::All));
    assert_eq!("some".parse::<Squash>(), Err(ExportsError::Squash("some".into())));
}
