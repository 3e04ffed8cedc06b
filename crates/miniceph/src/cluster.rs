//! Starts and changes a cluster.

use crate::configuration::{self, CONF, KEYRING};
use crate::programs::{self, AUTHTOOL, CephProgram, MDS, MON, MONMAPTOOL, OSD, ceph, tail};
use crate::watch::Watch;
use crate::{MiniCephError, MiniCephOptions, error};
use ceph::fs::{CephFs, CephMount, Credentials, MountOptions, NewInode, XattrFlag, wait_for_unmounts};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Attempts when another process takes the chosen port first.
const PORT_TRIES_MAX: usize = 8;
/// Time in which a daemon becomes ready on a busy machine.
const READY_MAX: Duration = Duration::from_secs(60);
/// Time in which a daemon ends after SIGTERM, before SIGKILL.
const END_MAX: Duration = Duration::from_secs(10);
/// Bytes at the end of a daemon's log that an error repeats.
const LOG_MAX: usize = 600;
/// How long the mount of a call may take to end.
const UNMOUNT_MAX: Duration = Duration::from_secs(5);
/// The name of the file system that a new cluster has.
const FILE_SYSTEM: &str = "cephfs";
/// Bytes of the largest file. Ceph's own default, 1 TiB, is less than clients of NFS try.
pub const FILE_SIZE_MAX: u64 = 16 << 40;
/// The name of a metadata server that waits for the failure of another.
const STANDBY: &str = "standby";

/// A daemon of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CephDaemon {
    /// The monitor of the cluster.
    Monitor,
    /// The OSD with this number, from 0. Its objects survive a stop, but not a kill.
    Osd(u32),
    /// The metadata server with this name: `cephfs` for that of the first file system.
    Mds(String),
}

impl CephDaemon {
    fn program(&self) -> CephProgram {
        match self {
            Self::Monitor => MON,
            Self::Osd(_) => OSD,
            Self::Mds(_) => MDS,
        }
    }

    fn id(&self) -> Cow<'_, str> {
        match self {
            Self::Monitor => "a".into(),
            Self::Osd(number) => number.to_string().into(),
            Self::Mds(name) => name.into(),
        }
    }

    /// Returns the name as in Ceph's keyring and logs.
    fn name(&self) -> String {
        let kind = match self {
            Self::Monitor => "mon",
            Self::Osd(_) => "osd",
            Self::Mds(_) => "mds",
        };
        format!("{kind}.{}", self.id())
    }
}

/// A running cluster in a temporary folder.
#[derive(Debug)]
pub struct MiniCeph {
    daemons: Mutex<HashMap<CephDaemon, Child>>,
    // Ends the daemons before the folder is removed.
    watch: Watch,
    dir: PathBuf,
    monitor: SocketAddr,
    _folder: TempDir,
}

impl MiniCeph {
    /// Makes a cluster with the file system `cephfs` and waits until it serves.
    ///
    /// # Errors
    /// `Missing` names the package to install. A failure leaves nothing behind.
    pub fn start(options: &MiniCephOptions) -> Result<Self, MiniCephError> {
        Self::start_unless(options, &AtomicBool::new(false))
    }

    /// As [`MiniCeph::start`], but gives up soon after `stop` is set, as a signal handler does.
    ///
    /// # Errors
    /// `Interrupted` in that case, and those of [`MiniCeph::start`].
    pub fn start_unless(options: &MiniCephOptions, stop: &AtomicBool) -> Result<Self, MiniCephError> {
        programs::ALL.into_iter().try_for_each(|program| program.find().map(drop))?;
        let mut last = None;
        for _ in 0..PORT_TRIES_MAX {
            let monitor = free_address(options.address)?;
            match Self::start_at(options, monitor, stop) {
                // Another process may have taken the port.
                Err(error @ MiniCephError::Daemon { .. }) if TcpListener::bind(monitor).is_err() => {
                    last = Some(error);
                }
                started => return started,
            }
        }
        Err(last.unwrap_or_else(|| {
            error::MiniCephError::io(Path::new("a port"))(std::io::Error::from(ErrorKind::AddrInUse))
        }))
    }

    fn start_at(
        options: &MiniCephOptions,
        monitor: SocketAddr,
        stop: &AtomicBool,
    ) -> Result<Self, MiniCephError> {
        let cluster = Self::without_daemons(monitor)?;
        cluster.make(options, stop)?;
        Ok(cluster)
    }

