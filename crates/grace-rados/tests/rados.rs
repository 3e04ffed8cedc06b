//! The shared storage on a real cluster, and the tool of NFS-Ganesha on the same objects.
//!
//! Skipped, with the reason, where Ceph is not installed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use ceph::fs::{CephFs, CephMount, MountOptions, reset_session};
use ceph::rados::RadosOptions;
use grace::{ClientRecord, Database, DatabaseChange, NodeId, Sessions};
use miniceph::{CephDaemon, MiniCeph, MiniCephError, MiniCephOptions};
use orthrus_grace_rados::{FenceError, GraceStore, StoreError, StoreOptions, blocklist, blocklisted};
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

const POOL: &str = "gateways";
const LONG: Duration = Duration::from_secs(30);

/// Returns the cluster of all tests, which ends with the process.
fn cluster() -> Option<&'static MiniCeph> {
    static CLUSTER: OnceLock<Option<MiniCeph>> = OnceLock::new();
    let start = || match MiniCeph::start(&MiniCephOptions::default()) {
        Ok(cluster) => {
            cluster.ceph(["osd", "pool", "create", POOL]).unwrap();
            Some(cluster)
        }
        Err(error @ MiniCephError::Missing { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    };
    CLUSTER.get_or_init(start).as_ref()
}

fn options(cluster: &MiniCeph, namespace: &str) -> StoreOptions {
    let configuration = cluster.configuration();
    let cluster = RadosOptions { configuration, user: "admin".to_owned(), keyring: None, timeout: LONG };
    StoreOptions {
        cluster,
        pool: POOL.to_owned(),
        namespace: namespace.to_owned(),
        object: "grace".to_owned(),
    }
}

/// Opens the storage in a namespace that no other test has.
fn store() -> Option<(Arc<GraceStore>, &'static MiniCeph)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let cluster = cluster()?;
    let store = GraceStore::open(&options(cluster, &format!("test-{}", NEXT.fetch_add(1, Relaxed)))).unwrap();
    Some((store, cluster))
}

fn namespace(store: &GraceStore) -> String {
    store.options().namespace.clone()
}

fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

fn edit(store: &GraceStore, edit: impl Fn(&mut Database)) {
    let (version, before) = store.database().unwrap();
    let mut after = before.clone();
    edit(&mut after);
    assert!(store.write(version, &DatabaseChange::between(&before, after).unwrap()).unwrap());
}

fn shown(database: &Database) -> String {
    let nodes = database.nodes().map(|(node, flags)| format!(" {node}={}", flags.to_string().trim()));
    let epochs = database.epochs();
    format!("{} {}{}", epochs.current, epochs.recovery, nodes.collect::<String>())
}

/// Runs the tool of NFS-Ganesha, and returns the dump after it.
fn ganesha(store: &GraceStore, cluster: &MiniCeph, arguments: &[&str]) -> Option<String> {
    let run = |arguments: &[&str]| {
        let mut tool = Command::new("ganesha-rados-grace");
        tool.args(["--cephconf", cluster.configuration().to_str().unwrap(), "--userid", "admin"]);
        tool.args(["--pool", POOL, "--ns", &namespace(store), "--oid", "grace"]).args(arguments);
        let output = tool.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    if Command::new("ganesha-rados-grace").output().is_err() {
        eprintln!("skipped: ganesha-rados-grace is missing (apt install nfs-ganesha-rados-grace)");
        return None;
    }
    run(arguments);
    Some(run(&["dump"]))
}

#[test]
fn the_tool_of_ganesha_shows_and_edits_the_database() {
    // ganesha-rados-cluster-design(8), ganesha-rados-grace(8)
    let Some((store, cluster)) = store() else { return };
    assert!(matches!(store.database(), Err(StoreError::NoDatabase { .. })));
    assert!(store.create().unwrap());
    assert!(!store.create().unwrap());
    edit(&store, |database| {
        database.add(node("gw1"));
        database.add(node("gw2"));
        database.claim(&node("gw1"), 77);
    });
    edit(&store, |database| {
        database.relax(&node("gw2"));
        database.need(&node("gw1"));
    });
    let Some(dump) = ganesha(&store, cluster, &["dump"]) else { return };
    let rule = "=".repeat(54);
    assert_eq!(dump, format!("cur=2 rec=1\n{rule}\ngw1\tNE\ngw2\t  \n"));

    ganesha(&store, cluster, &["enforce", "gw2"]);
    ganesha(&store, cluster, &["lift", "gw1"]);
    assert_eq!(shown(&store.database().unwrap().1), "2 0 gw1=E gw2=E");
    ganesha(&store, cluster, &["add", "gw3"]);
    ganesha(&store, cluster, &["remove", "gw2"]);
    ganesha(&store, cluster, &["start", "gw3"]);
    let (_, database) = store.database().unwrap();
    assert_eq!(shown(&database), "3 2 gw1=E gw3=NE");
    assert_eq!(database.instance(&node("gw1")), Some(77), "the tool leaves the numbers");
    ganesha(&store, cluster, &["member", "gw1", "gw3"]);
}

#[test]
fn a_change_is_made_only_if_nothing_has_changed_since() {
    let Some((store, _)) = store() else { return };
    store.create().unwrap();
    let (version, before) = store.database().unwrap();
    let with = |name: &str| {
        let mut after = before.clone();
        after.add(node(name));
        DatabaseChange::between(&before, after).unwrap()
    };
    assert!(store.write(version, &with("a")).unwrap());
    assert!(!store.write(version, &with("b")).unwrap());
    assert_eq!(shown(&store.database().unwrap().1), "1 0 a=E");
    edit(&store, |database| database.remove(&node("a")));
    assert_eq!(shown(&store.database().unwrap().1), "1 0");
}

#[test]
fn foreign_records_in_the_database_are_checked() {
    let Some((store, cluster)) = store() else { return };
    store.create().unwrap();
    let space = namespace(&store);
    let rados = |arguments: &[&str]| {
        let mut tool = Command::new("rados");
        tool.arg("-c").arg(cluster.configuration()).args(["-p", POOL, "-N", &space]).args(arguments);
        assert!(tool.output().unwrap().status.success(), "{arguments:?}");
    };
    rados(&["setomapval", "grace", "gw1", "NE"]);
    let said = store.database().unwrap_err().to_string();
    assert!(said.contains("gw1") && said.contains("grace"), "{said}");
    rados(&["rmomapkey", "grace", "gw1"]);
    store.database().unwrap();
    let file = cluster.dir().join("damage");
    std::fs::write(&file, "zzzz").unwrap();
    for object in ["grace", "orthrus-secret"] {
        rados(&["put", object, file.to_str().unwrap()]);
    }
    assert!(matches!(store.database(), Err(StoreError::Database { .. })));
    assert!(matches!(store.secret(), Err(StoreError::Damaged { .. })));

    store.take(&node("gw1"), 1, "here").unwrap().begin_records(4, &[]).unwrap();
    rados(&["setomapval", "rec-0000000000000004:gw1", "7021", "::ffff:10.0.0.1-(2:hi)"]);
    assert!(matches!(store.records(&node("gw1")), Err(StoreError::Record { .. })));
    rados(&["setomapval", "orthrus-node:gw1", "ending", "soon"]);
    assert!(matches!(store.node(&node("gw1")), Err(StoreError::Damaged { .. })));
    // Signs of life are only hints.
    rados(&["setomapval", "orthrus-beats", "gw1", "often"]);
    rados(&["rm", "grace"]);
    store.create().unwrap();
    assert!(store.view().unwrap().1.beats.is_empty());
}

fn client(owner: &str, released: Option<u64>) -> ClientRecord {
    ClientRecord { owner: owner.into(), principal: [7; 16], released }
}

#[test]
fn records_that_are_written_anew_are_never_missing() {
    // RFC 8881 section 8.4.2.1: an instance can die at any step.
    let Some((store, _)) = store() else { return };
    let name = node("gw1");
    let objects = store.take(&name, 1, "here").unwrap();
    let clients: Vec<ClientRecord> = (0..2500).map(|number| client(&format!("c{number}"), None)).collect();
    objects.begin_records(4, &[&clients[..], &[client("stale", None)]].concat()).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..10).for_each(|_| objects.begin_records(4, &clients).unwrap()));
        while !writer.is_finished() {
            let found = store.records(&name).unwrap().len();
            assert!(found >= clients.len(), "{found} records");
        }
    });
    assert_eq!(store.records(&name).unwrap().len(), clients.len(), "a stale one is left");
}

