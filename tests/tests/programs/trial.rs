//! Servers, folders and realms that root starts for a trial or a benchmark give another user of the
//! machine nothing: no file as root, no entry into a folder, no key, no ticket. They end with the
//! trial, however that ends.
//!
//! The attack runs as user 65534, in a process of its own. A server that admits all users shows
//! that the attack works.

use client::{Filesystem, Options, Security};
use e2e::{Ended, Serve, is_installed, is_root, open_folder, orthrus, program, run_within};
use nfs4::AttributeValues;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The attacker's instructions: one target a line.
const TARGETS: &str = "ORTHRUS_TEST_ATTACK";
/// How long a program may take to begin on a busy machine.
const START_MAX: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the attack of the test `name` as user 65534 and returns its loot, one line each.
fn attack(name: &str, targets: &[String]) -> Vec<String> {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    command.arg(std::env::current_exe().expect("a test knows where it is"));
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(TARGETS, targets.join("\n")).env("TMPDIR", "/tmp").env_remove("KRB5_CONFIG");
    let output = command.output().expect("setpriv is there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let done = said.lines().filter(|line| line.contains("tried ")).count();
    assert_eq!(done, targets.len(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said.lines().filter_map(|line| line.split_once("got ")).map(|(_, got)| got.to_owned()).collect()
}

/// The attacker's part of a test, and returns whether this process is the attacker.
fn is_attacker() -> bool {
    let Ok(targets) = std::env::var(TARGETS) else { return false };
    assert!(!is_root(), "the attack is no attack");
    for target in targets.lines() {
        match target.split_once(' ').expect("a kind and a target") {
            ("nfs", port) => try_nfs(port.parse().expect("a port")),
            ("http", port) => try_http(port.parse().expect("a port")),
            ("kdc", address) => try_kdc(address),
            ("path", path) => try_path(Path::new(path)),
            other => panic!("{other:?}"),
        }
        println!("\ntried {target}");
    }
    true
}

/// A set-id file of root's, by AUTH_SYS.
fn try_nfs(port: u16) {
    for minor_version in [1, 2] {
        for export in ["/data", "/memory", "/export"] {
            let options = Options::new("127.0.0.1", Security::sys_as(0, 0)).port(port);
            let options = Options {
                minor_version,
                call_timeout: TIMEOUT,
                connect_timeout: TIMEOUT,
                reconnect_max: Duration::ZERO,
                ..options
            };
            let Ok(mut files) = Filesystem::mount(options, export) else { continue };
            println!("\ngot the export {export}");
            if files.write_file("rootme", b"#!/bin/sh\n").is_ok() {
                println!("\ngot a file in {export}");
            }
            let set_id = AttributeValues { mode: Some(0o4755), ..Default::default() };
            if files.setattr("rootme", &set_id).is_ok() {
                println!("\ngot a set-id file in {export}");
            }
        }
    }
}

/// Requests a server's metrics.
fn try_http(port: u16) {
    let mut said = String::new();
    if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
        let _ = stream.set_read_timeout(Some(TIMEOUT));
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        let _ = stream.read_to_string(&mut said);
    }
    if !said.is_empty() {
        println!("\ngot metrics: {}", said.lines().next().unwrap_or_default());
    }
}

/// A ticket, with passwords that somebody would try.
fn try_kdc(address: &str) {
    let folder = tempfile::tempdir().expect("/tmp is there");
    for user in ["alice", "bob"] {
        for password in [user, "", "throw-away", "orthrus"] {
            if kinit(folder.path(), address, user, password) {
                println!("\ngot a ticket for {user}");
            }
        }
    }
}

/// Gets a ticket with a password, and returns whether it was good.
fn kinit(folder: &Path, kdc: &str, user: &str, password: &str) -> bool {
    let conf = folder.join("krb5.conf");
    let text = format!(
        "[libdefaults]\ndefault_realm = ORTHRUS.TEST\nudp_preference_limit = 1\n[realms]\nORTHRUS.TEST = {{\nkdc = {kdc}\n}}\n"
    );
    fs::write(&conf, text).expect("the folder is ours");
    let mut kinit = Command::new("kinit");
    kinit.env("KRB5_CONFIG", conf).arg("-c").arg(folder.join("ccache")).arg(user);
    kinit.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = kinit.spawn().expect("kinit is there");
    let _ = writeln!(child.stdin.take().expect("a pipe"), "{password}");
    child.wait().expect("it is a child").success()
}

/// The contents of a file, the names in a folder, or a new one.
fn try_path(path: &Path) {
    let read = File::open(path).is_ok() || fs::read_dir(path).is_ok();
    let written = File::options().append(true).open(path).is_ok() || File::create_new(path.join("x")).is_ok();
    if read || written {
        println!("\ngot {}", path.display());
    }
}

/// Everything below a folder, as targets.
fn paths_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        found.push(format!("path {}", entry.path().display()));
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(paths_below(&entry.path()));
        }
    }
    found
}

