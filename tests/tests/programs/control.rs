//! The server under signals, and its messages about unusable settings.

use client::{Client, Filesystem, Flavor, OpenHow, Options, Security};
use e2e::{Ended, Serve, empty_folder, found, is_root, nobody, orthrus, run, status, until};
use nfs4::Nfsstat4::*;
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, PipeWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

fn options(port: u16) -> Options {
    Options::new("127.0.0.1", Security::sys()).port(port)
}

fn export(folder: &Path, name: &str) -> String {
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
fn it_ends_with_its_standard_input_when_it_is_told_to() {
    let folder = empty_folder();
    let mut command =
        orthrus(["serve", "--end-with-input", "--listen", "127.0.0.1:0", "--memory", "1", "--sec", "sys"]);
    // Standard input is empty here.
    let ended = run(command.arg("--state-dir").arg(folder.path().join("state")));
    assert!(ended.status.success() && ended.stdout.starts_with("orthrus serves 127.0.0.1:"), "{ended:?}");
}

/// Runs a server that must refuse to start: quickly, without serving, with `parts` in its error.
fn refused(arguments: &[&str], parts: &[&str]) -> Ended {
    let ended = run(orthrus(["serve", "--end-with-input"]).args(arguments));
    check_refusal(&ended, parts);
    ended
}

fn check_refusal(ended: &Ended, parts: &[&str]) {
    assert!(!ended.status.success() && !ended.stdout.contains("orthrus serves"), "{ended:?}");
    for part in parts {
        assert!(ended.stderr.contains(part), "{part:?} is missing: {}", ended.stderr);
    }
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[test]
fn a_wrong_configuration_is_refused_with_file_line_and_key() {
    let folder = empty_folder();
    let file = folder.path().join("orthrus.toml");
    let name = file.to_str().expect("the name is plain");
    let cases = [
        ("[[export]]\npath = \"/tmp\"\nsec = [\"krb6\"]\n", ":3: key `sec`: ", "krb5p"),
        ("[[export]]\npath = \"/tmp\"\nreadonly = true\n", ":3: key `readonly`: ", "read_only"),
        ("[[export]]\npath = \"/no/such\"\n", ":2: key `path`: ", "/no/such"),
        ("lease_time = 0\n[[export]]\npath = \"/tmp\"\n", ":1: key `lease_time`: ", "3600"),
        ("listen = \"nowhere\"\n[[export]]\npath = \"/tmp\"\n", ":1: key `listen`: ", "2049"),
        ("[[export]]\npath = \"/tmp\"\nsquash = \"some\"\n", ":3: key `squash`: ", "root"),
        ("[[export]]\npath = \"/tmp\"\nclients = [\"10.0.0.0/40\"]\n", ":3: key `clients`: ", "0 to 32"),
        ("[limits]\ncontexts_max = \"many\"\n", ":2: key `contexts_max`: ", "many"),
        ("[principals]\n\"bob\" = \"root\"\n", ":2: key `\"bob\"`: ", "its realm"),
        ("log = \"inof\"\n", ":1: key `log`: ", "debug"),
        ("[[export]\n", ":1: ", ""),
        ("", "", "[[export]]"),
    ];
    for (text, place, allowed) in cases {
        fs::write(&file, text).expect("the folder is ours");
        refused(&["--config", name, "--check"], &[&format!("{name}{place}"), allowed]);
    }
    refused(&["--config", "/no/such.toml"], &["/no/such.toml", "cannot be read"]);
}

#[test]
fn a_check_reports_every_fault_at_once_and_changes_nothing() {
    let folder = empty_folder();
    let path = |name: &str| folder.path().join(name).to_str().expect("the name is plain").to_owned();
    fs::create_dir(path("export")).expect("the folder is ours");
    fs::write(path("keytab"), b"no keytab").expect("the folder is ours");
    fs::write(path("file"), b"").expect("the folder is ours");
    let export = |folder: &str, pseudo: &str| {
        format!("[[export]]\npath = \"{}\"\npseudo = \"{pseudo}\"\nsec = [\"krb5p\"]\n", path(folder))
    };
    let text = format!(
        "listen = \"203.0.113.77:2049\"\nmetrics = \"203.0.113.77:9000\"\nkeytab = \"{}\"\nstate_dir = \"{}/state\"\n\
         audit = \"/no/such/audit\"\n\
         [principals]\n\"alice@EXAMPLE.ORG\" = \"no-such-user\"\n{}{}{}{}",
        path("keytab"),
        path("file"),
        export("export", "/one"),
        export("export", "/one"),
        export("absent", "/two"),
        export("file", "/three"),
    );
    fs::write(path("orthrus.toml"), text).expect("the folder is ours");
    let before = fs::read_dir(folder.path()).expect("ours").count();
    let parts = [
        "203.0.113.77:2049 is not an address",
        "metrics cannot be served on 203.0.113.77:9000; choose another address with --metrics: Cannot assign",
        "keytab",
        "state folder",
        "audit: /no/such/audit cannot be written",
        "no-such-user",
        "/one",
        ":17: key `path`: ",
        ":21: key `path`: ",
        "9 fault(s)",
    ];
    refused(&["--config", &path("orthrus.toml"), "--check"], &parts);
    assert_eq!(fs::read_dir(folder.path()).expect("ours").count(), before, "the check leaves files");
    let text = format!(
        "listen = \"127.0.0.1:0\"\nstate_dir = \"{}/new/state\"\naudit = \"{}\"\n{}",
        path("."),
        path("audit"),
        export("export", "/one")
    );
    fs::write(path("orthrus.toml"), text.replace("krb5p", "sys")).expect("the folder is ours");
    let ended = run(orthrus(["serve", "--check", "--config"]).arg(path("orthrus.toml")));
    assert!(ended.status.success() && ended.stdout.contains("is right: 1 export"), "{ended:?}");
    assert_eq!(fs::read_dir(folder.path()).expect("ours").count(), before, "the check leaves files");
}

#[test]
fn a_check_finds_addresses_that_the_settings_give_twice() {
    let folder = empty_folder();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    let address = free.to_string();
    for other in ["--metrics", "--web"] {
        let mut command =
            orthrus(["serve", "--check", "--memory", "1", "--sec", "sys", "--listen", &address]);
        let ended = run(command.args([other, &address, "--state-dir"]).arg(folder.path().join("state")));
        let fault = format!("{address} is taken by {address} of the same settings");
        assert!(!ended.status.success() && ended.stderr.contains(&fault), "{ended:?}");
    }
}

#[test]
fn a_check_before_the_first_start_lacks_no_folder_that_systemd_makes() // README.md, Install
{
    if Path::new("/var/log/orthrus").exists() {
        return eprintln!("skipped: the folder is there");
    }
    let folder = empty_folder();
    let check = |audit: &str| {
        let mut command = orthrus(["serve", "--check", "--memory", "1", "--sec", "sys", "--listen"]);
        command.args(["127.0.0.1:0", "--audit", audit, "--state-dir"]);
        run(command.arg(folder.path().join("state")))
    };
    let ended = check("/var/log/orthrus/audit.jsonl");
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(ended.status.success() && said.contains("/var/log/orthrus is missing"), "{ended:?}");
    assert!(!check("/var/log/another/audit.jsonl").status.success());
}

#[test]
fn a_check_reports_every_wrong_key_beside_the_faults_of_the_others() {
    let folder = empty_folder();
    let file = folder.path().join("orthrus.toml");
    let name = file.to_str().expect("the name is plain");
    let text = "lease_time = 0\nnonsense = 1\nlisten = \"203.0.113.77:2049\"\nstate_dir = \"state\"\n\
                limits = { slots_max = 0, clients_max = \"many\" }\n[identity]\nunknown = \"perhaps\"\n\
                [[export]]\npath = \"/no/such\"\nsec = [\"krb6\"]\nsquash = \"some\"\n\
                [[export.rule]]\nread_only = true\n[[export]]\npath = \"/no/such\"\n";
    fs::write(&file, text).expect("the folder is ours");
    let parts = [
        ":1: key `lease_time`: ",
        ":2: key `nonsense`: ",
        "203.0.113.77:2049 is not an address",
        ":5: key `limits`: ",
        ":7: key `unknown`: ",
        ":10: key `sec`: ",
        ":11: key `squash`: ",
        ":12: key `export.rule`: `clients` is missing",
        ":15: key `path`: ",
        "10 fault(s)",
    ];
    refused(&["--config", name, "--check"], &parts);
    // Syntax: what follows cannot be read, but each error has its line.
    fs::write(&file, "listen = \nlease_time = 0\n[[export]\npath = \n").expect("the folder is ours");
    refused(&["--config", name, "--check"], &[":1: ", ":3: ", "2 fault(s)"]);
}

#[test]
fn a_wrong_command_line_is_refused_with_what_is_allowed() {
    let folder = empty_folder();
    let path = folder.path().to_str().expect("the name is plain");
    refused(&[], &["nothing to export"]);
    refused(&["/no/such/folder"], &["/no/such/folder"]);
    refused(&[path, "--sec", "krb6"], &["krb6", "krb5p"]);
    refused(&[path, "--listen", "nowhere"], &["nowhere", "address:port"]);
    refused(&[path, "--squash", "some"], &["some", "root"]);
    refused(&[path, "--map", "alice"], &["PRINCIPAL=USER"]);
    refused(&[path, "--map", "alice=root"], &["its realm", "alice@EXAMPLE.ORG"]);
    refused(&["--memory", "0"], &["--memory", "1..=1048576"]);
    refused(&["--log", "infoo", path], &["--log", "infoo"]);
    let wrong = ["/no/such/one", "/no/such/two", "--check", "--listen", "203.0.113.77:2049"];
    refused(&wrong, &["/no/such/one", "/no/such/two", "203.0.113.77:2049", "fault(s)"]);
    let failed = |format: &str| run(&mut orthrus(["serve", "/no/such", "--log-format", format])).stderr;
    assert!(failed("journal").starts_with("<3>/no/such: "), "{}", failed("journal"));
    let event: serde_json::Value = serde_json::from_str(&failed("json")).expect("it is a line of JSON");
    assert_eq!(event["level"], "ERROR");
    assert!(failed("text").starts_with("orthrus: /no/such: "), "{}", failed("text"));
    refused(&[path, "--clients", "10.0.0.0/99"], &["10.0.0.0/99"]);
    refused(&["--log", "loud=shouting", path], &["--log"]);
}

#[test]
fn a_missing_requirement_of_a_server_is_named() {
    let folder = empty_folder();
    let state = |name: &str| folder.path().join(name).to_str().expect("the name is plain").to_owned();
    let path = state("data");
    fs::create_dir(&path).expect("the folder is ours");
    let (one, two) = (state("one"), state("two"));
    let common = ["--memory", "1", "--listen", "127.0.0.1:0"];

    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    refused(&["--memory", "1", "--sec", "sys", "--listen", &address, "--state-dir", &one], &[&address]);

    let keytab = state("no.keytab");
    let arguments = [&common[..], &["--state-dir", &one, "--keytab", &keytab]].concat();
    refused(&arguments, &["no.keytab"]);
    fs::write(state("bad.keytab"), "no keytab at all").expect("the folder is ours");
    let keytab = state("bad.keytab");
    let arguments = [&common[..], &["--state-dir", &one, "--keytab", &keytab]].concat();
    refused(&arguments, &["bad.keytab"]);

    fs::write(state("file"), "").expect("the folder is ours");
    let below = state("file/state");
    refused(
        &[&common[..], &["--sec", "sys", "--state-dir", &below]].concat(),
        &["file/state", "--state-dir"],
    );

    let first = Serve::new(&two).args(["--memory", "1", "--sec", "sys"]).start();
    refused(&[&common[..], &["--sec", "sys", "--state-dir", &two]].concat(), &["in use", "--state-dir"]);
    Client::connect(options(first.port())).expect("the first one goes on");
}

#[test]
fn an_export_for_kerberos_without_a_keytab_is_refused_with_the_way_out() {
    if Path::new("/etc/krb5.keytab").exists() {
        return eprintln!("skipped: this machine has a keytab");
    }
    let folder = empty_folder();
    let state = folder.path().join("state").to_str().expect("the name is plain").to_owned();
    let arguments = ["--memory", "1", "--listen", "127.0.0.1:0", "--state-dir", &state];
    // The default has no `sys`: it must be named.
    for more in [&[][..], &["--sec", "krb5p"]] {
        let said = ["keytab", "orthrus realm up", "sec = [\"sys\"]", "--sec sys"];
        refused(&[&arguments[..], more].concat(), &said);
        assert!(!Path::new(&state).exists(), "the refused start leaves a state folder");
    }
}

#[test]
fn a_user_without_rights_is_told_so_for_the_port_and_the_state_folder() {
    if !is_root() {
        return eprintln!("skipped: only root can become nobody");
    }
    let folder = empty_folder();
    let state = folder.path().join("state");
    let mut command =
        nobody(["serve", "--memory", "1", "--sec", "sys", "--listen", "127.0.0.1:0", "--state-dir"]);
    check_refusal(&run(command.arg(&state)), &["state", "--state-dir"]);
    let mut command = nobody(["serve", "--memory", "1", "--sec", "sys", "--listen", "127.0.0.1:0"]);
    check_refusal(&run(&mut command), &["/nonexistent"]);
}

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
