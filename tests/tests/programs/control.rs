//! The server under signals and reloads, and its log.

use client::{Client, Filesystem, Flavor, OpenHow, Options, Security};
use e2e::{Serve, empty_folder, found, orthrus, run, status, until};
use nfs4::Nfsstat4::*;
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, PipeWriter, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

pub(crate) fn options(port: u16) -> Options {
    Options::new("127.0.0.1", Security::sys()).port(port)
}

pub(crate) fn export(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    fs::create_dir_all(&path).expect("the folder is ours");
    fs::write(path.join("file"), name).expect("the folder is ours");
    format!(
        "[[export]]\npath = \"{}\"\npseudo = \"/{name}\"\nsec = [\"sys\"]\nsecure = false\n\n",
        path.display()
    )
}

#[test]
fn sighup_adds_and_removes_exports_and_a_broken_file_keeps_them() {
    let folder = empty_folder();
    let (one, two) = (export(folder.path(), "one"), export(folder.path(), "two"));
    let config = folder.path().join("orthrus.toml");
    fs::write(&config, &one).expect("the folder is ours");
    let server = Serve::new(folder.path().join("state")).arg("--config").arg(&config).start();
    let mut files = Filesystem::mount(options(server.port()), "/one").expect("it is exported");
    let (handle, _) = files.lookup("file").expect("it is there");
    assert_eq!(status(files.client().lookup_path("/two")), NFS4ERR_NOENT);

    fs::write(&config, format!("{one}{two}")).expect("the folder is ours");
    server.signal(Signal::SIGHUP);
    server.wait_for_log("are in force");
    files.client().lookup_path("/two/file").expect("it is exported now");
    assert_eq!(files.read_file("file").expect("it stays"), b"one");

    assert!(server.log().contains("SIGHUP: added: /two"), "{}", server.log());
    fs::write(&config, format!("{one}\n[[export]]\npath = 7\n")).expect("the folder is ours");
    server.signal(Signal::SIGHUP);
    server.wait_for_log("the settings stay as they were");
    let said = format!("{}:9: key `path`", config.display());
    assert!(server.log().contains(&said), "{said} is missing:\n{}", server.log());
    files.client().lookup_path("/two/file").expect("it is still exported");

    fs::write(&config, format!("lease_time = 77\n{two}read_only = true\n")).expect("the folder is ours");
    server.signal(Signal::SIGHUP);
    until("the settings are in force", || server.log().matches("are in force").count() == 2);
    assert_eq!(status(files.client().lookup_path("/one")), NFS4ERR_NOENT);
    // RFC 8881 section 15.1.2.9: the handle's file system is not exported any more.
    let all = nfs4::Stateid4 { seqid: 0, other: [0; 12] };
    let gone = status(files.client().read(&handle, all, 0, 10));
    assert!(matches!(gone, NFS4ERR_STALE | NFS4ERR_BADHANDLE), "{gone}");
    files.client().lookup_path("/two/file").expect("it is exported");
    server.wait_for_log("only after a restart: lease_time");
    for line in ["SIGHUP: removed: /one", "SIGHUP: changed: /two"] {
        assert!(server.log().contains(line), "{line} is missing: {}", server.log());
    }
}

#[test]
fn a_reload_closes_the_files_of_an_export_that_it_removes() {
    let folder = empty_folder();
    let (one, two) = (export(folder.path(), "one"), export(folder.path(), "two"));
    let config = folder.path().join("orthrus.toml");
    fs::write(&config, format!("{one}{two}")).expect("the folder is ours");
    let state = folder.path().join("state");
    let server = Serve::new(&state).arg("--config").arg(&config).start();
    let mut client = Client::connect(options(server.port())).expect("the server is there");
    let opened =
        ["/one/file", "/two/file"].map(|path| client.open_path(path, &OpenHow::read()).expect("it is there"));
    let has_open = |name: &str| {
        let path = folder.path().join(name).join("file");
        let files = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it runs");
        files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|link| link == path))
    };
    assert!(has_open("one") && has_open("two"));
    fs::write(&config, &two).expect("the folder is ours");
    let ended = run(orthrus(["reload", "--state-dir"]).arg(&state));
    assert!(ended.stdout.contains("revoked, as their export is gone: 1 opens"), "{ended:?}");
    assert!(has_open("two"));
    until("its file system can be unmounted", || !has_open("one"));
    client.close_file(&opened[1]).expect("it is open");
}

