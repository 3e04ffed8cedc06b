//! `orthrus status`, `exports`, `clients`, `sessions`, `contexts`, `opens`, `locks`, `delegations`,
//! `evict`, `revoke` and `drain`, of a server with clients.

use client::{Client, Create, Flavor, OpenHow, Options, Security};
use e2e::{
    Ended, Serve, account, children, data_folder, empty_folder, found, in_world, is_installed, nobody,
    orthrus, run, run_within, status,
};
use nfs4::NfsLockType4;
use nfs4::Nfsstat4::*;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

fn ask(state: &Path, arguments: &[&str]) -> Ended {
    run(orthrus(arguments).arg("--state-dir").arg(state))
}

fn rows(state: &Path, kind: &str) -> Vec<Value> {
    let ended = ask(state, &[kind, "--json"]);
    assert!(ended.status.success(), "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).expect("it is JSON");
    assert_eq!(report["left_out"], 0);
    report["rows"].as_array().expect("a list").clone()
}

#[test]
fn an_administrator_finds_the_client_that_locks_a_file() {
    let folder = empty_folder();
    let (state, export) = (folder.path().join("state"), folder.path().join("export"));
    fs::create_dir(&export).expect("the folder is ours");
    let server = Serve::new(&state)
        .args(["--sec", "sys", "--secure", "false", "--squash", "none"])
        .arg(&export)
        .start();
    let options = || Options::new("127.0.0.1", Security::sys()).port(server.port());
    let mut client = Client::connect(options()).expect("the server is there");
    let mut other = Client::connect(options()).expect("the server is there");
    let file = client.open_path("/export/file", &OpenHow::create(0o644)).expect("it is a new name");
    client.lock(&file, b"owner", NfsLockType4::WRITE_LT, 10, 5).expect("it is open").expect("it is free");
    client
        .lock(&file, b"owner", NfsLockType4::READ_LT, 100, u64::MAX)
        .expect("it is open")
        .expect("it is free");
    let seen = other.open_path("/export/file", &OpenHow::new(1)).expect("it is there");

    let path = fs::canonicalize(export.join("file")).expect("it is there").display().to_string();
    let locks = rows(&state, "locks");
    let mut ranges: Vec<_> =
        locks.iter().map(|row| (row["first"].as_u64(), row["last"].as_u64(), row["kind"].as_str())).collect();
    ranges.sort_unstable();
    assert_eq!(ranges, [(Some(10), Some(14), Some("write")), (Some(100), None, Some("read"))]);
    assert!(locks.iter().all(|row| row["path"] == path.as_str() && row["export"] == "/export"), "{locks:?}");
    assert_eq!(rows(&state, "opens").len(), 2);
    let clients = rows(&state, "clients");
    assert_eq!(clients.len(), 2);
    assert!(
        clients.iter().all(|row| row["state"] == "active" && row["address"] == "127.0.0.1"),
        "{clients:?}"
    );
    let held: Vec<_> = clients.iter().map(|row| row["locks"].as_u64()).collect();
    assert!(held.contains(&Some(2)) && held.contains(&Some(0)), "as in the list of locks: {clients:?}");
    assert!(rows(&state, "delegations").is_empty());
    let exports = rows(&state, "exports");
    assert_eq!(exports.len(), 1);
    assert_eq!((&exports[0]["export"], &exports[0]["squash"]), (&"/export".into(), &"none".into()));
    assert_eq!(exports[0]["sec"], serde_json::json!(["sys"]));
    let table = ask(&state, &["exports"]);
    let row = format!("/export  {}  any      sys from any port  rw      none", exports[0]["fsid"]);
    assert!(table.stdout.contains(&row), "{table:?}");

    let table = ask(&state, &["locks", &path]);
    let lines: Vec<_> = table.stdout.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("ADDRESS"), "{table:?}");
    assert_eq!(ask(&state, &["locks", "no such path"]).stdout.lines().count(), 1);

    client.close_file(&file).expect("it is open");
    assert!(rows(&state, "locks").is_empty());
    fs::remove_file(export.join("file")).expect("the folder is ours");
    let opens = rows(&state, "opens");
    assert!(opens[0]["path"].as_str().is_some_and(|path| path.ends_with("file (deleted)")), "{opens:?}");
    other.close_file(&seen).expect("it is open");
}