#[test]
fn a_former_instance_changes_neither_records_nor_sessions() {
    // RFC 8881 section 8.4.2.1
    let Some((store, _)) = store() else { return };
    let name = node("gw1");
    let first = store.take(&name, 9, "here").unwrap();
    assert_eq!(first.take_records().unwrap(), []);
    first.begin_records(4, &[client("a", None), client("b", Some(4))]).unwrap();
    first.change_records(4, &[client("c", None)], &[b"b".to_vec()]).unwrap();
    let mut sessions = Sessions::default();
    sessions.begin(["one".to_owned(), "two".to_owned()]);
    first.set_sessions(&sessions).unwrap();

    let second = store.take(&name, 10, "there").unwrap();
    assert!(matches!(store.take(&name, 9, "here"), Err(StoreError::Replaced)));
    let refused = |result: Result<(), StoreError>| assert!(matches!(result, Err(StoreError::Replaced)));
    refused(first.set_sessions(&Sessions::default()));
    assert_eq!(second.take_records().unwrap(), [client("a", None), client("c", None)]);
    refused(first.change_records(4, &[client("d", None)], &[]));
    refused(first.begin_records(4, &[]));
    refused(first.begin_records(5, &[]));
    assert_eq!(second.sessions().unwrap(), sessions);
    sessions.end_in(6);
    sessions.ended("one", false);
    second.set_sessions(&sessions).unwrap();
    second.begin_records(6, &[client("a", Some(6))]).unwrap();
    let summary = store.node(&name).unwrap();
    assert_eq!((summary.instance, &*summary.host, summary.records), (10, "there", Some(6)));
    assert_eq!(summary.sessions, sessions);
    assert_eq!(store.records(&name).unwrap(), [client("a", Some(6))]);
    store.remove_node(&name).unwrap();
    assert_eq!(store.node(&name).unwrap(), Default::default());
}