    fn without_daemons(monitor: SocketAddr) -> Result<Self, MiniCephError> {
        let folder = private::temporary("orthrus-ceph-")?;
        let dir = folder.path().join("cluster");
        fs::create_dir(&dir).map_err(MiniCephError::io(&dir))?;
        let watch = Watch::start(folder.path())?;
        Ok(Self { daemons: Mutex::default(), watch, dir, monitor, _folder: folder })
    }

    /// Makes the cluster in the folder. Between two steps, of a second at most, it looks at `stop`.
    fn make(&self, options: &MiniCephOptions, stop: &AtomicBool) -> Result<(), MiniCephError> {
        let go_on = || if stop.load(Relaxed) { Err(MiniCephError::Interrupted) } else { Ok(()) };
        let fsid = uuid()?;
        let text = configuration::text(&self.dir, &fsid, self.monitor, options);
        write(&self.dir.join(CONF), &text)?;
        let names = || [FILE_SYSTEM].into_iter().chain(options.file_systems.iter().map(String::as_str));
        let standby = options.standby.then_some(STANDBY);
        self.make_keys(options.osds, names().chain(standby))?;
        let (dir, address) = (&self.dir, format!("[v2:{}]", self.monitor));
        let monmap = ["--create", "--addv", "a", &address, "--fsid", &fsid, "monmap"];
        MONMAPTOOL.run(dir, self.watch.group(), monmap)?;
        self.run_daemon(&CephDaemon::Monitor, &["--mkfs", "--monmap", "monmap", "--keyring", KEYRING])?;
        self.start_daemon(&CephDaemon::Monitor)?;
        for osd in (0..options.osds).map(CephDaemon::Osd) {
            go_on()?;
            let id = uuid()?;
            self.ceph(["osd", "new", &id])?;
            self.run_daemon(&osd, &["--mkfs", "--osd-uuid", &id])?;
            self.start_daemon(&osd)?;
        }
        for name in names() {
            self.start_daemon(&CephDaemon::Mds(name.to_owned()))?;
            let pools = ["metadata", "data"].map(|pool| format!("{name}.{pool}"));
            for pool in &pools {
                go_on()?;
                self.ceph(["osd", "pool", "create", pool])?;
            }
            let [metadata, data] = &pools;
            self.ceph(["fs", "new", name, metadata, data])?;
            self.ceph(["fs", "set", name, "max_file_size", &FILE_SIZE_MAX.to_string()])?;
        }
        names().try_for_each(|name| self.wait_until_active(name, go_on))?;
        standby.map_or(Ok(()), |name| self.start_daemon(&CephDaemon::Mds(name.to_owned())))
    }