#[test]
fn a_file_that_a_client_created_with_o_excl_is_listed_by_its_name() // RFC 8881 section 18.16.3
{
    let folder = empty_folder();
    let (state, export) = (folder.path().join("state"), folder.path().join("export"));
    fs::create_dir(&export).expect("the folder is ours");
    let server = Serve::new(&state).args(["--sec", "sys", "--secure", "false"]).arg(&export).start();
    fs::set_permissions(&export, PermissionsExt::from_mode(0o777)).expect("the folder is ours");
    let options = Options::new("127.0.0.1", Security::sys()).port(server.port());
    let mut client = Client::connect(options).expect("the server is there");
    let how = OpenHow { create: Create::Exclusive(*b"verifier"), ..OpenHow::create(0o644) };
    let file = client.open_path("/export/file", &how).expect("it is a new name");
    let path = fs::canonicalize(export.join("file")).expect("it is there").display().to_string();
    assert_eq!(rows(&state, "opens")[0]["path"], path.as_str());
    client.close_file(&file).expect("it is open");
}

#[test]
fn a_listing_without_a_server_says_so_and_others_may_not_ask() {
    let folder = empty_folder();
    let state = folder.path().join("state");
    let server = Serve::new(&state).args(["--memory", "1", "--sec", "sys"]).start();
    let refused = run(nobody(["clients", "--state-dir"]).arg(&state));
    assert!(
        !refused.status.success() && refused.stderr.contains("as root or as the server's user"),
        "{refused:?}"
    );
    // Without `sudo` it looks for a server of the user's own.
    let other = run(&mut nobody(["clients"]));
    assert!(!other.status.success() && other.stderr.contains("run the command as root"), "{other:?}");
    drop(server);
    let alone = ask(&state, &["clients"]);
    assert!(!alone.status.success() && alone.stderr.contains("no server runs in"), "{alone:?}");
}

#[test]
fn contexts_are_listed_with_the_user_and_the_time_that_their_tickets_have_left() {
    in_world(|world| {
        let server = world.server().start();
        let mut files = world.mount(&server, "alice", Flavor::Krb5p);
        files.write_file("file", b"data").expect("it can be written");
        let state = world.path("state-1");
        let contexts = rows(&state, "contexts");
        let row = contexts.iter().find(|row| row["principal"] == format!("alice@{}", world.realm.name()));
        let row = row.unwrap_or_else(|| panic!("alice is missing: {contexts:?}"));
        assert_eq!(row["uid"], account("alice").uid.as_raw());
        assert_eq!(row["enctype"], "aes256-cts-hmac-sha1-96");
        assert_eq!(row["delegated"], false);
        // The tickets of the realm live for ten hours; Kerberos allows five minutes of clock skew.
        assert!(row["expires"].as_u64().is_some_and(|left| (35_000..=36_300).contains(&left)), "{row}");
        assert!(row["silent"].as_u64().is_some_and(|silent| silent < 60), "{row}");
        let table = ask(&state, &["contexts", "alice"]);
        assert!(table.stdout.starts_with("PRINCIPAL") && table.stdout.lines().count() > 1, "{table:?}");
        files.unmount().expect("the session ends");
    });
}