#[test]
fn a_refused_reload_keeps_the_files_of_an_export_in_memory() {
    let folder = empty_folder();
    let memory = "[[export]]\nmemory = 1048576\npseudo = \"/memory\"\nsec = [\"sys\"]\nsecure = false\n\n";
    let config = folder.path().join("orthrus.toml");
    let write = |text: &str| fs::write(&config, text).expect("the folder is ours");
    write(memory);
    let server = Serve::new(folder.path().join("state")).arg("--config").arg(&config).start();
    let mut files = Filesystem::mount(options(server.port()), "/memory").expect("it is exported");
    files.write_file("file", b"precious").expect("there is room");

    // Kerberos alone, which needs a keytab.
    write(&export(folder.path(), "one").replace("sec = [\"sys\"]\n", ""));
    server.signal(Signal::SIGHUP);
    server.wait_for_log("the settings stay as they were");
    assert!(server.log().contains("keytab"), "{}", server.log());
    write(memory);
    server.signal(Signal::SIGHUP);
    server.wait_for_log("are in force");
    assert_eq!(files.read_file("file").expect("it is there"), b"precious");
}

#[test]
fn a_reload_applies_limits_versions_and_the_lines_of_the_log_while_clients_stay() {
    let folder = empty_folder();
    let one = export(folder.path(), "one");
    let config = folder.path().join("orthrus.toml");
    let write = |keys: &str| fs::write(&config, format!("{keys}\n{one}")).expect("the folder is ours");
    write("log = \"warn\"");
    let server = Serve::new(folder.path().join("state")).arg("--config").arg(&config).start();
    let reload = |keys: &str| {
        write(keys);
        let ended = run(orthrus(["reload", "--state-dir"]).arg(folder.path().join("state")));
        assert!(ended.status.success() && !ended.stdout.contains("restart"), "{ended:?}");
        ended.stdout
    };
    // RFC 8881 section 16.2.3: a server refuses the minor versions that it does not serve.
    let refuses_version_0 = |mut client: Client| {
        let mut compound = client::Compound::new(1);
        compound.minor_version(0);
        let answer = client.call(compound).and_then(|reply| reply.check());
        answer.expect_err("it is no 4.0").to_string().contains("MINOR_VERS_MISMATCH")
    };
    let connect = || Client::connect(options(server.port()));
    let mut early = connect().expect("the server is there");
    assert!(early.slots() > 5);
    assert!(!refuses_version_0(connect().expect("the server is there")));
    assert!(!server.log().contains("INFO"), "{}", server.log());

    let said = reload("nfs40 = false\nlimits = { slots_max = 5, connections_max = 3 }");
    let keys = "in force now: log, nfs40, limits.connections_max, limits.slots_max";
    assert!(said.lines().any(|line| line == keys), "{said}");
    server.wait_for_log("reload by user");
    let late = connect().expect("there is a place");
    assert_eq!(late.slots(), 5);
    assert!(refuses_version_0(late));
    early.lookup_path("/one/file").expect("its session stays");

    reload("log = \"error\"");
    let length = server.log().len();
    reload("log = \"error\"");
    assert_eq!(server.log().len(), length, "{}", server.log());
    assert!(connect().expect("there is a place").slots() > 5);
    drop(server);

    // The command line goes first.
    write("log = \"debug\"");
    let server = Serve::new(folder.path().join("state")).args(["--log", "error", "--config"]).arg(&config);
    let server = server.start();
    reload("log = \"debug\"");
    assert_eq!(server.log(), "");
    write("log = \"net=loud\"");
    let ended = run(orthrus(["serve", "--check", "--config"]).arg(&config));
    assert!(
        !ended.status.success() && ended.stderr.contains("key `log`: \"net=loud\" is no filter"),
        "{ended:?}"
    );
}