    /// Makes the keys of all daemons and of `client.admin`.
    fn make_keys<'n>(
        &self,
        osds: u32,
        metadata_servers: impl Iterator<Item = &'n str>,
    ) -> Result<(), MiniCephError> {
        let mds = |name: &str| {
            let caps = [
                ("mon", "allow profile mds"),
                ("osd", "allow *"),
                ("mds", "allow *"),
                ("mgr", "allow profile mds"),
            ];
            (format!("mds.{name}"), caps.to_vec())
        };
        let entities = [
            ("mon.".to_owned(), vec![("mon", "allow *")]),
            ("client.admin".to_owned(), ["mon", "osd", "mds", "mgr"].map(|kind| (kind, "allow *")).to_vec()),
        ];
        let osd = |number: u32| {
            let caps = [("mon", "allow profile osd"), ("osd", "allow *"), ("mgr", "allow profile osd")];
            (format!("osd.{number}"), caps.to_vec())
        };
        write(&self.dir.join(KEYRING), "")?;
        for (name, caps) in entities.into_iter().chain((0..osds).map(osd)).chain(metadata_servers.map(mds)) {
            let mut arguments = vec![KEYRING, "--gen-key", "-n", &name];
            caps.iter().for_each(|(kind, cap)| arguments.extend(["--cap", kind, cap]));
            AUTHTOOL.run(&self.dir, self.watch.group(), arguments)?;
        }
        Ok(())
    }

    fn arguments(&self, daemon: &CephDaemon) -> [String; 4] {
        [
            "-i".to_owned(),
            daemon.id().into_owned(),
            "-c".to_owned(),
            self.configuration().display().to_string(),
        ]
    }

    /// Runs the program of a daemon to its end.
    fn run_daemon(&self, daemon: &CephDaemon, arguments: &[&str]) -> Result<(), MiniCephError> {
        let data = self.dir.join(daemon.name());
        fs::create_dir_all(&data).map_err(MiniCephError::io(&data))?;
        let fixed = self.arguments(daemon);
        let all = fixed.iter().map(String::as_str).chain(arguments.iter().copied());
        daemon.program().run(&self.dir, self.watch.group(), all).map(drop)
    }

    /// Starts a daemon that does not run.
    ///
    /// # Errors
    /// `Io` if the program does not start.
    pub fn start_daemon(&self, daemon: &CephDaemon) -> Result<(), MiniCephError> {
        let said = self.dir.join(format!("{}.out", daemon.name()));
        let out = File::create(&said).map_err(MiniCephError::io(&said))?;
        let copy = out.try_clone().map_err(MiniCephError::io(&said))?;
        let mut command = daemon.program().command(&self.dir)?;
        command.args(self.arguments(daemon)).arg("-f").stdout(out).stderr(copy).stdin(Stdio::null());
        command.process_group(self.watch.group());
        let child = command.spawn().map_err(MiniCephError::io(Path::new(daemon.program().name)))?;
        self.daemons().insert(daemon.clone(), child);
        Ok(())
    }

    /// Ends a daemon and waits for it: by SIGTERM, after which an OSD keeps its objects, or by
    /// SIGKILL.
    pub fn stop_daemon(&self, daemon: &CephDaemon, signal: Signal) {
        let Some(mut child) = self.daemons().remove(daemon) else { return };
        self.signal_child(&child, signal);
        let end = Instant::now() + END_MAX;
        while child.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() > end {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal to a daemon, such as SIGSTOP for one that hangs; that one does nothing more
    /// when this returns.
    pub fn signal(&self, daemon: &CephDaemon, signal: Signal) {
        if let Some(child) = self.daemons().get(daemon) {
            self.signal_child(child, signal);
            if signal == Signal::STOP {
                wait_until_stopped(child);
            }
        }
    }

    fn signal_child(&self, child: &Child, signal: Signal) {
        // It is our child and was not waited for, so the number is still its own.
        if let Some(pid) = pid_of(child) {
            // One that has just ended needs no signal.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until a file system has an active metadata server, and calls `go_on` meanwhile.
    fn wait_until_active(
        &self,
        name: &str,
        go_on: impl Fn() -> Result<(), MiniCephError>,
    ) -> Result<(), MiniCephError> {
        let end = Instant::now() + READY_MAX;
        loop {
            go_on()?;
            self.check_daemons()?;
            let stat = self.ceph(["mds", "stat"])?;
            if is_active(&stat, name) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(
                    self.daemon_error(&CephDaemon::Mds(name.to_owned()), format!("it is {}", stat.trim()))
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn check_daemons(&self) -> Result<(), MiniCephError> {
        let ended = self.daemons().iter_mut().find_map(|(daemon, child)| {
            let status = child.try_wait().ok().flatten()?;
            Some((daemon.clone(), status))
        });
        match ended {
            Some((daemon, status)) => Err(self.daemon_error(&daemon, format!("it ended with {status}"))),
            None => Ok(()),
        }
    }

    fn daemon_error(&self, daemon: &CephDaemon, why: String) -> MiniCephError {
        let name = daemon.name();
        let read =
            |ending: &str| fs::read_to_string(self.dir.join(format!("{name}.{ending}"))).unwrap_or_default();
        let log = tail(&(read("log") + &read("out")), LOG_MAX);
        MiniCephError::Daemon { daemon: name, why, log }
    }

    fn daemons(&self) -> MutexGuard<'_, HashMap<CephDaemon, Child>> {
        self.daemons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a command of the `ceph` program as `client.admin`, and returns its output.
    ///
    /// # Errors
    /// `Program` with the message of the cluster.
    pub fn ceph<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Result<String, MiniCephError> {
        match ceph(&self.dir, self.watch.group(), arguments) {
            // The reason is in the log of a daemon that has ended.
            Err(error) => self.check_daemons().and(Err(error)),
            output => output,
        }
    }

    /// Makes a user with rights to a path of a file system (`ceph fs authorize`), and returns the
    /// file with its key.
    ///
    /// # Errors
    /// `Program` with the message of the cluster.
    pub fn user(
        &self,
        name: &str,
        file_system: &str,
        path: &str,
        rights: &str,
    ) -> Result<PathBuf, MiniCephError> {
        let entity = format!("client.{name}");
        let keyring = self.ceph(["fs", "authorize", file_system, &entity, path, rights])?;
        let file = self.dir.join(format!("{entity}.keyring"));
        write(&file, &keyring)?;
        Ok(file)
    }

    /// Makes a directory below the root of the first file system for everybody to write, and gives
    /// it a size: without a manager a cluster does not know its own.
    ///
    /// # Errors
    /// `Library` without Ceph's library, and its errors.
    pub fn make_directory(&self, name: &str, bytes: u64) -> Result<(), MiniCephError> {
        let failed = |error: ceph::CephErrno| MiniCephError::Program {
            program: "libcephfs",
            output: format!("{name} cannot be made: {error}"),
        };
        let name = CString::new(name).map_err(|_| failed(ceph::CephErrno::EINVAL))?;
        let library = CephFs::load()?;
        let mount = CephMount::open(library, &self.mount_options(), Box::new(|_, _| ()))?;
        let user = Credentials::new(library, 0, 0, &[].into()).ok_or(failed(ceph::CephErrno::ENOMEM))?;
        let root = mount.root().map_err(failed)?;
        let (directory, _) = root.create(&name, NewInode::Directory, 0o777, &user).map_err(failed)?;
        let quota = bytes.to_string();
        let set = directory.set_xattr(c"ceph.quota.max_bytes", quota.as_bytes(), XattrFlag::Either, &user);
        set.and_then(|()| root.sync()).map_err(failed)?;
        drop((directory, root, mount));
        // A session that is left behind would hold up the next metadata server.
        wait_for_unmounts(UNMOUNT_MAX);
        Ok(())
    }

    /// Returns how a native client mounts the first file system as `client.admin`.
    pub fn mount_options(&self) -> MountOptions {
        MountOptions {
            configuration: self.configuration(),
            user: "admin".to_owned(),
            keyring: None,
            file_system: None,
            path: "/".to_owned(),
            settings: vec![("client_acl_type", "posix_acl".to_owned())],
            defaults: Vec::new(),
            identity: None,
            former: None,
        }
    }

    /// Returns the folder of the cluster.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the configuration file, which also leads to the key of `client.admin`.
    pub fn configuration(&self) -> PathBuf {
        self.dir.join(CONF)
    }

    /// Returns the socket of a daemon, such as `mds.cephfs`, for `ceph daemon`.
    pub fn socket(&self, daemon: &str) -> PathBuf {
        self.dir.join(format!("{daemon}.asok"))
    }

    /// Returns the file with the key of `client.admin`.
    pub fn keyring(&self) -> PathBuf {
        self.dir.join(KEYRING)
    }

    /// Returns the name of the first file system.
    pub fn file_system(&self) -> &'static str {
        FILE_SYSTEM
    }
}

impl Drop for MiniCeph {
    fn drop(&mut self) {
        self.watch.end();
        // They have ended by a signal of the watch.
        for (_, mut child) in self.daemons().drain() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn free_address(address: IpAddr) -> Result<SocketAddr, MiniCephError> {
    TcpListener::bind((address, 0))
        .and_then(|probe| probe.local_addr())
        .map_err(MiniCephError::io(Path::new(&address.to_string())))
}

fn write(path: &Path, text: &str) -> Result<(), MiniCephError> {
    fs::write(path, text).map_err(MiniCephError::io(path))
}

/// Reads `ceph mds stat`: `cephfs:1 {0=a=up:active}`, or with several file systems `cephfs:1 more:1
/// {cephfs:0=a=up:active,more:0=b=up:active}`.
fn is_active(stat: &str, file_system: &str) -> bool {
    let Some((summary, ranks)) = stat.split_once('{') else { return false };
    let ranks = ranks.split_once('}').map_or(ranks, |(ranks, _)| ranks);
    ranks.split(',').any(|rank| {
        let (named, state) = rank.split_once('=').unwrap_or_default();
        let alone = named == "0" && summary.trim() == format!("{file_system}:1");
        (alone || named == format!("{file_system}:0")) && state.ends_with("=up:active")
    })
}

/// Returns a random UUID of the kernel.
fn uuid() -> Result<String, MiniCephError> {
    let source = Path::new("/proc/sys/kernel/random/uuid");
    fs::read_to_string(source).map(|text| text.trim().to_owned()).map_err(MiniCephError::io(source))
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Waits until all threads of a process have stopped: a signal stops them one after another, and
/// those that run meanwhile may still answer.
fn wait_until_stopped(child: &Child) {
    let events = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    // An error means that there is nothing to wait for.
    let _ = pid_of(child).map(|pid| waitid(WaitId::Pid(pid), events));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::kill_process_group;
    use std::net::Ipv4Addr;

    fn processes_of(dir: &Path) -> usize {
        let conf = dir.join(CONF);
        let of_dir = |process: &fs::DirEntry| {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == conf.as_os_str().as_encoded_bytes())
        };
        fs::read_dir("/proc").unwrap().flatten().filter(of_dir).count()
    }

    #[test]
    fn an_active_server_is_recognised() {
        let one = "cephfs:1 {0=cephfs=up:active}";
        let two = "cephfs:1 more:1 {cephfs:0=a=up:active,more:0=b=up:creating} 1 up:standby";
        assert!(is_active(one, "cephfs") && !is_active(one, "more"));
        assert!(is_active(two, "cephfs") && !is_active(two, "more"));
        assert!(!is_active("cephfs:1 {0=cephfs=up:replay}", "cephfs") && !is_active("cephfs:0", "cephfs"));
    }

    #[test]
    fn the_daemons_end_with_their_process_even_if_they_hang() {
        let mut cluster = match MiniCeph::start(&MiniCephOptions::default()) {
            Ok(cluster) => cluster,
            Err(error @ MiniCephError::Missing { .. }) => return eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(processes_of(cluster.dir()), 3);
        assert!(cluster.ceph(["fs", "ls"]).unwrap().contains("name: cephfs"));
        cluster.signal(&CephDaemon::Osd(0), Signal::STOP);
        // SIGKILL of this process closes the pipe in the same way.
        cluster.watch.end();
        let tries = (0..1000).take_while(|_| {
            std::thread::sleep(Duration::from_millis(10));
            // Zombies have no command line.
            processes_of(cluster.dir()) > 0
        });
        assert!(tries.count() < 1000, "a daemon runs on");
        assert!(!cluster.dir().parent().unwrap().exists());
    }

    #[test]
    fn a_start_that_is_stopped_ends_and_leaves_nothing() {
        let stop = AtomicBool::new(false);
        let cluster = MiniCeph::without_daemons(free_address(Ipv4Addr::LOCALHOST.into()).unwrap()).unwrap();
        let dir = cluster.dir().to_owned();
        let monitor_runs = || cluster.daemons().contains_key(&CephDaemon::Monitor);
        let made = std::thread::scope(|scope| {
            let making = scope.spawn(|| cluster.make(&MiniCephOptions::default(), &stop));
            while !monitor_runs() && !making.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            stop.store(true, Relaxed);
            making.join().unwrap()
        });
        if let Err(error @ MiniCephError::Missing { .. }) = made {
            return eprintln!("skipped: {error}");
        }
        assert!(matches!(made, Err(MiniCephError::Interrupted)), "{made:?}");
        drop(cluster);
        assert_eq!(processes_of(&dir), 0);
        assert!(!dir.parent().unwrap().exists());
    }

    #[test]
    fn signals_to_all_processes_leave_the_cleanup_to_the_end_of_the_creator() {
        let mut cluster =
            MiniCeph::without_daemons(free_address(Ipv4Addr::LOCALHOST.into()).unwrap()).unwrap();
        let (watch, folder) = (cluster.watch.group(), cluster.dir().parent().unwrap().to_owned());
        let ignores_signals = || {
            let status = fs::read_to_string(format!("/proc/{watch}/status")).unwrap();
            let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
            u64::from_str_radix(ignored, 16).unwrap() & 1 << (Signal::TERM.as_raw() - 1) != 0
        };
        let tries = (0..1000).take_while(|_| {
            std::thread::sleep(Duration::from_millis(10));
            !ignores_signals()
        });
        assert!(tries.count() < 1000, "the watch ends by a signal");
        for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
            kill_process_group(Pid::from_raw(watch).unwrap(), signal).unwrap();
        }
        cluster.watch.end();
        // The value itself has removed nothing yet.
        assert!(!folder.exists());
    }

    #[test]
    #[ignore = "takes 12 seconds: cargo test -p orthrus-miniceph -- --ignored"]
    fn a_cluster_of_three_osds_and_a_standby_outlives_one_of_each() {
        let options = MiniCephOptions { osds: 3, standby: true, ..MiniCephOptions::default() };
        let cluster = match MiniCeph::start(&options) {
            Ok(cluster) => cluster,
            Err(error @ MiniCephError::Missing { .. }) => return eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        };
        cluster.make_directory("before", 1 << 20).unwrap();
        cluster.stop_daemon(&CephDaemon::Osd(1), Signal::KILL);
        cluster.stop_daemon(&CephDaemon::Mds(FILE_SYSTEM.to_owned()), Signal::KILL);
        // The mount waits until the standby is active.
        cluster.make_directory("after", 1 << 20).unwrap();
        assert!(cluster.ceph(["mds", "stat"]).unwrap().contains("0=standby=up:active"));
    }
}