#[test]
fn the_status_tells_rates_by_flavor_the_cost_of_encryption_and_warnings() {
    in_world(|world| {
        let server = world.server().start();
        let state = world.path("state-1");
        let mut files = world.mount(&server, "alice", Flavor::Krb5p);
        files.write_file("file", &[7; 100_000]).expect("it can be written");
        let (done, ended) = std::sync::mpsc::channel::<()>();
        let reader = std::thread::spawn(move || {
            while ended.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                files.read_file("file").expect("it can be read");
            }
            files.unmount().expect("the session ends");
        });
        let shown = ask(&state, &["status", "--once"]);
        done.send(()).expect("it reads");
        reader.join().expect("it reads");
        assert!(shown.status.success(), "{shown:?}");
        assert!(shown.stdout.starts_with("orthrus 0.") && shown.stdout.contains(", serving\n"), "{shown:?}");
        let row = shown.stdout.lines().find(|line| line.starts_with("krb5p ")).expect("it is there");
        let columns: Vec<&str> = row.split_whitespace().collect();
        assert!(columns[1].parse::<f64>().expect("a rate") > 10.0, "{row}");
        assert!(columns[3].parse::<f64>().expect("a time of protection") > 0.0, "{row}");
        assert!(shown.stdout.lines().any(|line| line.starts_with("READ ")), "{shown:?}");
        assert!(!shown.stdout.contains("warnings:"), "{shown:?}");

        let json = ask(&state, &["status", "--json"]);
        let report: Value = serde_json::from_str(&json.stdout).expect("it is JSON");
        assert_eq!(report["state"], "serving");
        assert!(report["operations"]["READ"].as_u64().is_some_and(|reads| reads > 0), "{report}");
        assert!(report["events"]["contexts_created"].as_u64().is_some_and(|made| made > 0), "{report}");
        assert!(report["processor"].as_f64().is_some_and(|seconds| seconds > 0.0), "{report}");
    });
}

#[test]
fn an_evicted_client_loses_its_locks_to_others_and_the_log_names_who_evicted_it() {
    let folder = empty_folder();
    let (state, export) = (folder.path().join("state"), folder.path().join("export"));
    fs::create_dir(&export).expect("the folder is ours");
    let server = Serve::new(&state)
        .args(["--sec", "sys", "--secure", "false", "--squash", "none"])
        .arg(&export)
        .start();
    let options = || Options::new("127.0.0.1", Security::sys()).port(server.port());
    let mut holder = Client::connect(options()).expect("the server is there");
    let held = holder.open_path("/export/file", &OpenHow::create(0o644)).expect("it is a new name");
    holder.lock(&held, b"holder", NfsLockType4::WRITE_LT, 0, 5).expect("it is open").expect("it is free");
    let id = rows(&state, "clients")[0]["id"].as_str().expect("an ID").to_owned();
    let mut other = Client::connect(options()).expect("the server is there");
    let file = other.open_path("/export/file", &OpenHow::new(3)).expect("it is there");
    let denied = other.lock(&file, b"other", NfsLockType4::WRITE_LT, 0, 5).expect("it is open");
    assert!(denied.is_err(), "the holder has it");

    for unknown in ["0", "ffffffffffffffff", "alice", "", "+1"] {
        let ended = ask(&state, &["evict", unknown]);
        assert!(!ended.status.success() && ended.stderr.contains("there is no client"), "{ended:?}");
    }
    let refused = run(nobody(["evict", &id, "--state-dir"]).arg(&state));
    assert!(
        !refused.status.success() && refused.stderr.contains("as root or as the server's user"),
        "{refused:?}"
    );
    assert_eq!(rows(&state, "clients").len(), 2);

    let ended = ask(&state, &["evict", &id]);
    assert!(ended.status.success() && ended.stdout.contains(&id), "{ended:?}");
    server.wait_for_log(&format!(
        "eviction by user {}: client {id} and its state are removed",
        nix::unistd::geteuid()
    ));
    other.lock(&file, b"other", NfsLockType4::WRITE_LT, 0, 5).expect("it is open").expect("it is free now");
    assert_eq!(rows(&state, "clients").len(), 1);
    assert!(ask(&state, &["evict", &id]).stderr.contains("there is no client"));
    // RFC 8881 section 8.4.2: the client learns it, and makes a new session without its opens.
    assert_eq!(status(holder.read(&held.handle, held.stateid, 0, 5)), NFS4ERR_BADSESSION);
    other.close_file(&file).expect("it is open");
}

