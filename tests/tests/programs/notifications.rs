//! The server and its service manager: sd_notify(3), with a real socket, and the files of systemd.

use client::{Client, Options, Security};
use e2e::{data_folder, empty_folder, is_installed, orthrus, program, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
/// The units of the package.
const UNITS: [&str; 3] = ["orthrus.service", "orthrus-grants.service", "orthrus-grants-agent.service"];

/// The socket of a service manager.
struct Manager(UnixDatagram);

impl Manager {
    fn bind(address: &SocketAddr) -> Self {
        let socket = UnixDatagram::bind_addr(address).expect("the name is free");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self(socket)
    }

    fn receive(&self) -> String {
        let mut message = [0; 4096];
        let size = self.0.recv(&mut message).expect("a message in time");
        String::from_utf8_lossy(&message[..size]).into_owned()
    }

    /// Returns the next message that does not feed the watchdog.
    fn next(&self) -> String {
        std::iter::repeat_with(|| self.receive()).find(|message| message != "WATCHDOG=1").expect("endless")
    }

    /// Returns whether there is no message within a time.
    fn is_silent(&self, time: Duration) -> bool {
        self.0.set_read_timeout(Some(time)).expect("a timeout");
        let received = self.0.recv(&mut [0; 4096]);
        self.0.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        received.is_err()
    }
}

/// A server that a service manager started; it ends with the test.
struct NotifyingServer(Child);

impl NotifyingServer {
    fn start(folder: &Path, config: &Path, port: u16, variables: &[(&str, &str)]) -> Self {
        let mut command = orthrus(["serve", "--end-with-input", "--same-user", "--listen"]);
        command.arg(format!("127.0.0.1:{port}")).arg("--state-dir").arg(folder.join("state"));
        command.arg("--config").arg(config).envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("the server starts"))
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).expect("it runs");
    }

    fn ends_with_success(mut self) -> bool {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.0.try_wait().expect("it is ours") {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for NotifyingServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn config(folder: &Path) -> PathBuf {
    let path = folder.join("orthrus.toml");
    fs::write(&path, "[[export]]\nmemory = 1048576\nsec = [\"sys\"]\nsecure = false\n").expect("it is ours");
    path
}

/// Returns a port that is free now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

#[test]
fn the_service_manager_hears_of_start_reload_and_end_at_paths_and_abstract_names() {
    let folder = empty_folder();
    let config = config(folder.path());
    let path = folder.path().join("notify");
    let name = format!("orthrus-test-{}", std::process::id());
    let abstract_name = SocketAddr::from_abstract_name(&name).expect("a name");
    let at_path = SocketAddr::from_pathname(&path).expect("a path");
    for (address, variable) in [(at_path, path.display().to_string()), (abstract_name, format!("@{name}"))] {
        let manager = Manager::bind(&address);
        let port = free_port();
        let service = NotifyingServer::start(folder.path(), &config, port, &[("NOTIFY_SOCKET", &variable)]);
        let ready = manager.receive();
        // At once: a unit that is ordered after the server mounts now.
        let mut client =
            Client::connect(Options::new("127.0.0.1", Security::sys()).port(port)).expect("it accepts");
        client.lookup_path("/memory").expect("it serves");
        assert_eq!(ready, format!("READY=1\nSTATUS=1 exports at 127.0.0.1:{port}"));
        assert!(manager.is_silent(Duration::from_millis(200)), "there is no watchdog to feed");

        service.signal(Signal::SIGHUP);
        let reloading = manager.receive();
        let time = reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC="));
        assert!(reloading.starts_with("RELOADING=1\n"), "{reloading}");
        assert!(time.is_some_and(|time| time.parse::<u64>().is_ok_and(|time| time > 0)), "{reloading}");
        assert_eq!(manager.receive(), ready);

        let good = fs::read_to_string(&config).expect("it is ours");
        fs::write(&config, "shards = \"two\"\n").expect("it is ours");
        service.signal(Signal::SIGHUP);
        assert!(manager.receive().starts_with("RELOADING=1\n"));
        let failed = manager.receive();
        assert!(failed.starts_with(&ready) && failed.contains("the last reload failed"), "{failed}");
        fs::write(&config, good).expect("it is ours");

        service.signal(Signal::SIGTERM);
        assert!(manager.receive().starts_with("STOPPING=1\n"));
        assert!(service.ends_with_success());
        assert!(manager.is_silent(Duration::from_millis(10)));
    }
}

#[test]
fn the_watchdog_of_the_service_manager_is_fed_twice_in_its_time() {
    let folder = empty_folder();
    let config = config(folder.path());
    let path = folder.path().join("notify");
    let manager = Manager::bind(&SocketAddr::from_pathname(&path).expect("a path"));
    let path = path.display().to_string();
    let variables = [("NOTIFY_SOCKET", path.as_str()), ("WATCHDOG_USEC", "400000")];
    let service = NotifyingServer::start(folder.path(), &config, free_port(), &variables);
    assert!(manager.next().starts_with("READY=1\n"));
    let begin = Instant::now();
    for _ in 0..10 {
        assert_eq!(manager.receive(), "WATCHDOG=1");
    }
    let time = begin.elapsed();
    assert!((Duration::from_millis(1500)..Duration::from_secs(4)).contains(&time), "{time:?}");
    service.signal(Signal::SIGTERM);
    assert!(manager.next().starts_with("STOPPING=1\n"));
    drop(service);

    // The variables of a service whose child this is.
    let variables = [variables[0], variables[1], ("WATCHDOG_PID", "1")];
    let service = NotifyingServer::start(folder.path(), &config, free_port(), &variables);
    assert!(manager.next().starts_with("READY=1\n"));
    assert!(manager.is_silent(Duration::from_millis(700)));
    drop(service);
}

#[test]
fn a_server_that_cannot_start_is_never_ready() {
    let folder = empty_folder();
    let config = config(folder.path());
    let path = folder.path().join("notify");
    let manager = Manager::bind(&SocketAddr::from_pathname(&path).expect("a path"));
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let path = path.display().to_string();
    let service = NotifyingServer::start(folder.path(), &config, port, &[("NOTIFY_SOCKET", &path)]);
    assert!(!service.ends_with_success());
    assert!(manager.is_silent(Duration::from_millis(10)));
}

#[test]
fn the_service_manager_hears_of_the_next_process_before_that_one_speaks() {
    let folder = empty_folder();
    let config = folder.path().join("orthrus.toml");
    let data = data_folder(&folder);
    let text = format!("[[export]]\npath = {data:?}\nsec = [\"sys\"]\nsecure = false\n");
    fs::write(&config, text).expect("it is ours");
    let path = folder.path().join("notify");
    let manager = Manager::bind(&SocketAddr::from_pathname(&path).expect("a path"));
    let path = path.display().to_string();
    let variables = [("NOTIFY_SOCKET", path.as_str()), ("WATCHDOG_USEC", "400000")];
    let service = NotifyingServer::start(folder.path(), &config, free_port(), &variables);
    let ready = manager.next();
    let upgrade = |more: &[&str]| {
        let mut command = orthrus(["upgrade", "--state-dir"]);
        let ended = run(command.arg(folder.path().join("state")).args(more));
        assert!(ended.status.success(), "{}", ended.stderr);
        ended.stdout
    };
    // As `systemctl reload` does: the program is the same, and the configuration is applied.
    assert!(upgrade(&["--if-replaced"]).contains("are in force"));
    assert!(manager.next().starts_with("RELOADING=1\n"));
    assert_eq!(manager.next(), ready);

    assert!(upgrade(&[]).contains("clients paused for"));
    let named = manager.next();
    let process = named.strip_prefix("MAINPID=").expect("the next process");
    assert_ne!(process, service.0.id().to_string());
    assert_eq!(manager.next(), ready);
    assert!(service.ends_with_success());
    // The next process feeds the watchdog.
    while manager.receive() != "WATCHDOG=1" {}
    let process = Pid::from_raw(process.parse().expect("a number"));
    kill(process, Signal::SIGTERM).expect("it runs");
    assert!(manager.next().starts_with("STOPPING=1\n"));
}

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/systemd")
}

#[test]
fn a_socket_of_the_service_manager_replaces_the_address() {
    // sd_listen_fds(3)
    if !is_installed("systemd-socket-activate", "systemd") {
        return;
    }
    let folder = empty_folder();
    let config = folder.path().join("orthrus.toml");
    let export = "[[export]]\nmemory = 1048576\nsec = [\"sys\"]\nsecure = false\n";
    // The address of the file is in use.
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let listen = other.local_addr().expect("it is bound");
    fs::write(&config, format!("listen = \"{listen}\"\n{export}")).expect("the folder is ours");
    let port = free_port();
    let mut command = Command::new("systemd-socket-activate");
    command.arg("--listen").arg(format!("127.0.0.1:{port}")).arg(program());
    command
        .args(["serve", "--same-user", "--end-with-input", "--state-dir"])
        .arg(folder.path().join("state"));
    command.arg("--config").arg(&config).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = NotifyingServer(command.spawn().expect("it is installed"));
    // The first connection starts the server, and waits until it serves.
    let end = Instant::now() + PATIENCE;
    let connect = || Client::connect(Options::new("127.0.0.1", Security::sys()).port(port));
    let mut client = loop {
        match connect() {
            Ok(client) => break client,
            Err(error) if Instant::now() > end => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    client.lookup_path("/memory").expect("it is exported");
}

#[test]
fn systemd_accepts_the_units() {
    if !is_installed("systemd-analyze", "systemd") {
        return;
    }
    let folder = empty_folder();
    let units = UNITS.map(|name| {
        let text = fs::read_to_string(packaging().join(name)).expect("it is there");
        assert!(text.contains("ExecStart=/usr/bin/orthrus "), "{name}");
        let copy = folder.path().join(name);
        // It checks that the program exists.
        fs::write(&copy, text.replace("/usr/bin/orthrus", &program().display().to_string())).expect("ours");
        copy
    });
    let socket = folder.path().join("orthrus.socket");
    fs::copy(packaging().join("orthrus.socket"), &socket).expect("it is there");
    let mut command = Command::new("systemd-analyze");
    let ended = run(command.args(["verify", "--man=no"]).args(&units).arg(socket));
    // It also complains about units of the machine that these are ordered after.
    let ours = ended.stderr.lines().filter(|line| line.contains("orthrus")).count();
    assert!(ended.status.success() && ours == 0, "{}{}", ended.stdout, ended.stderr);
}

/// Writes the units of systemd that docs/cluster.md shows, by the paths in their first lines.
fn write_units_of_members(folder: &Path) {
    let unit = fs::read_to_string(packaging().join("orthrus.service")).expect("it is there");
    let page = fs::read_to_string(packaging().join("../../docs/cluster.md")).expect("it is there");
    // It checks that the programs exist.
    let write = |path: &str, text: &str| {
        let path = folder.join(path);
        let text = text.replace("/usr/bin/orthrus", &program().display().to_string());
        fs::create_dir_all(path.parent().expect("it has a folder")).expect("the folder is ours");
        fs::write(path, text).expect("the folder is ours");
    };
    MEMBER_UNITS.iter().for_each(|name| write(name, &unit));
    for block in page.split("```ini\n# /etc/systemd/system/").skip(1) {
        let file = block.split_once("```").and_then(|(block, _)| block.split_once('\n'));
        let (path, text) = file.expect("a path, and the text of the file");
        write(path, text);
    }
}

/// The unit of all members, and that of one: it checks the drop-ins of the file that it is given.
const MEMBER_UNITS: [&str; 2] = ["orthrus@.service", "orthrus@gw1.service"];

#[test]
fn systemd_accepts_the_units_of_cluster_members() {
    if !is_installed("systemd-analyze", "systemd") {
        return;
    }
    let folder = empty_folder();
    write_units_of_members(folder.path());
    for name in MEMBER_UNITS {
        let complaints = || {
            let mut command = Command::new("systemd-analyze");
            let ended = run(command.args(["verify", "--man=no"]).arg(folder.path().join(name)));
            let ours = ended.stderr.lines().filter(|line| line.contains("orthrus@")).collect::<Vec<_>>();
            (ended.status.success(), ours.join("\n"))
        };
        assert_eq!(complaints(), (true, String::new()));
        // It reads the drop-ins: a key that does not exist is found.
        let unknown = folder.path().join(format!("{name}.d/unknown.conf"));
        fs::write(&unknown, "[Service]\nNoSuchKey=1\n").expect("the folder is ours");
        let (_, complaint) = complaints();
        assert!(complaint.contains("NoSuchKey"), "{complaint}");
        fs::remove_file(unknown).expect("it is there");
    }
}

#[test]
fn no_two_members_of_a_cluster_get_one_address() {
    let folder = empty_folder();
    write_units_of_members(folder.path());
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("it is there");
    assert!(read("orthrus@gw1.service.d/address.conf").contains("ip address add"));
    for entry in fs::read_dir(folder.path().join("orthrus@.service.d")).expect("it is there") {
        let text = fs::read_to_string(entry.expect("it is there").path()).expect("it is there");
        assert!(!text.contains("ip address"), "{text}");
    }
}