#[test]
fn thousands_of_clients_are_recorded_and_read() {
    let Some((store, _)) = store() else { return };
    let objects = store.take(&node("gw1"), 1, "here").unwrap();
    let clients: Vec<ClientRecord> = (0..3500).map(|number| client(&format!("{number:05}"), None)).collect();
    objects.begin_records(1, &clients).unwrap();
    assert!(objects.take_records().unwrap() == clients);
    let all: Vec<Vec<u8>> = clients.iter().skip(1).map(|client| client.owner.clone()).collect();
    objects.change_records(1, &[], &all).unwrap();
    assert_eq!(objects.take_records().unwrap(), clients[..1]);
}

#[test]
fn members_are_notified_of_changes_and_of_each_other() {
    let Some((store, cluster)) = store() else { return };
    store.create().unwrap();
    let other = GraceStore::open(&options(cluster, &namespace(&store))).unwrap();
    let (say, heard) = mpsc::channel();
    let watch = other.watch(Box::new(move || _ = say.send(()))).unwrap();
    edit(&store, |database| database.add(node("gw1")));
    heard.recv_timeout(LONG).unwrap();
    assert!(!watch.is_lost());
    drop(watch);
    store.beat(&node("gw1"), 5).unwrap();
    other.beat(&node("gw2"), 6).unwrap();
    let beats = other.view().unwrap().1.beats;
    assert_eq!(beats, [(node("gw1"), 5), (node("gw2"), 6)].into());
    store.forget_beat(&node("gw1")).unwrap();
    assert_eq!(other.view().unwrap().1.beats, [(node("gw2"), 6)].into());
    assert_eq!(store.secret().unwrap(), None);
    assert_eq!(store.secret_or(&[3; 32]).unwrap(), [3; 32]);
    assert_eq!(other.secret_or(&[4; 32]).unwrap(), [3; 32]);
    assert_eq!(other.secret().unwrap(), Some([3; 32]));
}

