//! Gateways of a cluster that fail, on machines of their own: what a client was promised holds, and
//! another machine goes on.
//!
//! `cargo xtask cluster` runs all of it. Skipped, with the reason, where Ceph is not installed or
//! the process is not root.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod clients;
mod expired;
mod guest;
mod linux;
mod machines;
mod workload;

use ceph::fs::{CephFs, CephLockRange, CephMount, CephOpenFile, Credentials, LockType, wait_for_unmounts};
use client::{Client, Flavor, Options, Security};
use clients::{Holder, HolderProgress, Rival, numbers};
use e2e::{Serve, Server, World, in_world_with, is_root, orthrus, run};
use guest::{GATEWAY_HOST, GuestKernel, HOLDER, RIVAL};
use linux::{LinuxHolder, LinuxRival};
use machines::{SITE, SiteMachine, enter_site};
use miniceph::{CephDaemon, MiniCeph, MiniCephError, MiniCephOptions};
use nfs4::{Bitmap4, FATTR4_SIZE};
use realm::RealmOptions;
use rustix::process::Signal;
use std::ffi::CString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use workload::{Promise, RivalsReport, Workload, holder_name};

/// The addresses of the machines, and of the gateways that run on them.
const MACHINES: [(&str, &str); 2] = [("orthrus-gw-a", "10.79.0.11"), ("orthrus-gw-b", "10.79.0.12")];
const GATEWAYS: [(&str, &str); 2] = [("gw1", "10.79.0.101"), ("gw2", "10.79.0.102")];
const PORT: u16 = 2049;
const KDC_PORT: u16 = 88;
const POOL: &str = "gateways";
/// Seconds of a lease, the shortest that there is, and of the grace period that follows from it.
const LEASE: u64 = 5;
const GRACE: Duration = Duration::from_secs(LEASE + 5);
/// The time in addition to the grace period after which every client continues.
const MARGIN: Duration = Duration::from_secs(10);
/// How long an observer waits for a gateway to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Writes of each client after the failure of a daemon.
const WRITES_AFTER: u64 = 20;
/// Native clients of the gateway that fails, and connections of each.
const HOLDERS: usize = 3;
const CONNECTIONS: usize = 4;

/// Two machines, a Ceph cluster and the KDC of a world.
struct FailoverSite<'w> {
    world: &'w World,
    cluster: MiniCeph,
    machines: [Option<SiteMachine>; 2],
    /// The kernel of the Linux clients, if there are to be any.
    kernel: Option<GuestKernel>,
}