/// The KDCs of the realms below a folder, as targets.
fn kdcs(paths: &[String]) -> Vec<String> {
    let markers = paths.iter().filter_map(|path| path.strip_prefix("path ")?.strip_suffix("/.orthrus-realm"));
    let texts = markers.filter_map(|realm| fs::read_to_string(format!("{realm}/.orthrus-realm")).ok());
    let kdc = |text: String| {
        text.lines().find_map(|line| line.strip_prefix("kdc ")).map(|kdc| format!("kdc {kdc}"))
    };
    texts.filter_map(kdc).collect()
}

/// The ports on which a process and its children listen, as targets of both kinds.
fn listeners(pid: u32) -> Vec<String> {
    let mut sockets = Vec::new();
    let mut pids = vec![pid];
    while let Some(pid) = pids.pop() {
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            pids.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        sockets
            .extend(open.filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.display().to_string())));
    }
    let list = fs::read_to_string("/proc/net/tcp").expect("/proc is there");
    let port = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let ours = sockets.contains(&format!("socket:[{}]", fields.get(9)?));
        let listens = *fields.get(3)? == "0A" && ours;
        listens.then(|| u16::from_str_radix(fields.get(1)?.split_once(':')?.1, 16).ok())?
    };
    list.lines().filter_map(port).flat_map(|port| [format!("nfs {port}"), format!("http {port}")]).collect()
}

/// A program that root runs with temporary files of its own; ended with the value.
struct Trial {
    child: Child,
    folder: PathBuf,
}

impl Trial {
    /// Starts it and waits until a server listens.
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let temporary = folder.join("tmp");
        fs::create_dir(&temporary).expect("the folder is ours");
        let said = File::create(folder.join("said")).expect("the folder is ours");
        let mut command = orthrus(arguments);
        command.env("TMPDIR", &temporary).current_dir(folder);
        command.stdout(said.try_clone().expect("a file")).stderr(said);
        let mut child = command.spawn().expect("the program starts");
        let end = Instant::now() + START_MAX;
        while listeners(child.id()).len() < 4 {
            let said = || fs::read_to_string(folder.join("said")).unwrap_or_default();
            assert!(matches!(child.try_wait(), Ok(None)), "it ended: {}", said());
            assert!(Instant::now() < end, "there is no server with metrics: {}", said());
            std::thread::sleep(Duration::from_millis(20));
        }
        Self { child, folder: temporary }
    }

    /// All that another user could try.
    fn targets(&self) -> Vec<String> {
        let mut targets = paths_below(&self.folder);
        let kdcs = kdcs(&targets);
        assert!(
            targets.iter().any(|path| path.ends_with("/users.keytab")) && !kdcs.is_empty(),
            "{targets:?}"
        );
        targets.extend(kdcs);
        targets.extend(listeners(self.child.id()));
        targets
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT);
        let end = Instant::now() + START_MAX;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns whether the test can run.
fn can_run() -> bool {
    if !is_root() {
        eprintln!("skipped: only root can become another user");
        return false;
    }
    is_installed("setpriv", "util-linux") && can_make_realms()
}

/// Returns whether the programs of a realm are there.
fn can_make_realms() -> bool {
    is_installed("krb5kdc", "krb5-kdc")
        && is_installed("kadmin.local", "krb5-admin-server")
        && is_installed("kinit", "krb5-user")
}

/// Attacks a server that no trial starts: sys from every port and without squashing. Returns the
/// loot and the served folder, which no other user can enter.
fn attack_on_trusting_server(name: &str, change: impl FnOnce(Serve) -> Serve) -> (Vec<String>, TempDir) {
    let folder = e2e::empty_folder();
    let export = folder.path().join("export");
    fs::create_dir(&export).expect("the folder is ours");
    let arguments = ["--sec", "sys", "--secure", "false", "--squash", "none", "--metrics", "127.0.0.1:0"];
    let server = change(Serve::new(folder.path().join("state")).args(arguments).arg(&export)).start();
    let ports = [format!("nfs {}", server.port()), format!("http {}", server.metrics().port())];
    (attack(name, &ports), folder)
}