#[test]
fn a_server_that_drains_refuses_new_clients_and_ends_with_the_last_one() {
    let folder = empty_folder();
    let state = folder.path().join("state");
    let mut server = Serve::new(&state)
        .args(["--sec", "sys", "--secure", "false", "--metrics", "127.0.0.1:0"])
        .arg(data_folder(&folder))
        .start();
    let options = || Options::new("127.0.0.1", Security::sys()).port(server.port());
    let mut client = Client::connect(options()).expect("the server is there");
    let ready = |server: &e2e::Server| crate::metrics::get(server, "/readyz").0;
    assert_eq!(ready(&server), 200);

    let started = ask(&state, &["drain", "--no-wait"]);
    assert!(started.stdout.contains("when the last of 1 has left"), "{started:?}");
    assert_eq!(status(Client::connect(options())), NFS4ERR_CLID_INUSE);
    server.wait_for_log("refused by `drain`, as a new client: use another server");
    server.wait_for_log(&format!("drain by user {}", nix::unistd::geteuid()));
    assert_eq!(ready(&server), 503);
    let cancelled = ask(&state, &["drain", "--cancel"]);
    assert!(cancelled.stdout.contains("new clients are served"), "{cancelled:?}");
    assert_eq!(ready(&server), 200);
    let again = ask(&state, &["drain", "--cancel"]);
    assert!(again.stdout.contains("there is no drain"), "{again:?}");
    assert_eq!(server.log().matches("drain cancelled").count(), 1, "{}", server.log());
    let second = Client::connect(options()).expect("it is admitted again");

    let waiting = orthrus(["drain", "--state-dir"])
        .arg(&state)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    server.wait_for_log("the last of 2 has left");
    client.lookup_path("").expect("a known client goes on");
    client.close().expect("it leaves");
    assert!(server.is_running());
    second.close().expect("it leaves");
    let ended = run_within(waiting, std::time::Duration::from_secs(60));
    assert!(ended.status.success() && ended.stdout.ends_with("the server has ended\n"), "{ended:?}");
    assert!(server.wait().0.success(), "{}", server.log());
}

#[test]
fn a_drain_of_a_server_without_clients_can_be_cancelled() {
    let folder = empty_folder();
    let state = folder.path().join("state");
    let server = Serve::new(&state).arg(data_folder(&folder)).start();
    let started = ask(&state, &["drain", "--no-wait"]);
    assert!(started.stdout.contains("no client is left, so the server ends in 10 s"), "{started:?}");
    let cancelled = ask(&state, &["drain", "--cancel"]);
    assert!(cancelled.stdout.contains("new clients are served"), "{cancelled:?}");
    Client::connect(Options::new("127.0.0.1", Security::sys()).port(server.port())).expect("it serves");
}