#[test]
fn sigterm_ends_a_server_at_once_while_a_reload_waits() // docs/serve.md, Signals
{
    let folder = empty_folder();
    let config = folder.path().join("orthrus.toml");
    fs::write(&config, export(folder.path(), "one")).expect("the folder is ours");
    let mut server = Serve::new(folder.path().join("state")).arg("--config").arg(&config).start();
    fs::remove_file(&config).expect("the folder is ours");
    nix::unistd::mkfifo(&config, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    server.signal(Signal::SIGHUP);
    let mut nonblocking = fs::File::options();
    nonblocking.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let pipe = found("the reload that reads the pipe", || nonblocking.open(&config).ok());
    server.signal(Signal::SIGTERM);
    let (status, _) = server.wait();
    assert!(status.success(), "{status}: {}", server.log());
    drop(pipe);
}

#[test]
fn a_status_tells_of_a_failed_reload_and_of_keys_that_wait_for_a_restart() {
    let folder = empty_folder();
    let one = export(folder.path(), "one");
    let (config, state) = (folder.path().join("orthrus.toml"), folder.path().join("state"));
    fs::write(&config, &one).expect("the folder is ours");
    let _server = Serve::new(&state).arg("--config").arg(&config).start();
    let status = || run(orthrus(["status", "--once", "--state-dir"]).arg(&state)).stdout;
    assert!(!status().contains("warnings:"));
    fs::write(&config, format!("lease_time = 77\n{one}")).expect("the folder is ours");
    let reload = || run(orthrus(["reload", "--state-dir"]).arg(&state));
    assert!(reload().status.success());
    let said = status();
    assert!(said.contains("need a restart (lease_time)") && !said.contains("reload failed"), "{said}");
    fs::write(&config, "[[export]]\npath = 7\n").expect("the folder is ours");
    assert!(!reload().status.success());
    let said = status();
    assert!(
        said.contains("need a restart (lease_time)") && said.contains("the last reload failed"),
        "{said}"
    );
}

#[test]
fn a_reload_by_command_prints_the_changes_or_the_fault_and_logs_its_author() {
    let folder = empty_folder();
    let (one, two) = (export(folder.path(), "one"), export(folder.path(), "two"));
    let config = folder.path().join("orthrus.toml");
    let state = format!("state_dir = \"{}\"\n", folder.path().join("state").display());
    fs::write(&config, format!("{state}{one}")).expect("the folder is ours");
    let server = Serve::new(folder.path().join("state")).arg("--config").arg(&config).start();
    let mut client = Client::connect(options(server.port())).expect("the server is there");
    let reload = || run(orthrus(["reload", "--config"]).arg(&config));

    fs::write(&config, format!("lease_time = 77\n{state}{two}")).expect("the folder is ours");
    let ended = reload();
    assert!(ended.status.success(), "{ended:?}");
    let author = format!("reload by user {}: ", nix::unistd::geteuid());
    for line in ["are in force", "added: /two", "removed: /one", "only after a restart: lease_time"] {
        assert!(ended.stdout.lines().any(|said| said.contains(line)), "{line} is missing: {ended:?}");
        server.wait_for_log(line);
        let logged = server.log().lines().any(|said| said.contains(&author) && said.contains(line));
        assert!(logged, "{line} is missing: {}", server.log());
    }
    client.lookup_path("/two/file").expect("it is exported now");

    // The command needs the state directory alone: the server reports the fault, and logs it.
    fs::write(&config, format!("{state}{two}\n[[export]]\npath = 7\n")).expect("the folder is ours");
    let ended = reload();
    assert!(!ended.status.success() && ended.stderr.contains("stay as they were"), "{ended:?}");
    assert!(ended.stderr.contains(": key `path`"), "{ended:?}");
    server.wait_for_log(": key `path`");
    client.lookup_path("/two/file").expect("it is still exported");

    let bare = Serve::new(folder.path().join("other")).args(["--memory", "1", "--sec", "sys"]).start();
    let ended = run(orthrus(["reload", "--state-dir"]).arg(folder.path().join("other")));
    assert!(ended.status.success() && ended.stdout.contains("there is no configuration file"), "{ended:?}");
    drop(bare);
}

#[test]
fn a_reader_that_goes_away_ends_no_server_and_a_full_disk_is_an_error_of_a_command() {
    let folder = empty_folder();
    let state = folder.path().join("state");
    let mut server = orthrus(["serve", "--listen", "127.0.0.1:0", "--memory", "1", "--sec", "sys"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut server = server.arg("--state-dir").arg(&state).stdout(writer).spawn().expect("it starts");
    let list = || run(orthrus(["clients", "--state-dir"]).arg(&state));
    until("the server answers", || list().status.success());
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut listing = orthrus(["clients", "--state-dir"]);
    let ended = listing.arg(&state).stdout(writer).stderr(Stdio::piped()).output().expect("it starts");
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    let full = fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let ended = listing.stdout(full).output().expect("it starts");
    let error = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && error.contains("standard output: No space left"), "{ended:?}");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(server.id() as i32), Signal::SIGTERM).expect("it runs");
    assert!(server.wait().expect("it is a child").success());
}

#[test]
fn each_line_of_the_log_is_a_json_object_or_has_a_priority_of_the_journal() {
    let folder = empty_folder();
    let log = |format: &str| {
        let state = folder.path().join(format);
        let arguments = ["--memory", "1", "--sec", "sys", "--log-format", format];
        let mut server = Serve::new(&state).args(arguments).start();
        server.signal(Signal::SIGUSR1);
        server.wait_for_log("held: ");
        server.signal(Signal::SIGTERM);
        assert!(server.wait().0.success());
        server.log()
    };
    let json = log("json");
    assert!(json.lines().count() > 4, "{json}");
    for line in json.lines() {
        let event: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for key in ["timestamp", "level", "message"] {
            assert!(event[key].is_string(), "{key} is missing: {line}");
        }
    }
    let journal = log("journal");
    assert!(journal.lines().count() > 4, "{journal}");
    for line in journal.lines() {
        let text = ["<3>", "<4>", "<6>"].iter().find_map(|priority| line.strip_prefix(priority));
        assert!(text.is_some_and(|text| text.starts_with(char::is_alphanumeric)), "{line}");
    }
    let refused = run(&mut orthrus(["serve", "--log-format", "xml"]));
    assert!(
        !refused.status.success()
            && refused.stderr.contains("[possible values: auto, text, json, journal, journald]")
    );
}

#[test]
fn a_full_log_keeps_neither_shards_from_serving_nor_sigterm_from_ending_them() {
    let folder = empty_folder();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut command = orthrus(["serve", "--listen", "127.0.0.1:0", "--sec", "sys", "--memory", "16"]);
    command.arg("--state-dir").arg(folder.path().join("state"));
    let kept = writer.try_clone().expect("a descriptor");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::from(writer)).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("its address");
    let address = line.trim().strip_prefix("orthrus serves ").expect("its address").to_owned();
    fill(&kept);
    // A shard logs the first records that are no RPC messages; every other connection is on another
    // shard.
    let mut peers: Vec<_> = (0..8).map(|_| TcpStream::connect(&address).expect("it listens")).collect();
    for peer in &mut peers {
        peer.write_all(&[0x80, 0, 0, 4, 0xff, 0xff, 0xff, 0xff]).expect("it takes a record");
        // The shard lives: it closes the connection.
        peer.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        let closed = peer.read(&mut [0; 64]);
        assert!(matches!(closed, Ok(0)) || closed.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset));
    }
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("it runs");
    let end = Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            break status;
        }
        if Instant::now() > end {
            child.kill().expect("it is ours");
            panic!("SIGTERM did not end it: {}", child.wait().expect("it is ours"));
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(status.success(), "{status}");
    drop((kept, reader));
}