#[test]
fn the_attack_works_on_a_server_that_admits_everybody() {
    if is_attacker() || !can_run() {
        return;
    }
    let name = "trial::the_attack_works_on_a_server_that_admits_everybody";
    let (got, folder) = attack_on_trusting_server(name, Serve::for_everybody);
    for part in ["a set-id file in /export", "metrics: HTTP/1.1 200"] {
        assert!(got.iter().any(|got| got.starts_with(part)), "{part}: {got:?}");
    }
    let made = fs::metadata(folder.path().join("export/rootme")).expect("it was made");
    assert_eq!((made.uid(), made.mode() & 0o7777), (0, 0o4755));
}

#[test]
fn a_server_for_its_own_user_alone_does_not_even_answer_another() {
    if is_attacker() || !can_run() {
        return;
    }
    let name = "trial::a_server_for_its_own_user_alone_does_not_even_answer_another";
    let (got, folder) = attack_on_trusting_server(name, |serve| serve);
    assert_eq!(got, [""; 0]);
    assert!(!folder.path().join("export/rootme").exists());
}

#[test]
fn try_gives_another_user_nothing() {
    if is_attacker() || !can_run() {
        return;
    }
    let folder = open_folder();
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("the folder is ours");
    // Everybody may look into the folder that is served, and it is not root's.
    let owner = (1, 1);
    std::os::unix::fs::chown(&data, Some(owner.0), Some(owner.1)).expect("root may");
    let path = data.display().to_string();
    let trial = Trial::start(folder.path(), &["try", &path, "--once"]);
    let targets = trial.targets();
    assert_eq!(attack("trial::try_gives_another_user_nothing", &targets), [""; 0]);

    // Changes by root itself are made as the folder's owner, without set-id bits.
    let ports = targets.iter().filter_map(|target| target.strip_prefix("nfs ")?.parse().ok());
    let mount = |port: u16| {
        let options = Options::new("127.0.0.1", Security::sys_as(0, 0)).port(port);
        let options = Options { call_timeout: TIMEOUT, reconnect_max: Duration::ZERO, ..options };
        Filesystem::mount(options, "/data").ok()
    };
    let mut files = ports.into_iter().find_map(mount).expect("root may");
    files.write_file("file", b"x").expect("it is the owner's folder");
    let set_id = AttributeValues { mode: Some(0o4755), ..Default::default() };
    assert_eq!(e2e::status(files.setattr("file", &set_id)), nfs4::Nfsstat4::NFS4ERR_PERM);
    let made = fs::metadata(data.join("file")).expect("it was made");
    assert_eq!(((made.uid(), made.gid()), made.mode() & 0o6000), (owner, 0));
}

#[test]
fn a_bench_of_ones_own_server_gives_another_user_nothing() {
    if is_attacker() || !can_run() {
        return;
    }
    let name = "trial::a_bench_of_ones_own_server_gives_another_user_nothing";
    let runs: [&[&str]; 2] =
        [&["bench", "lanl", "--quick", "--no-scp", "--parts", "small"], &["bench", "quick"]];
    for arguments in runs {
        let folder = open_folder();
        let trial = Trial::start(folder.path(), arguments);
        assert_eq!(attack(name, &trial.targets()), [""; 0], "{arguments:?}");
    }
}

#[test]
fn a_realm_gives_another_user_nothing_and_is_not_made_in_its_folder() {
    if is_attacker() || !can_run() {
        return;
    }
    let name = "trial::a_realm_gives_another_user_nothing_and_is_not_made_in_its_folder";
    let folder = open_folder();
    let realm = folder.path().join("realm");
    let up = |dir: &Path| e2e::run(orthrus(["realm", "up"]).arg(dir));
    assert!(up(&realm).status.success());
    let mut targets = paths_below(folder.path());
    targets.extend(kdcs(&targets));
    let got = attack(name, &targets);
    // With its password, a ticket can be had in the same way.
    let passwords = fs::read_to_string(realm.join("passwords")).expect("root may");
    let password = passwords.lines().find_map(|line| line.strip_prefix("alice ")).expect("she has one");
    let kdc = targets.iter().find_map(|target| target.strip_prefix("kdc ")).expect("it runs");
    let scratch = e2e::empty_folder();
    let good = kinit(scratch.path(), kdc, "alice", password);
    let down = e2e::run(orthrus(["realm", "down"]).arg(&realm));
    assert_eq!(got, [""; 0]);
    assert!(good && down.status.success());

    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).expect("the folder is ours");
    std::os::unix::fs::chown(&theirs, Some(65534), Some(65534)).expect("root may");
    let open = folder.path().join("open");
    fs::create_dir(&open).expect("the folder is ours");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("it is ours");
    for (dir, said) in [
        (theirs.clone(), "belongs to user 65534"),
        (theirs.join("new"), "belongs to user 65534"),
        (open, "go-w"),
    ] {
        let refused = up(&dir);
        assert!(!refused.status.success() && refused.stderr.contains(said), "{refused:?}");
    }
    assert_eq!(fs::read_dir(&theirs).expect("root may").count(), 0);
}

