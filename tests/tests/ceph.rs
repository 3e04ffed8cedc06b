//! Gateways of a one-node Ceph cluster, from client to cluster.
//!
//! Skipped, with the reason, where Ceph is not installed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use client::{Client, Error, Filesystem, Flavor, OpenHow, Options, Security};
use e2e::{Serve, Server, account, empty_folder, in_world, is_root, orthrus, pattern, run, status};
use miniceph::{CephDaemon, MiniCeph, MiniCephError, MiniCephOptions};
use nfs4::NfsLockType4::{READ_LT, WRITE_LT};
use nfs4::StableHow4::UNSTABLE4;
use nfs4::{Bitmap4, FATTR4_CHANGE, FATTR4_SIZE, Nfsstat4, OPEN4_SHARE_ACCESS_READ, OpenDelegation4};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::Signal as CephSignal;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a busy machine may take for a step.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a directory of the cluster.
const SIZE: u64 = 1 << 30;

/// Starts a cluster; `None`, with the reason, where Ceph is not installed.
fn start() -> Option<MiniCeph> {
    if let Err(error) = ceph::fs::CephFs::load() {
        eprintln!("skipped: {error}");
        return None;
    }
    match MiniCeph::start(&MiniCephOptions::default()) {
        Ok(cluster) => Some(cluster),
        Err(error @ MiniCephError::Missing { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A directory of the cluster that all tests share, and a folder for the state of gateways.
struct CephSite {
    cluster: &'static MiniCeph,
    directory: String,
    folder: TempDir,
}

impl CephSite {
    fn new() -> Option<Self> {
        static CLUSTER: OnceLock<Option<MiniCeph>> = OnceLock::new();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let cluster = CLUSTER.get_or_init(start).as_ref()?;
        let directory = format!("site-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        cluster.make_directory(&directory, SIZE).unwrap();
        Some(Self { cluster, directory, folder: empty_folder() })
    }

    /// The options of a gateway that exports the directory as `/data`. Root is not squashed.
    fn gateway(&self, name: &str) -> Serve {
        gateway(self.cluster, &self.directory, Serve::new(self.folder.path().join(name)))
            .args(["--sec", "sys", "--squash", "none"])
    }

    /// Returns how many sessions the metadata server has with mounts of a directory.
    fn sessions(&self, directory: &str) -> usize {
        let socket = self.cluster.socket("mds.cephfs").display().to_string();
        let listed = Command::new("ceph").args(["daemon", &socket, "session", "ls"]).output().unwrap();
        String::from_utf8_lossy(&listed.stdout).matches(&format!("\"root\": \"/{directory}\"")).count()
    }
}

/// A server that ends by SIGTERM: after a kill, the metadata server would keep others from the root
/// of the file system until the session expires.
struct CephGateway(Server);

impl std::ops::Deref for CephGateway {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

impl std::ops::DerefMut for CephGateway {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.0
    }
}

impl Drop for CephGateway {
    fn drop(&mut self) {
        if self.0.is_running() && !std::thread::panicking() {
            self.0.signal(Signal::SIGTERM);
            self.0.wait();
        }
    }
}

fn gateway(cluster: &MiniCeph, directory: &str, serve: Serve) -> Serve {
    serve
        .arg("--ceph")
        .arg(format!("/{directory}=/data"))
        .args(["--ceph-user", "admin", "--ceph-conf"])
        .arg(cluster.configuration())
        .args(["--grace-time", "0"])
}

fn options(server: &Server) -> Options {
    Options::new("127.0.0.1", Security::sys_as(0, 0)).port(server.port())
}

fn connect(server: &Server) -> Client {
    Client::connect(Options { backchannel: true, ..options(server) }).unwrap()
}

fn mount(server: &Server) -> Filesystem {
    Filesystem::mount(options(server), "/data").unwrap()
}

#[test]
fn files_are_made_read_and_kept_from_others_with_each_flavor() {
    // RFC 2203 (flavors); the rights of each caller are the file system's.
    in_world(|world| {
        let Some(cluster) = start() else { return };
        cluster.make_directory("data", SIZE).unwrap();
        let server = gateway(&cluster, "data", world.bare_server()).start();
        for flavor in [Flavor::Sys, Flavor::Krb5, Flavor::Krb5i, Flavor::Krb5p] {
            let mount = |user: &str| {
                let options = world.options(&server, user, flavor);
                Filesystem::mount(options, "/data").expect("it can be mounted")
            };
            let mut alice = mount("alice");
            let (folder, file) = (format!("{flavor}"), format!("{flavor}/file"));
            alice.mkdir(&folder).unwrap();
            let data = pattern(1, 3 << 20);
            alice.write_file(&file, &data).unwrap();
            assert!(alice.read_file(&file).unwrap() == data);
            assert_eq!(alice.list(&folder).unwrap(), ["file"]);
            alice.rename(&file, &format!("{flavor}/renamed")).unwrap();
            let attributes = alice.stat(&format!("{flavor}/renamed")).unwrap();
            let values = attributes.values().unwrap();
            assert_eq!(values.size, Some(3 << 20));
            if is_root() {
                let uid = account("alice").uid.as_raw();
                let owner = values.owner.map(|owner| String::from_utf8_lossy(&owner).into_owned());
                let named = account("alice").name;
                assert!(
                    owner
                        .as_deref()
                        .is_some_and(|owner| owner.starts_with(&named) || owner == uid.to_string()),
                    "{owner:?}"
                );
                let private = nfs4::AttributeValues { mode: Some(0o700), ..nfs4::AttributeValues::default() };
                alice.setattr(&folder, &private).unwrap();
                let mut bob = mount("bob");
                assert_eq!(status(bob.list(&folder)), Nfsstat4::NFS4ERR_ACCESS, "{flavor}");
                bob.unmount().unwrap();
            }
            alice.remove(&format!("{flavor}/renamed")).unwrap();
            alice.remove(&folder).unwrap();
            alice.unmount().unwrap();
        }
    });
}

#[test]
fn a_gateway_shows_acknowledged_changes_of_the_other_by_the_same_filehandle() {
    // RFC 8881 section 4.2.2
    let Some(site) = CephSite::new() else { return };
    let servers = ["one", "two"].map(|name| CephGateway(site.gateway(name).start()));
    let mut clients = servers.each_ref().map(|server| connect(server));
    let [first, second] = &mut clients;
    let file = first.open_path("/data/file", &OpenHow::create(0o644)).unwrap();
    first.write(&file.handle, file.stateid, 0, UNSTABLE4, b"not committed").unwrap();
    let (handle, attributes) = second.lookup_path("/data/file").unwrap();
    assert_eq!(handle, file.handle);
    assert_eq!(attributes.values().unwrap().size, Some(13));
    let opened = second.open_handle(&file.handle, &OpenHow::read()).unwrap();
    let (read, eof) = second.read(&opened.handle, opened.stateid, 0, 100).unwrap();
    assert_eq!((&read[..], eof), (&b"not committed"[..], true));
    let wanted = Bitmap4::of(&[FATTR4_CHANGE, FATTR4_SIZE]);
    let before = second.getattr(&handle, wanted).unwrap().values().unwrap().change;
    first.write(&file.handle, file.stateid, 13, UNSTABLE4, b", but seen").unwrap();
    let after = second.getattr(&handle, wanted).unwrap();
    let after = after.values().unwrap();
    assert_eq!(after.size, Some(23));
    assert!(after.change > before, "RFC 8881 section 5.8.1.4");
    let (data, _) = first.lookup_path("/data").unwrap();
    first.rename(&data, b"file", &data, b"renamed").unwrap();
    assert_eq!(status(second.lookup_path("/data/file")), Nfsstat4::NFS4ERR_NOENT);
    assert_eq!(second.lookup_path("/data/renamed").unwrap().0, handle);
}

#[test]
fn a_lock_of_a_client_of_one_gateway_is_denied_to_clients_of_the_other() {
    // RFC 8881 sections 9.1 and 18.10.4
    let Some(site) = CephSite::new() else { return };
    let servers = ["one", "two"].map(|name| CephGateway(site.gateway(name).start()));
    let mut clients = servers.each_ref().map(|server| connect(server));
    let [first, second] = &mut clients;
    let how = OpenHow { access: nfs4::OPEN4_SHARE_ACCESS_BOTH, ..OpenHow::create(0o644) };
    let file = first.open_path("/data/file", &how).unwrap();
    let mut lock = first.lock(&file, b"owner", WRITE_LT, 10, 10).unwrap().unwrap();
    let beside = second.open_path("/data/file", &how).unwrap();
    let denied = second.lock(&beside, b"owner", READ_LT, 15, 1).unwrap().expect_err("it is denied");
    assert_eq!((denied.0.offset, denied.0.length), (10, 10));
    second.lock(&beside, b"owner", WRITE_LT, 20, 10).unwrap().unwrap();
    first.unlock(&file.handle, &mut lock, 10, 10).unwrap();
    second.lock(&beside, b"other", READ_LT, 15, 1).unwrap().unwrap();
}

#[test]
fn a_delegation_is_recalled_when_a_client_of_another_gateway_writes() {
    // RFC 8881 section 10.4
    let Some(site) = CephSite::new() else { return };
    let servers = ["one", "two"].map(|name| CephGateway(site.gateway(name).start()));
    let [first, second] = &servers;
    mount(first).write_file("file", b"data").unwrap();
    // The metadata server has told the file's attributes to both: none has it exclusively.
    assert_eq!(mount(second).read_file("file").unwrap(), b"data");
    let mut holder = connect(first);
    let how = OpenHow { access: OPEN4_SHARE_ACCESS_READ, ..OpenHow::new(0) };
    let end = Instant::now() + PATIENCE;
    let (file, stateid) = loop {
        let file = holder.open_path("/data/file", &how).unwrap();
        if let OpenDelegation4::OPEN_DELEGATE_READ(read) = &file.delegation {
            break (file.clone(), read.stateid);
        }
        assert!(Instant::now() < end, "no delegation: {:?}", file.delegation);
        holder.close_file(&file).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    };
    let options = options(second);
    let (say, written) = mpsc::channel();
    let writer = std::thread::spawn(move || {
        let mut mount = Filesystem::mount(options, "/data").unwrap();
        mount.write_file("file", b"more").unwrap();
        say.send(()).unwrap();
    });
    let recalled = loop {
        holder.serve_callbacks(Duration::from_millis(20)).unwrap();
        if let Some(recalled) = holder.take_recalls().pop() {
            break recalled;
        }
        assert!(Instant::now() < end, "no recall");
    };
    assert_eq!(recalled, stateid);
    assert!(written.try_recv().is_err(), "the writer waits for the delegation");
    holder.delegreturn(&file.handle, stateid).unwrap();
    writer.join().unwrap();
    assert_eq!(holder.read(&file.handle, file.stateid, 0, 10).unwrap().0, b"more");
}

#[test]
fn a_gateway_that_was_killed_serves_committed_data_and_old_handles_at_once() {
    // RFC 8881 sections 4.2.2 and 18.3
    let Some(site) = CephSite::new() else { return };
    let mut server = CephGateway(site.gateway("one").start());
    let (handle, data) = {
        let mut client = connect(&server);
        let file = client.open_path("/data/file", &OpenHow::create(0o644)).unwrap();
        let data = pattern(7, 1 << 16);
        client.write(&file.handle, file.stateid, 0, UNSTABLE4, &data).unwrap();
        client.commit(&file.handle, 0, 0).unwrap();
        // Names are in the journal with the reply.
        client.open_path("/data/name", &OpenHow::create(0o644)).unwrap();
        (file.handle, data)
    };
    server.restart();
    let mut client = connect(&server);
    // The former instance had the file open; its session is gone with the new one's start.
    let file = client.open_handle(&handle, &OpenHow::read()).unwrap();
    let mut read = Vec::new();
    while read.len() < data.len() {
        read.extend(client.read(&file.handle, file.stateid, read.len() as u64, 1 << 16).unwrap().0);
    }
    assert!(read == data);
    client.lookup_path("/data/name").unwrap();
}

#[test]
fn a_gateway_that_was_killed_after_a_reload_ends_the_sessions_of_all_its_exports() {
    // RFC 8881 section 8.4.2: locks that clients reclaim must be free.
    let Some(site) = CephSite::new() else { return };
    let added = format!("{}-added", site.directory);
    site.cluster.make_directory(&added, SIZE).unwrap();
    let file = site.folder.path().join("orthrus.toml");
    let configure = |exports: &[(&str, &str, usize)]| {
        let conf = site.cluster.configuration();
        let export = |(directory, pseudo, mounts): &(&str, &str, usize)| {
            format!(
                "[[export]]\nceph = \"/{directory}\"\npseudo = \"/{pseudo}\"\nceph_mounts = {mounts}\n\
                 ceph_user = \"admin\"\nceph_conf = {conf:?}\nsec = [\"sys\"]\nsquash = \"none\"\n\
                 secure = false\n"
            )
        };
        let exports: String = exports.iter().map(export).collect();
        std::fs::write(&file, format!("grace_time = 0\n{exports}")).unwrap();
    };
    configure(&[(&site.directory, "data", 1)]);
    let serve = Serve::new(site.folder.path().join("one")).arg("--config").arg(&file);
    let mut server = CephGateway(serve.start());
    let how = OpenHow { access: nfs4::OPEN4_SHARE_ACCESS_BOTH, ..OpenHow::create(0o644) };
    let lock = |client: &mut Client, path: &str| {
        let file = client.open_path(path, &how).unwrap();
        client.lock(&file, b"owner", WRITE_LT, 0, 10).unwrap().unwrap();
    };
    let mut client = connect(&server);
    lock(&mut client, "/data/before");
    configure(&[(&site.directory, "data", 2), (&added, "added", 1)]);
    server.signal(Signal::SIGHUP);
    server.wait_for_log("added: /added");
    lock(&mut client, "/data/after");
    lock(&mut client, "/added/file");
    assert_eq!([&site.directory, &added].map(|directory| site.sessions(directory)), [3, 1]);
    server.restart();
    // The metadata server strikes out sessions a moment after it has ended them; others live on for
    // a minute.
    let end = Instant::now() + PATIENCE / 2;
    while [&site.directory, &added].map(|directory| site.sessions(directory)) != [2, 1] {
        assert!(Instant::now() < end, "sessions of the killed process live on:\n{}", server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut client = connect(&server);
    ["/data/before", "/data/after", "/added/file"].iter().for_each(|path| lock(&mut client, path));
}

#[test]
fn a_gateway_that_ends_gives_its_session_back() {
    let Some(site) = CephSite::new() else { return };
    let mut server = CephGateway(site.gateway("one").start());
    let mut mount = mount(&server);
    mount.write_file("file", b"data").unwrap();
    assert_eq!(site.sessions(&site.directory), 1);
    server.signal(Signal::SIGTERM);
    assert!(server.wait().0.success(), "{}", server.log());
    assert_eq!(site.sessions(&site.directory), 0);
}

#[test]
fn a_gateway_that_the_cluster_has_evicted_ends_and_its_client_goes_on_with_the_next() {
    // A cluster of its own, since all clients of its metadata server are evicted.
    let Some(cluster) = start() else { return };
    cluster.make_directory("data", SIZE).unwrap();
    let folder = empty_folder();
    let serve = || Serve::new(folder.path().join("state")).args(["--sec", "sys", "--squash", "none"]);
    let mut server = CephGateway(gateway(&cluster, "data", serve()).start());
    mount(&server).write_file("file", b"data").unwrap();
    let socket = cluster.socket("mds.cephfs").display().to_string();
    let mds = |arguments: &[&str]| {
        let said = Command::new("ceph").args(["daemon", &socket]).args(arguments).output();
        String::from_utf8(said.unwrap().stdout).unwrap()
    };
    let sessions: serde_json::Value = serde_json::from_str(&mds(&["session", "ls"])).unwrap();
    for session in sessions.as_array().unwrap() {
        mds(&["session", "evict", &session["id"].to_string()]);
    }
    let options = options(&server);
    // Its answer does not matter: the server ends before.
    std::thread::spawn(move || Filesystem::mount(options, "/data")?.write_file("other", b"data"));
    assert_eq!(server.wait().0.code(), Some(75), "{}", server.log());
    let server = CephGateway(gateway(&cluster, "data", serve()).start());
    assert_eq!(mount(&server).read_file("file").unwrap(), b"data");
}

#[test]
fn other_exports_are_served_while_the_metadata_server_hangs() {
    // A cluster of its own, since its metadata server stops.
    let Some(cluster) = start() else { return };
    cluster.make_directory("data", SIZE).unwrap();
    let folder = empty_folder();
    let serve =
        Serve::new(folder.path().join("state")).args(["--sec", "sys", "--squash", "none", "--memory", "16"]);
    let server = gateway(&cluster, "data", serve).start();
    let mut clients: Vec<Client> = (0..3).map(|_| connect(&server)).collect();
    clients[0].open_path("/data/file", &OpenHow::create(0o644)).unwrap();
    let mds = CephDaemon::Mds("cephfs".to_owned());
    cluster.signal(&mds, CephSignal::STOP);
    let (say, answered) = mpsc::channel();
    let waiting: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(number, mut client)| {
            let say = say.clone();
            std::thread::spawn(move || {
                let made = client.open_path(&format!("/data/new{number}"), &OpenHow::create(0o644));
                say.send(made.map(drop)).unwrap();
            })
        })
        .collect();
    // More clients wait than there are shards, and others go on.
    let mut other = Filesystem::mount(options(&server), "/memory").unwrap();
    for round in 0..20 {
        other.write_file(&format!("file{round}"), b"data").unwrap();
        assert_eq!(other.read_file(&format!("file{round}")).unwrap(), b"data");
    }
    let early = answered.try_recv();
    assert!(early.is_err(), "the metadata server hangs: {early:?}");
    cluster.signal(&mds, CephSignal::CONT);
    for _ in &waiting {
        let made: Result<(), Error> = answered.recv_timeout(PATIENCE).unwrap();
        made.unwrap();
    }
    waiting.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_member_whose_start_fails_waits_before_it_takes_its_name_again() {
    // docs/cluster.md
    let Some(site) = CephSite::new() else { return };
    let conf = site.cluster.configuration();
    site.cluster.ceph(["osd", "pool", "create", "members"]).unwrap();
    let mut join = orthrus(["cluster", "join", "--pool", "members", "--ceph-user", "admin", "--ceph-conf"]);
    let joined = run(join.arg(&conf).arg("gw1"));
    assert!(joined.status.success(), "{}", joined.stderr);
    let config = site.folder.path().join("orthrus.toml");
    let text = format!(
        "state_dir = {:?}\nlisten = \"127.0.0.1:0\"\n[cluster]\nnode = \"gw1\"\npool = \"members\"\n\
         ceph_user = \"admin\"\nceph_conf = {conf:?}\n[[export]]\nceph = \"/no/such/directory\"\n\
         ceph_user = \"admin\"\nceph_conf = {conf:?}\nsec = [\"sys\"]\n",
        site.folder.path().join("state"),
    );
    std::fs::write(&config, text).unwrap();
    let serve = || {
        let mut serve = orthrus(["serve", "--config"]);
        serve.arg(&config);
        serve
    };
    let failed = run(&mut serve());
    assert_eq!(failed.status.code(), Some(1), "{}", failed.stderr);
    assert!(failed.stderr.contains("/no/such/directory"), "{}", failed.stderr);
    // At once, as a service manager does.
    let mut again = serve().stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(again.stderr.take().unwrap()).lines().map(|line| line.unwrap());
    let waits = lines.take_while(|line| !line.contains("/no/such/directory"));
    let waits = waits.into_iter().find(|line| line.contains("waiting 5 s after 1 failed start(s)"));
    assert!(waits.is_some(), "it waits for nothing");
    kill(Pid::from_raw(again.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert!(again.wait().unwrap().success(), "it ends at once");
}

#[test]
fn a_check_names_the_fault_of_an_export_of_ceph() {
    let Some(site) = CephSite::new() else { return };
    let config = site.folder.path().join("orthrus.toml");
    let conf = site.cluster.configuration();
    let text = |path: &str| {
        format!(
            "state_dir = {:?}\nlisten = \"127.0.0.1:0\"\n[[export]]\nceph = {path:?}\nceph_user = \"admin\"\nceph_conf = {conf:?}\nsec = [\"sys\"]\n",
            site.folder.path().join("state"),
        )
    };
    let check = |path: &str| {
        std::fs::write(&config, text(path)).unwrap();
        e2e::run(&mut e2e::orthrus(["serve", "--check", "--config", &config.display().to_string()]))
    };
    let right = check(&format!("/{}", site.directory));
    assert!(right.status.success(), "{}", right.stderr);
    let wrong = check("/no/such/directory");
    assert!(!wrong.status.success());
    assert!(
        wrong.stderr.contains("/no/such/directory") && wrong.stderr.contains("ceph fs ls"),
        "{}",
        wrong.stderr
    );
}