/// Fills a pipe by a description of its own, so that other writers still wait for room.
fn fill(pipe: &PipeWriter) {
    let mut file = fs::File::options()
        .write(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(format!("/proc/self/fd/{}", pipe.as_raw_fd()))
        .expect("the pipe is ours");
    for size in [4096, 1] {
        while file.write_all(&vec![b'\n'; size]).is_ok() {}
    }
}

#[test]
fn sigterm_and_sigint_end_it_with_success_while_connections_are_open() {
    let folder = empty_folder();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let serve = Serve::new(folder.path().join("state")).args(["--sec", "sys", "--memory", "16"]);
        let mut server = serve.args(["--metrics", "127.0.0.1:0"]).start();
        let mut client = Client::connect(options(server.port()).connections(4)).expect("a session");
        client.lookup_path("/memory").expect("it is exported");
        let idle: Vec<_> =
            (0..50).map(|_| TcpStream::connect(server.address()).expect("it listens")).collect();
        std::thread::sleep(Duration::from_millis(50));
        server.signal(signal);
        let (status, time) = server.wait();
        assert!(status.success(), "{signal}: {status}\n{}", server.log());
        assert!(time < Duration::from_secs(2), "{signal}: it took {time:?}");
        assert!(!server.log().contains("failed"), "{signal}: {}", server.log());
        drop(idle);
    }
}