/// A trial in a folder of its own, without a terminal.
struct EndedTrial {
    folder: TempDir,
    child: Child,
}

impl EndedTrial {
    fn begin() -> Self {
        let folder = e2e::empty_folder();
        for name in ["tmp", "data"] {
            fs::create_dir(folder.path().join(name)).expect("the folder is ours");
        }
        // The tests may run without heed of hangups.
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP"]).arg(program()).args(["try", "--quick", "--once", "data"]);
        command.env("TMPDIR", folder.path().join("tmp")).current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().expect("the program starts");
        Self { folder, child }
    }

    /// The names in one of its folders that begin so.
    fn names(&self, folder: &str, prefix: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join(folder)).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths
            .filter(|path| {
                path.file_name().is_some_and(|name| name.as_bytes().starts_with(prefix.as_bytes()))
            })
            .collect()
    }

    /// The names of temporary files, and of files in the folder that it serves.
    fn left(&self) -> Vec<PathBuf> {
        [self.names("tmp", ""), self.names("data", "")].concat()
    }

    fn wait_until(&mut self, what: impl Fn(&Self) -> bool) {
        let end = Instant::now() + START_MAX;
        while !what(self) {
            assert!(Instant::now() < end, "it does not get there: {:?}", self.child.try_wait());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Processes of its realm.
    fn daemons(&self) -> usize {
        let place = self.folder.path().join("tmp/orthrus-realm-");
        let lines = fs::read_dir("/proc").into_iter().flatten().flatten();
        let lines = lines.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
        let is_here = |line: &Vec<u8>| {
            let mut words = line.split(|byte| *byte == 0);
            let is_kdc = words.next().is_some_and(|program| program.ends_with(b"krb5kdc"));
            is_kdc && words.any(|word| word.starts_with(place.as_os_str().as_bytes()))
        };
        lines.filter(is_here).count()
    }

    /// Sends the signal, and returns how it ended.
    fn end_by(mut self, signal: Signal) -> (Self, Ended) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("it runs");
        let replaced = Command::new("true").spawn().expect("it starts");
        let ended = run_within(std::mem::replace(&mut self.child, replaced), START_MAX);
        self.wait_until(|trial| trial.names("tmp", "orthrus-realm-").is_empty() && trial.daemons() == 0);
        (self, ended)
    }
}

#[test]
fn a_trial_that_is_ended_while_it_makes_its_realm_leaves_no_kdc_and_no_key() {
    if !can_make_realms() {
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGKILL] {
        let mut trial = EndedTrial::begin();
        trial.wait_until(|trial| {
            trial.names("tmp", "orthrus-realm-").iter().any(|folder| folder.join("realm/kdc.conf").exists())
        });
        let (trial, ended) = trial.end_by(signal);
        if signal != Signal::SIGKILL {
            assert_eq!(ended.status.code(), Some(1), "{signal}: {}", ended.stderr);
            assert!(trial.left().is_empty(), "{:?}", trial.left());
        }
    }
}

#[test]
fn a_trial_whose_terminal_ends_leaves_its_report_and_nothing_else() // docs/report.md
{
    if !can_make_realms() {
        return;
    }
    let mut trial = EndedTrial::begin();
    // It has measured something: the file in which it tries the place has another ending.
    let is_record = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
    trial.wait_until(|trial| trial.names("", "orthrus-report").iter().any(is_record));
    let (trial, ended) = trial.end_by(Signal::SIGHUP);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(!trial.names("", "orthrus-report.html").is_empty(), "{}", ended.stderr);
    assert!(!ended.stderr.contains("acts as nobody"), "{}", ended.stderr);
    assert!(trial.left().is_empty(), "{:?}", trial.left());
}