#[test]
fn a_revoked_lock_is_free_for_others_and_its_client_learns_that_an_administrator_did_it()
// RFC 8881 sections 8.4.2.4 and 15.1.5.1
{
    let folder = empty_folder();
    let (state, export) = (folder.path().join("state"), folder.path().join("export"));
    fs::create_dir(&export).expect("the folder is ours");
    let server = Serve::new(&state)
        .args(["--sec", "sys", "--secure", "false", "--squash", "none"])
        .arg(&export)
        .start();
    let options = || Options::new("127.0.0.1", Security::sys()).port(server.port());
    let mut holder = Client::connect(options()).expect("the server is there");
    let mut other = Client::connect(options()).expect("the server is there");
    let held = holder.open_path("/export/file", &OpenHow::create(0o644)).expect("it is a new name");
    holder.lock(&held, b"holder", NfsLockType4::WRITE_LT, 0, 5).expect("it is open").expect("it is free");
    let file = other.open_path("/export/file", &OpenHow::new(3)).expect("it is there");
    let mut lock = || other.lock(&file, b"other", NfsLockType4::WRITE_LT, 0, 5).expect("it is open");
    assert!(lock().is_err(), "the holder has it");

    let stateid = |kind: &str| rows(&state, kind)[0]["stateid"].as_str().expect("a stateid").to_owned();
    let of_lock = stateid("locks");
    for unknown in ["0", "alice", "000000000000000000000000", "\n"] {
        let ended = ask(&state, &["revoke", unknown]);
        assert!(!ended.status.success() && ended.stderr.contains("there is no open, lock"), "{ended:?}");
    }
    assert!(ask(&state, &["revoke"]).stderr.contains("Usage"), "a stateid or --principal");
    let refused = run(nobody(["revoke", &of_lock, "--state-dir"]).arg(&state));
    assert!(
        !refused.status.success() && refused.stderr.contains("as root or as the server's user"),
        "{refused:?}"
    );
    let ended = ask(&state, &["revoke", &of_lock]);
    assert!(ended.status.success() && ended.stdout.contains("the lock stateid"), "{ended:?}");
    server
        .wait_for_log(&format!("revocation by user {}: the lock stateid {of_lock}", nix::unistd::geteuid()));
    lock().expect("it is free now");
    holder.read(&held.handle, held.stateid, 0, 5).expect("the open stays");

    let user = format!("sys:{}", nix::unistd::geteuid());
    let ended = ask(&state, &["revoke", "--principal", &user]);
    assert!(ended.stdout.contains("2 opens and 0 delegations"), "{ended:?}");
    assert_eq!(status(holder.read(&held.handle, held.stateid, 0, 5)), NFS4ERR_ADMIN_REVOKED);
    assert!(rows(&state, "opens").is_empty());
    let sessions = rows(&state, "sessions");
    assert_eq!(sessions.len(), 2);
    for row in sessions {
        assert_eq!((&row["version"], &row["flavors"]), (&"4.1".into(), &serde_json::json!(["sys"])));
        assert!(row["connections"].as_u64() >= Some(1) && row["slots_granted"].as_u64() >= Some(1), "{row}");
    }
    let again = ask(&state, &["revoke", "--principal", &user]);
    assert!(!again.status.success() && again.stderr.contains("no opens"), "{again:?}");
}

#[test]
fn a_revocation_gives_back_the_space_of_a_removed_file() {
    let folder = empty_folder();
    let (state, export) = (folder.path().join("state"), folder.path().join("export"));
    fs::create_dir(&export).expect("the folder is ours");
    let server = Serve::new(&state).args(["--sec", "sys", "--secure", "false"]).arg(&export).start();
    fs::write(export.join("file"), b"large").expect("the folder is ours");
    let mut client =
        Client::connect(Options::new("127.0.0.1", Security::sys()).port(server.port())).expect("it is there");
    let open = client.open_path("/export/file", &OpenHow::new(1)).expect("it is there");
    client.read(&open.handle, open.stateid, 0, 5).expect("it is open");
    fs::remove_file(export.join("file")).expect("the folder is ours");
    let deleted = || {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("the server runs");
        let targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        targets.filter(|target| target.to_string_lossy().ends_with("export/file (deleted)")).count()
    };
    assert!(deleted() > 0);
    let rows = rows(&state, "opens");
    let ended = ask(&state, &["revoke", rows[0]["stateid"].as_str().expect("a stateid")]);
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(deleted(), 0);
}

/// Starts a command in a terminal of 100 columns and 40 lines.
fn in_terminal(command: &str) -> std::process::Child {
    let command = format!("stty cols 100 rows 40 && exec {command}");
    std::process::Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .env("TERM", "xterm-256color")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("a terminal")
}