impl<'w> FailoverSite<'w> {
    fn new(world: &'w World, options: MiniCephOptions) -> Option<Self> {
        if let Err(error) = CephFs::load() {
            eprintln!("skipped: {error}");
            return None;
        }
        let options = MiniCephOptions { address: SITE.parse().unwrap(), ..options };
        let cluster = match MiniCeph::start(&options) {
            Ok(cluster) => cluster,
            Err(error @ MiniCephError::Missing { .. }) => {
                eprintln!("skipped: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        cluster.make_directory("data", 1 << 30).unwrap();
        cluster.ceph(["osd", "pool", "create", POOL]).unwrap();
        let machines = MACHINES.map(|(name, at)| Some(SiteMachine::new(name, at)));
        let site = Self { world, cluster, machines, kernel: None };
        let conf = site.cluster.configuration();
        let mut join = orthrus(["cluster", "join", "--pool", POOL, "--ceph-user", "admin", "--ceph-conf"]);
        let joined = run(join.arg(conf).args(["gw1", "gw2"]));
        assert!(joined.status.success(), "{}", joined.stderr);
        Some(site)
    }

    fn machine(&self, index: usize) -> &SiteMachine {
        self.machines[index].as_ref().expect("it is there")
    }

    /// The configuration of a gateway: all have the same keytab.
    fn configuration(&self, gateway: usize) -> PathBuf {
        let (node, _) = GATEWAYS[gateway];
        let conf = self.cluster.configuration();
        let realm = &self.world.realm;
        let maps = ["alice", "bob"].map(|user| {
            format!("{:?} = {:?}\n", format!("{user}@{}", realm.name()), e2e::account(user).name)
        });
        let text = format!(
            "keytab = {:?}\nlease_time = {LEASE}\ngrace_time = {LEASE}\n[principals]\n{}\
             [cluster]\nnode = {node:?}\npool = {POOL:?}\nceph_user = \"admin\"\nceph_conf = {conf:?}\n\
             [[export]]\nceph = \"/data\"\nceph_user = \"admin\"\nceph_conf = {conf:?}\n\
             sec = [\"krb5p\", \"sys\"]\nsecure = false\nsquash = \"none\"\n",
            realm.server_keytab(),
            maps.concat(),
        );
        let file = self.world.path(&format!("{node}.toml"));
        std::fs::write(&file, text).unwrap();
        file
    }

    /// Starts a gateway on a machine, which has its address already.
    fn start(&self, gateway: usize, machine: usize) -> Server {
        let (node, address) = GATEWAYS[gateway];
        let state = self.world.path(&format!("{}-{node}", MACHINES[machine].0));
        Serve::new(state)
            .behind(self.machine(machine).prefix())
            .for_everybody()
            .listen(SocketAddr::new(address.parse().unwrap(), PORT))
            .arg("--config")
            .arg(self.configuration(gateway))
            .start()
    }

    fn options(&self, gateway: usize, user: &str, name: &str) -> Options {
        Options {
            owner: Some(name.as_bytes().to_vec()),
            call_timeout: Duration::from_secs(20),
            connect_timeout: Duration::from_secs(2),
            reconnect_max: Duration::from_secs(3),
            backoff_max: Duration::from_millis(200),
            ..Options::new(GATEWAYS[gateway].1, self.world.identity(user, Flavor::Krb5p)).port(PORT)
        }
    }

    /// Starts a client of the first gateway with several connections.
    fn holder(&self, number: usize) -> Holder {
        let name = holder_name(number);
        Holder::start(self.options(0, "alice", &name).connections(CONNECTIONS), name)
    }

    /// Starts a Linux client of the first gateway, and its rival at the second.
    fn linux_clients(&self) -> Option<(LinuxHolder, LinuxRival)> {
        let kernel = self.kernel.as_ref()?;
        let [(_, first), (_, second)] = GATEWAYS;
        let holder = LinuxHolder::start(self.world, kernel, first);
        let rival = LinuxRival::start(self.world, kernel, second, &holder);
        Some((holder, rival))
    }

    /// Starts a client of the second gateway that asks for a lock.
    fn rival(&self, name: &str, holder: &Arc<HolderProgress>) -> Rival {
        let options =
            Options { delay_max: Duration::ZERO, ..self.options(1, "alice", &format!("rival of {name}")) };
        Rival::start(options, name, Arc::clone(holder))
    }

    /// Checks as a client of Ceph that each client has its lock.
    fn check_locks(&self, workload: &Workload) {
        let outside = Outside::new(&self.cluster);
        for (name, _) in workload.clients() {
            assert!(outside.is_locked(&name), "{name}");
        }
    }

    /// Reads the promised records of the holders as a client of Ceph, and that of the Linux rival.
    fn check_files(&self, promised: &[Promise], report: &RivalsReport) {
        let outside = Outside::new(&self.cluster);
        for promise in promised {
            let (numbers, written) = (outside.numbers(&promise.name), promise.written);
            assert!(numbers.len() as u64 >= written, "{} of {written} numbers", numbers.len());
            numbers.iter().zip(1..=written).for_each(|(found, number)| assert_eq!(*found, number));
            for made in 0..promise.made {
                outside.find(&format!("{}-{made}", promise.name));
            }
        }
        if let Some(linux) = &report.linux {
            // Two holders of the lock would mix their records.
            let handed_over = (1..=linux.written).chain([0]);
            assert!(outside.numbers(linux::FILE).into_iter().eq(handed_over), "the lock was held twice");
        }
    }
}

impl Drop for FailoverSite<'_> {
    /// Ends the mounts of observers before the cluster, which they would wait for.
    fn drop(&mut self) {
        wait_for_unmounts(PATIENCE);
    }
}

/// A client of Ceph, which sees what gateways do.
struct Outside {
    mount: Arc<CephMount>,
    user: Credentials,
}

impl Outside {
    fn new(cluster: &MiniCeph) -> Self {
        let library = CephFs::load().unwrap();
        let mount = CephMount::open(library, &cluster.mount_options(), Box::new(|_, _| ())).unwrap();
        Self { mount, user: Credentials::new(library, 0, 0, &[].into()).unwrap() }
    }

    fn find(&self, name: &str) -> ceph::fs::CephInode {
        let (data, _) = self.mount.root().unwrap().lookup(c"data", &self.user).unwrap();
        let found = data.lookup(&CString::new(name).unwrap(), &self.user);
        found.unwrap_or_else(|error| panic!("{name}: {error}")).0
    }

    fn open(&self, name: &str) -> CephOpenFile {
        // O_RDONLY
        self.find(name).open(0, &self.user).unwrap()
    }

    /// Reads the numbers in a file.
    fn numbers(&self, name: &str) -> Vec<u64> {
        let (file, mut data) = (self.open(name), Vec::new());
        loop {
            let at = data.len() as u64;
            if file.read(&mut data, 1 << 20, at).unwrap() == 0 {
                break;
            }
        }
        numbers(&data)
    }

    fn is_locked(&self, name: &str) -> bool {
        let range = CephLockRange { first: 0, last: 9 };
        self.open(name).find_lock(range, LockType::Read, 1).unwrap().is_some()
    }
}

/// Runs the body in a site with a KDC; skipped, with the reason, where that is not possible.
fn in_site(world: &World, options: MiniCephOptions, has_linux: bool, body: impl FnOnce(&mut FailoverSite)) {
    if let Some(mut site) = FailoverSite::new(world, options) {
        site.kernel = has_linux.then(GuestKernel::find).flatten();
        if let Some(kernel) = &site.kernel {
            eprintln!(
                "two clients with Linux {} and {} connections each",
                kernel.version(),
                guest::CONNECTIONS
            );
        }
        body(&mut site);
    }
}

/// The realm of the site: its KDC serves the machines on the switch.
fn realm_options() -> RealmOptions {
    RealmOptions {
        listen: Some(SocketAddr::new(SITE.parse().unwrap(), KDC_PORT)),
        hosts: vec![GATEWAY_HOST.to_owned()],
        clients: [HOLDER, RIVAL].map(|machine| machine.host.to_owned()).to_vec(),
        ..RealmOptions::default()
    }
}

fn can_run() -> bool {
    if !is_root() {
        eprintln!("skipped: network namespaces and accounts of others need root");
        return false;
    }
    enter_site().map_err(|reason| eprintln!("skipped: {reason}")).is_ok()
}

/// Fails the first gateway, lets its successor start on the second machine, and checks that all of
/// its clients continue and none has lost anything. `fail` gets the running gateway. With `strays`,
/// a further client does not come back, so that the whole grace period passes.
fn fail_over(
    site: &mut FailoverSite,
    what: &str,
    strays: bool,
    fail: impl FnOnce(&mut FailoverSite, &mut Server),
) -> Server {
    for (machine, (_, address)) in GATEWAYS.iter().enumerate() {
        site.machine(machine).take_address(address);
    }
    let mut first = site.start(0, 0);
    let second = site.start(1, 1);
    let mut workload = Workload::start(site);

    workload.note_failure();
    fail(site, &mut first);
    let failed = Instant::now();
    site.machine(1).take_address(GATEWAYS[0].1);
    let successor = site.start(0, 1);
    let served = failed.elapsed();
    let continued = workload.wait_for(1).since(failed);
    let reclaimed = Instant::now();
    assert_eq!(workload.reclaimed(), [1; HOLDERS], "{}", successor.log());
    site.check_locks(&workload);
    let promised = workload.promises();
    let report = workload.stop(PATIENCE);
    let granted = report.native.granted.expect("the lock is free") - reclaimed;
    let granted_max = if strays { GRACE + MARGIN } else { MARGIN };
    site.check_files(&promised, &report);
    let last = continued.last();
    eprintln!(
        "{what}: the successor serves after {:.1} s, {continued} (at most {} s), new locks are granted \
         {:.1} s after all have reclaimed (at most {} s); {report}",
        served.as_secs_f64(),
        (GRACE + MARGIN).as_secs(),
        granted.as_secs_f64(),
        granted_max.as_secs(),
    );
    assert!(report.native.denied > 0, "the rival has asked while the lock was held");
    assert!(last <= GRACE + MARGIN, "{last:?}\n{}\n{}", successor.log(), second.log());
    assert!(granted <= granted_max, "{granted:?}\n{}", second.log());
    drop(successor);
    first
}

/// Kills the first gateway under its clients.
fn kill_gateway(world: &World, has_linux: bool) {
    in_site(world, MiniCephOptions::default(), has_linux, |site| {
        let kill = |site: &mut FailoverSite, gateway: &mut Server| {
            gateway.kill();
            site.machine(0).give_address(GATEWAYS[0].1);
        };
        drop(fail_over(site, "kill -9", false, kill));
    });
}

#[test]
fn a_gateway_that_is_killed_is_replaced_by_another_machine_and_its_clients_reclaim() {
    // RFC 8881 section 8.4.2.1
    if can_run() {
        in_world_with(&realm_options(), |world| kill_gateway(world, false));
    }
}

#[test]
#[ignore = "takes up to half a minute: cargo xtask cluster"]
fn a_linux_client_reclaims_from_the_successor_of_a_gateway_that_is_killed() {
    // RFC 8881 section 8.4.2.1
    if can_run() {
        in_world_with(&realm_options(), |world| kill_gateway(world, true));
    }
}

#[test]
#[ignore = "takes up to half a minute: cargo xtask cluster"]
fn a_machine_that_is_lost_is_replaced_by_another_and_its_clients_reclaim() {
    // RFC 8881 section 8.4.2.1
    if !can_run() {
        return;
    }
    in_world_with(&realm_options(), |world| {
        in_site(world, MiniCephOptions::default(), true, |site| {
            let lose = |site: &mut FailoverSite, gateway: &mut Server| {
                // No packet tells of the end.
                site.machine(0).cut();
                gateway.kill();
                site.machines[0] = None;
            };
            drop(fail_over(site, "loss of a machine", false, lose));
        });
    });
}

#[test]
#[ignore = "takes up to half a minute: cargo xtask cluster"]
fn a_gateway_that_is_cut_off_is_fenced_before_another_serves_and_ends_when_it_is_back() {
    // RFC 8881 section 8.4.2.1
    if !can_run() {
        return;
    }
    in_world_with(&realm_options(), |world| {
        in_site(world, MiniCephOptions::default(), true, |site| {
            let answered = Arc::<std::sync::Mutex<Option<Instant>>>::default();
            let ends = Arc::<AtomicBool>::default();
            let (noted, asked) = (Arc::clone(&answered), Arc::clone(&ends));
            let (mut local, mut began) = (None, None);
            let cut = |site: &mut FailoverSite, _: &mut Server| {
                // A client on the same machine still reaches the gateway.
                let machine = site.machine(0);
                let ask = || {
                    machine.enter();
                    let options = Options {
                        call_timeout: Duration::from_secs(2),
                        ..Options::new(GATEWAYS[0].1, Security::sys_as(0, 0)).port(PORT)
                    };
                    let mut client = Client::connect(options).expect("the gateway serves");
                    let (root, _) = client.lookup_path("/data").expect("it is exported");
                    std::thread::spawn(move || {
                        while !asked.load(SeqCst) {
                            if client.getattr(&root, Bitmap4::of(&[FATTR4_SIZE])).is_ok() {
                                *noted.lock().unwrap() = Some(Instant::now());
                            }
                            std::thread::sleep(Duration::from_millis(20));
                        }
                    })
                };
                local = Some(std::thread::scope(|scope| scope.spawn(ask).join().unwrap()));
                site.machine(0).cut();
                began = Some(Instant::now());
            };
            let mut first = fail_over(site, "network cut", true, cut);
            ends.store(true, SeqCst);
            local.expect("it was started").join().unwrap();
            assert!(first.is_running());
            first.wait_for_log("answers no client");
            let last = answered.lock().unwrap().expect("the gateway has answered");
            eprintln!(
                "network cut: the gateway gave its last answer {:.1} s after the start of the cut",
                (last - began.unwrap()).as_secs_f64()
            );
            let listed = site.cluster.ceph(["osd", "blocklist", "ls"]).unwrap();
            assert!(listed.contains(MACHINES[0].1), "{listed}");
            site.machine(0).heal();
            let (status, _) = first.wait();
            // Replaced, or evicted: it does not matter what it hears first.
            assert!([Some(75), Some(76)].contains(&status.code()), "{status}: {}", first.log());
        });
    });
}

/// Lets a daemon fail while clients work, and checks that they only wait.
fn daemon_fails(site: &FailoverSite, what: &str, daemon: &CephDaemon) {
    for (machine, (_, address)) in GATEWAYS.iter().enumerate() {
        site.machine(machine).take_address(address);
    }
    let _gateways = [site.start(0, 0), site.start(1, 1)];
    let mut workload = Workload::start(site);
    workload.note_failure();
    site.cluster.stop_daemon(daemon, Signal::KILL);
    let failed = Instant::now();
    std::thread::sleep(Duration::from_secs(1));
    let continued = workload.wait_for(WRITES_AFTER).since(failed);
    let promised = workload.promises();
    site.check_locks(&workload);
    assert_eq!(workload.reclaimed(), [0; HOLDERS], "the gateway has kept its state");
    let report = workload.stop(PATIENCE);
    assert!(report.native.denied > 0 && report.native.granted.is_some());
    site.check_files(&promised, &report);
    eprintln!("{what}: {continued}; {report}");
}

fn redundant() -> MiniCephOptions {
    MiniCephOptions { osds: 3, standby: true, ..MiniCephOptions::default() }
}

#[test]
#[ignore = "takes up to half a minute: cargo xtask cluster"]
fn clients_only_wait_while_another_metadata_server_takes_over() {
    if !can_run() {
        return;
    }
    in_world_with(&realm_options(), |world| {
        in_site(world, redundant(), true, |site| {
            daemon_fails(site, "failure of a metadata server", &CephDaemon::Mds("cephfs".to_owned()));
        });
    });
}

#[test]
#[ignore = "takes up to half a minute: cargo xtask cluster"]
fn clients_only_wait_while_another_osd_takes_over() {
    if !can_run() {
        return;
    }
    in_world_with(&realm_options(), |world| {
        in_site(world, redundant(), true, |site| {
            daemon_fails(site, "failure of an OSD", &CephDaemon::Osd(1))
        });
    });
}