#[test]
fn the_end_of_a_server_leaves_a_log_that_is_a_socket_to_others() // docs/serve.md, Signals
{
    let folder = empty_folder();
    let (mut reader, writer) = UnixStream::pair().expect("two sockets");
    let log: OwnedFd = writer.try_clone().expect("a descriptor").into();
    let mut command =
        orthrus(["serve", "--end-with-input", "--listen", "127.0.0.1:0", "--memory", "1", "--sec", "sys"]);
    // Standard input is empty here.
    let ended = command.arg("--state-dir").arg(folder.path().join("state")).stderr(log).status();
    assert!(ended.expect("it starts").success());
    (&writer).write_all(b"by another process").expect("the socket is open");
    drop((writer, command));
    let mut said = String::new();
    reader.read_to_string(&mut said).expect("it is text");
    assert!(said.contains("ending") && said.ends_with("by another process"), "{said}");
}

#[test]
fn end_with_input_ends_the_server_with_its_standard_input() {
    let folder = empty_folder();
    let mut command =
        orthrus(["serve", "--end-with-input", "--listen", "127.0.0.1:0", "--memory", "1", "--sec", "sys"]);
    // Standard input is empty here.
    let ended = run(command.arg("--state-dir").arg(folder.path().join("state")));
    assert!(ended.status.success() && ended.stdout.starts_with("orthrus serves 127.0.0.1:"), "{ended:?}");
}

/// Runs a server that must refuse to start: quickly, without serving, with `parts` in its error.
#[test]
fn another_minor_version_is_refused() {
    // RFC 8881 section 16.2.3: NFS4ERR_MINOR_VERS_MISMATCH
    let folder = empty_folder();
    let serve =
        Serve::new(folder.path().join("state")).args(["--memory", "1", "--sec", "sys", "--nfs40", "false"]);
    let server = serve.start();
    for minor_version in [0, 3, u32::MAX] {
        let options = Options { minor_version, ..options(server.port()) };
        assert_eq!(status(Client::connect(options)), NFS4ERR_MINOR_VERS_MISMATCH, "{minor_version}");
    }
    let security = Security::of(Flavor::Krb5p, "localhost", gss::Credential::Default);
    let options = Options::new("127.0.0.1", security).port(server.port());
    assert!(Client::connect(options).is_err(), "there are no keys");
}