#[test]
fn the_live_status_fills_the_terminal_survives_the_server_and_leaves_the_terminal_as_it_was() {
    if !e2e::is_installed("script", "bsdutils") {
        return;
    }
    let folder = empty_folder();
    let state = folder.path().join("state");
    let mut server = Serve::new(&state).args(["--memory", "1", "--sec", "sys"]).start();
    let program = e2e::program().display();
    for (key, kills) in [("q", true), ("\u{3}", false)] {
        let mut child = in_terminal(&format!("{program} status --state-dir {}", state.display()));
        let mut input = child.stdin.take().expect("a pipe");
        let mut screen = child.stdout.take().expect("a pipe");
        let (draw, drawn) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = std::io::Read::read(&mut screen, &mut bytes) {
                let _ = draw.send(String::from_utf8_lossy(&bytes[..count]).into_owned());
            }
        });
        let mut shown = String::new();
        let mut until = |text: &str| {
            while !shown.contains(text) {
                let more = drawn.recv_timeout(std::time::Duration::from_secs(60));
                shown += &more.unwrap_or_else(|_| panic!("{text} is missing: {shown}"));
            }
        };
        until("\u{1b}[?1049h");
        until("PRINCIPAL");
        if kills {
            server.kill();
            until("date:");
            server.restart();
        }
        std::io::Write::write_all(&mut input, key.as_bytes()).expect("it takes keys");
        until("\u{1b}[?1049l");
        let ended = run_within(child, std::time::Duration::from_secs(60));
        assert!(ended.status.success(), "{ended:?}");
    }
}

/// `orthrus status` in a terminal of its own.
struct LiveStatus {
    /// The program that holds the other end of the terminal.
    terminal: Child,
    screen: ChildStdout,
    shown: String,
}

impl LiveStatus {
    /// Shows the server with this state folder; the shell runs `before` in the terminal first.
    fn start(state: &Path, before: &str) -> Self {
        let program = orthrus(["status"]);
        let shown = format!("exec {:?} status --state-dir {state:?}", program.get_program());
        let mut script = Command::new("script");
        // The lines and columns of a screen.
        script.args(["--quiet", "--return", "--command"]);
        script.arg(format!("stty rows 50 cols 150; {before} {shown}")).arg("/dev/null");
        script.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut terminal = script.spawn().expect("it is installed");
        let screen = terminal.stdout.take().expect("a pipe");
        Self { terminal, screen, shown: String::new() }
    }

    /// The screen draws changes only, without the spaces between words.
    fn wait_for(&mut self, text: &str) {
        let mut bytes = [0; 4096];
        while !self.shown.contains(text) {
            let count = self.screen.read(&mut bytes).expect("a pipe");
            assert!(count > 0, "no {text:?} on the screen: {}", self.shown);
            self.shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }
}

#[test]
fn the_live_status_of_a_server_that_hangs_says_so_and_ends_by_a_key() {
    if !is_installed("script", "bsdutils") {
        return;
    }
    let folder = empty_folder();
    let state = folder.path().join("state");
    let server = Serve::new(&state).args(["--memory", "1", "--sec", "sys"]).start();
    let mut status = LiveStatus::start(&state, "");
    status.wait_for("Flavors");
    server.signal(Signal::SIGSTOP);
    status.wait_for("answer");
    let mut keys = status.terminal.stdin.take().expect("a pipe");
    keys.write_all(b"q").expect("it runs");
    assert!(status.terminal.wait().expect("a child").success());
    server.signal(Signal::SIGCONT);
}

#[test]
fn the_live_status_ends_with_its_terminal() {
    if !is_installed("script", "bsdutils") {
        return;
    }
    let folder = empty_folder();
    let state = folder.path().join("state");
    let _server = Serve::new(&state).args(["--memory", "1", "--sec", "sys"]).start();
    // As at a connection that is lost, and without the signal that comes with it.
    for before in ["", "trap '' HUP;"] {
        let mut status = LiveStatus::start(&state, before);
        status.wait_for("Flavors");
        let process = children(status.terminal.id()).trim().to_owned();
        status.terminal.kill().expect("it runs");
        status.terminal.wait().expect("a child");
        let commands = || fs::read_to_string(format!("/proc/{process}/cmdline"));
        found("the end of the program", || commands().unwrap_or_default().is_empty().then_some(()));
    }
}