#[test]
fn the_error_for_a_user_names_the_missing_rights() {
    let Some((store, cluster)) = store() else { return };
    store.create().unwrap();
    let user = |name: &str, caps: &[&str]| -> Arc<GraceStore> {
        let entity = format!("client.{name}");
        let key = cluster.ceph(["auth", "get-or-create", &entity].into_iter().chain(caps.iter().copied()));
        let keyring: PathBuf = cluster.dir().join(format!("{name}.keyring"));
        std::fs::write(&keyring, key.unwrap()).unwrap();
        let mut options = options(cluster, &namespace(&store));
        options.cluster.user = name.to_owned();
        options.cluster.keyring = Some(keyring);
        GraceStore::open(&options).unwrap()
    };
    let reader = user("reader", &["mon", "allow r"]);
    let said = reader.database().unwrap_err().to_string();
    assert!(said.contains("client.reader") && said.contains("ceph auth caps"), "{said}");
    let pool = format!("allow rw pool={POOL}");
    let writer = user("writer", &["mon", "allow r", "osd", &pool]);
    writer.database().unwrap();
    writer.beat(&node("gw1"), 1).unwrap();
    let address = "192.0.2.1:0/4711";
    let denied = blocklist(writer.cluster(), "writer", address).unwrap_err();
    assert!(matches!(denied, FenceError::Denied { .. }) && denied.to_string().contains("osd blocklist"));
    let mon = "allow r, allow command \"osd blocklist\"";
    let fencer = user("fencer", &["mon", mon, "osd", &pool]);
    blocklist(fencer.cluster(), "fencer", address).unwrap();
    let other = "192.0.2.2:0/1".to_owned();
    let listed = blocklisted(writer.cluster(), &[address.to_owned(), other]).unwrap();
    assert_eq!(listed, [address.to_owned()]);
}

#[test]
fn a_read_without_an_answer_is_an_error() {
    let Some((store, cluster)) = store() else { return };
    store.create().unwrap();
    let mut options = options(cluster, &namespace(&store));
    options.cluster.timeout = Duration::from_secs(1);
    let store = GraceStore::open(&options).unwrap();
    cluster.signal(&CephDaemon::Osd(0), Signal::STOP);
    let unanswered = store.database();
    cluster.signal(&CephDaemon::Osd(0), Signal::CONT);
    let error = unanswered.unwrap_err();
    assert!(!error.is_final(), "{error}");
    store.database().unwrap();
}

#[test]
fn a_gateway_on_the_blocklist_notices() {
    let Some((store, cluster)) = store() else { return };
    store.create().unwrap();
    let victim = GraceStore::open(&options(cluster, &namespace(&store))).unwrap();
    victim.database().unwrap();
    let address = victim.cluster().address().unwrap();
    blocklist(store.cluster(), "admin", &address).unwrap();
    // A storage daemon learns of a new map, at the latest, from an operation that was sent with it.
    store.beat(&node("gw2"), 1).unwrap();
    let error = victim.beat(&node("gw1"), 1).unwrap_err();
    assert!(matches!(error, StoreError::Blocklisted) && error.is_final(), "{error}");
    assert_eq!(blocklisted(store.cluster(), std::slice::from_ref(&address)).unwrap(), [address]);
}

#[test]
fn a_session_is_ended_by_its_identity_and_its_client_is_put_on_the_blocklist() {
    let Some((store, cluster)) = store() else { return };
    let library = CephFs::load().unwrap();
    let options = MountOptions {
        configuration: cluster.configuration(),
        user: "admin".to_owned(),
        keyring: None,
        file_system: None,
        path: "/".to_owned(),
        settings: Vec::new(),
        defaults: Vec::new(),
        identity: Some("gateway-1".to_owned()),
        former: None,
    };
    let mount = CephMount::open(library, &options, Box::new(|_, _| ())).unwrap();
    let address = mount.address().unwrap();
    assert_eq!(blocklisted(store.cluster(), std::slice::from_ref(&address)).unwrap(), Vec::<String>::new());
    assert!(reset_session(library, &options, "gateway-1").unwrap());
    assert!(!reset_session(library, &options, "gateway-1").unwrap());
    // The metadata server has done it, by its own rights.
    assert_eq!(blocklisted(store.cluster(), std::slice::from_ref(&address)).unwrap(), [address]);
    let user = ceph::fs::Credentials::new(library, 0, 0, &[].into()).unwrap();
    let root = mount.root().unwrap();
    let made = root.create(c"new", ceph::fs::NewInode::Directory, 0o755, &user);
    assert_eq!(made.err().map(|error| error.number()), Some(libc::ESHUTDOWN));
}
