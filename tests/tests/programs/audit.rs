//! The audit log and traces: what they have, what they leave out, and readers and disks that fail.

use e2e::{Serve, empty_folder, found, in_world, orthrus, run, until};

use client::{
    Client, Compound, Filesystem, Flavor, Head, OpenHow, Options, Protection, RawConnection, Security,
};
use nfs4::StableHow4::FILE_SYNC4;
use nfs4::{Bitmap4, Fattr4, NFSPROC4_NULL, Stateid4};
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The time within which the server answers.
const SOON: Duration = Duration::from_secs(60);

/// Reads the lines of an audit log once one of them satisfies the condition.
fn lines_with(path: &Path, what: &str, is_it: impl Fn(&Value) -> bool) -> Vec<Value> {
    found(&format!("a line with {what} in {}", path.display()), || {
        let text = fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
        lines.iter().any(&is_it).then_some(lines)
    })
}

#[test]
fn the_audit_log_has_opens_changes_refusals_and_administrators() {
    in_world(|world| {
        let path = world.path("audit.jsonl");
        let server = world.server().arg("--audit").arg(&path).start();
        let mut files = world.mount(&server, "alice", Flavor::Krb5p);
        files.write_file("with \"quotes\"\n", b"the contents").expect("it can be written");
        files.mkdir("public").expect("it is a new name");
        let client = files.client();
        let file =
            client.open_path("/export/with \"quotes\"\n", &OpenHow::new(nfs4::OPEN4_SHARE_ACCESS_BOTH));
        let (file, zeros) = (file.expect("it is there"), Stateid4::ANONYMOUS);
        client.read(&file.handle, file.stateid, 0, 8).expect("it is open");
        client.read(&file.handle, zeros, 0, 8).expect("no open is necessary");
        client.write(&file.handle, zeros, 4, FILE_SYNC4, b"contents").expect("no open is necessary");
        client.close_file(&file).expect("it is open");
        files.rename("with \"quotes\"\n", "public/quotes").expect("both folders are there");
        files.remove("public/quotes").expect("it is there");
        let lines = lines_with(&path, "REMOVE", |line| line["operation"] == "REMOVE");
        let open = lines.iter().find(|line| line["event"] == "open").expect("an open");
        assert!(open["principal"].as_str().is_some_and(|name| name.starts_with("alice@")), "{open:#}");
        let client = open["client"].as_str().expect("a client");
        assert!(client.parse::<std::net::SocketAddr>().is_ok(), "{open:#}");
        for (field, value) in [("export", "/export"), ("flavor", "krb5p"), ("result", "NFS4_OK")] {
            assert_eq!(open[field], value, "{open:#}");
        }
        assert_eq!(open["names"][0], "with \"quotes\"\n");
        let of = |operation: &str| lines.iter().find(|line| line["operation"] == operation).expect("a line");
        let (made, renamed) = (of("CREATE"), of("RENAME"));
        assert_eq!((&renamed["from"], &renamed["handle"]), (&made["handle"], &made["object"]), "{renamed:#}");
        assert!(renamed["from"].is_string() && made["from"].is_null() && renamed["from_export"].is_null());
        let accesses = lines.iter().filter(|line| line["event"] == "access");
        let accesses: Vec<_> = accesses.map(|line| (&line["operation"], &line["detail"])).collect();
        let [read, written] = ["offset 0, 8 bytes", "offset 4, 8 bytes"].map(Value::from);
        assert_eq!(accesses, [(&"READ".into(), &read), (&"WRITE".into(), &written)]);
        assert!(open["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{open:#}");
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);

        let renamed = world.path("audit.older");
        fs::rename(&path, &renamed).expect("both are in one folder");
        server.signal(Signal::SIGHUP);
        let lines = lines_with(&path, "a reload", |line| line["action"] == "reload");
        assert_eq!((lines.len(), &lines[0]["author"]), (1, &Value::from("SIGHUP")));
        let author = format!("user {}", nix::unistd::geteuid());
        let evicted = run(orthrus(["evict", "ffffffffffffffff", "--state-dir"]).arg(world.path("state-1")));
        assert!(!evicted.status.success(), "{evicted:?}");
        let reloaded = run(orthrus(["reload", "--state-dir"]).arg(world.path("state-1")));
        assert!(reloaded.status.success(), "{reloaded:?}");
        lines_with(&path, "a reload", |line| line["action"] == "reload" && line["author"] == *author);
        let is_refused = |line: &Value| line["action"] == "evict" && line["author"] == *author;
        let lines = lines_with(&path, "a refused eviction", is_refused);
        let refused = lines.into_iter().find(is_refused).expect("it is there");
        let reason = refused["result"].as_str().expect("a reason");
        assert!(reason.starts_with("Not Found: there is no client \"ffffffffffffffff\""), "{reason}");
        let drained = run(orthrus(["drain", "--no-wait", "--state-dir"]).arg(world.path("state-1")));
        assert!(drained.status.success(), "{drained:?}");
        let is_drain = |line: &Value| line["action"] == "drain" && line["author"] == *author;
        lines_with(&path, "a drain", is_drain);
        let new = Client::connect(world.options(&server, "alice", Flavor::Krb5));
        assert!(new.is_err(), "the server drains");
        lines_with(&path, "a refusal", |line| line["event"] == "refusal");
        let all = fs::read_to_string(&renamed).expect("it is there");
        assert!(!all.contains("the contents"), "{all}");
        drop(files);
    });
}

/// Starts a server for this machine with an audit log.
fn audited(state: &Path, audit: &Path) -> Serve {
    let server = Serve::new(state).args(["--memory", "8", "--sec", "sys", "--secure", "false"]);
    server.args(["--metrics", "127.0.0.1:0"]).arg("--audit").arg(audit)
}

fn mounted(server: &e2e::Server) -> Filesystem {
    let options = Options::new("127.0.0.1", Security::sys()).port(server.port());
    Filesystem::mount(options, "/memory").expect("it is exported")
}

fn dropped(server: &e2e::Server) -> f64 {
    crate::metrics::value(
        &crate::metrics::page(server),
        "orthrus_events_total{event=\"audit_lines_dropped\"}",
    )
}

#[test]
fn a_full_disk_costs_lines_and_no_request() {
    let folder = empty_folder();
    let server = audited(&folder.path().join("state"), Path::new("/dev/full")).start();
    let mut files = mounted(&server);
    files.write_file("file", b"data").expect("it is answered");
    until("a line is dropped", || dropped(&server) > 0.0);
    server.wait_for_log("lines of the audit log were dropped: No space left on device");
    assert_eq!(files.read_file("file").expect("it is answered"), b"data");
}

/// A call of an unknown flavor, as a stranger sends it.
fn denied_call() -> Vec<u8> {
    let head = Head::nfs(1, NFSPROC4_NULL, Protection::Plain { flavor: 99, body: Vec::new().into() });
    head.record(&[]).expect("no randomness")
}

#[test]
fn strangers_do_not_crowd_the_audit_log_out() {
    let folder = empty_folder();
    let log = folder.path().join("audit.jsonl");
    let config = folder.path().join("orthrus.toml");
    let text = format!(
        "audit = {log:?}\naudit_size_max = {ROTATION_SIZE}\n\n[[export]]\n\
         memory = 8388608\npseudo = \"/memory\"\nsec = [\"sys\"]\nsecure = false\n"
    );
    fs::write(&config, text).expect("the folder is ours");
    let server = Serve::new(folder.path().join("state")).arg("--config").arg(&config);
    let server = server.args(["--metrics", "127.0.0.1:0"]).start();
    let mut files = mounted(&server);
    files.mkdir("evidence").expect("it is answered");
    let mut stranger = RawConnection::connect(&[server.address()], SOON, 1 << 20).expect("it listens");
    let (batch, batches) = (denied_call().repeat(100), 200);
    for _ in 0..batches {
        stranger.send_bytes(&batch).expect("it reads");
        for _ in 0..100 {
            stranger.receive_record(SOON).expect("it answers").expect("in time");
        }
    }
    files.mkdir("later").expect("it is answered");
    lines_with(&log, "the last change", |line| line["names"][0] == "later");
    assert_eq!(made_directories(&log), ["evidence", "later"]);
    assert_eq!(dropped(&server), 0.0);
    let page = crate::metrics::page(&server);
    let name = "orthrus_events_total{event=\"audit_refusals_suppressed\"}";
    assert!(crate::metrics::value(&page, name) > 10_000.0, "{page}");
}

/// Adds as many lines to the audit log as a COMPOUND can.
fn changes_of_nothing(compound: &mut Compound) -> &mut Compound {
    let nothing = || Fattr4 { attrmask: Bitmap4::default(), attr_vals: b"".into() };
    let directory = compound.putrootfh().lookup(b"memory");
    (0..60).fold(directory, |compound, _| compound.setattr(Stateid4::ANONYMOUS, nothing()))
}

#[test]
fn a_reader_that_hangs_costs_lines_and_no_request() {
    let folder = empty_folder();
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
    let flags = OFlag::O_NONBLOCK.bits();
    let reader = fs::File::options().read(true).custom_flags(flags).open(&pipe).expect("it can be read");
    let mut server = audited(&folder.path().join("state"), &pipe).start();
    let mut files = mounted(&server);
    files.write_file("file", b"data").expect("it is answered");
    until("a line is dropped", || {
        for _ in 0..20 {
            files.client().perform(changes_of_nothing, |_| Ok(())).expect("it is answered");
        }
        dropped(&server) > 0.0
    });
    server.wait_for_log("lines of the audit log were dropped: it is written too slowly");
    assert_eq!(files.read_file("file").expect("it is answered"), b"data");
    files.unmount().expect("the session ends");
    server.signal(Signal::SIGTERM);
    let (status, _) = server.wait();
    assert!(status.success(), "{status}");
    drop(reader);
}

/// A trace that runs.
struct TraceCommand {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl TraceCommand {
    /// Starts a trace, and returns when it has begun.
    fn start(state: &Path, arguments: &[&str]) -> Self {
        let mut command = orthrus(["trace", "--json", "--state-dir"]);
        let command = command.arg(state).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        // The first line is a sign of life.
        let first = lines.next().expect("a line").expect("it is text");
        assert_eq!(first, r#"{"dropped":0}"#);
        Self { child, lines }
    }

    /// Returns the next operation of a name.
    fn find(&mut self, operation: &str) -> Value {
        for line in self.lines.by_ref() {
            let line: Value = serde_json::from_str(&line.expect("it is text")).expect("it is JSON");
            if line["operation"]["operation"] == operation {
                return line["operation"].clone();
            }
        }
        panic!("no {operation}");
    }

    /// Ends it. A test may run where SIGINT is ignored.
    fn end(mut self) {
        let child = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        nix::sys::signal::kill(child, Signal::SIGTERM).expect("it runs");
        self.child.wait().expect("it has ended");
    }
}

#[test]
fn a_trace_has_the_operations_of_a_caller_or_a_file_without_names() {
    in_world(|world| {
        let audit = world.path("audit.jsonl");
        let server = world.server().arg("--audit").arg(&audit).start();
        let state = world.path("state-1");
        let mut files = world.mount(&server, "alice", Flavor::Krb5i);
        files.write_file("secret", b"data").expect("it can be written");
        let principal = format!("alice@{}", world.realm.name());
        let mut all = TraceCommand::start(&state, &["--principal", &principal]);
        let mut named = TraceCommand::start(&state, &["--names", "--client", "127.0.0.1"]);
        let mut other = TraceCommand::start(&state, &["--principal", "nobody@R"]);
        let mut file = TraceCommand::start(&state, &["--file", "/export/secret"]);
        let traces = "client \"127.0.0.1\", with names";
        lines_with(&audit, "a trace", |line| line["action"] == "trace" && line["result"] == traces);
        let full = run(orthrus(["trace", "--state-dir"]).arg(&state));
        assert!(full.stderr.contains("four traces run already"), "{full:?}");
        files.write_file("another", b"data").expect("it can be written");
        files.write_file("secret", b"different").expect("it can be written");

        let open = all.find("OPEN");
        assert_eq!((&open["names"][0], &open["status"]), (&"<7 bytes>".into(), &"NFS4_OK".into()));
        assert_eq!((&open["principal"], &open["flavor"]), (&principal.as_str().into(), &"krb5i".into()));
        assert!(open["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0 && seconds < 60.0), "{open:#}");
        assert_eq!(named.find("OPEN")["names"][0], "another");
        let write = file.find("WRITE");
        assert_eq!(write["detail"], "offset 0, 9 bytes");
        assert_eq!(file.child.try_wait().expect("a child"), None);
        // Signs of life only.
        assert_eq!(other.lines.next().expect("a line").expect("it is text"), r#"{"dropped":0}"#);
        // As with `orthrus trace | head -1`.
        let TraceCommand { mut child, lines } = other;
        drop(lines);
        until("a trace without a reader ends", || child.try_wait().expect("a child").is_some());
        for trace in [all, named] {
            trace.end();
        }
        let missing = run(orthrus(["trace", "--file", "/export/nothing", "--state-dir"]).arg(&state));
        assert!(missing.stderr.contains("/export/nothing"), "{missing:?}");
        until("all traces end", || server.log().matches("a trace ended").count() == 3);
        drop(server);
        let (mut said, mut stderr) = (String::new(), file.child.stderr.take().expect("a pipe"));
        std::io::Read::read_to_string(&mut stderr, &mut said).expect("it is text");
        assert!(
            file.child.wait().expect("a child").success() && said.contains("the trace has ended"),
            "{said}"
        );
    });
}

/// The smallest size at which the audit log rotates.
const ROTATION_SIZE: usize = 1 << 20;
/// Directories that a client makes at least and at most; their lines fit the log after rotation.
const DIRECTORIES: [usize; 2] = [800, 2000];
/// The first line of a log before rotation.
const FIRST_LINE: &str = r#"{"event":"first"}"#;

/// Writes an audit log that has so much room before it rotates.
fn nearly_full_log(path: &Path, room: usize) {
    let line = format!("{}\n", r#"{"event":"older"}"#);
    let lines = (ROTATION_SIZE - room - FIRST_LINE.len() - 1) / line.len();
    fs::write(path, format!("{FIRST_LINE}\n{}", line.repeat(lines))).expect("the folder is ours");
}

/// Returns the names of the directories that a log says were made.
fn made_directories(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let values = lines.map(|line| serde_json::from_str::<Value>(line).expect("a line is whole"));
    let made = values.filter(|line| line["operation"] == "CREATE");
    made.map(|line| line["names"][0].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn the_audit_log_rotates_once_around_an_upgrade_and_loses_no_line() {
    // The first log rotates before the upgrade, the others during or after it.
    for room in [100, 64 << 10, 200 << 10] {
        let folder = empty_folder();
        let (export, config) = (folder.path().join("export"), folder.path().join("orthrus.toml"));
        let (log, older) = (folder.path().join("audit"), folder.path().join("audit.1"));
        fs::create_dir(&export).expect("the folder is ours");
        nearly_full_log(&log, room);
        let text = format!(
            "audit = {log:?}\naudit_size_max = {ROTATION_SIZE}\n\n[[export]]\npath = {export:?}\n\
             pseudo = \"/memory\"\nsec = [\"sys\"]\nsecure = false\nsquash = \"none\"\n"
        );
        fs::write(&config, text).expect("the folder is ours");
        let mut server = Serve::new(folder.path().join("state")).arg("--config").arg(&config).start();
        let mut files = mounted(&server);
        let is_upgraded = AtomicBool::new(false);
        let expected: Vec<String> = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let [least, most] = DIRECTORIES;
                let names = (0..most).map(|number| format!("{number:0>120}"));
                let mut made = Vec::new();
                for name in names.take_while(|_| !is_upgraded.load(Relaxed)) {
                    files.mkdir(&name).expect("it is answered");
                    made.push(name);
                    std::thread::sleep(Duration::from_millis(1));
                }
                for name in (made.len()..least).map(|number| format!("{number:0>120}")) {
                    files.mkdir(&name).expect("it is answered");
                    made.push(name);
                }
                made
            });
            server.upgrade(None);
            is_upgraded.store(true, Relaxed);
            worker.join().expect("no request fails")
        });
        let logged = || [&older, &log].map(|path| made_directories(path)).concat();
        until("each directory has a line", || logged().len() >= expected.len());
        let mut names = logged();
        names.sort();
        assert_eq!(names, expected, "room {room}");
        // A second rotation would replace the older file.
        let text = fs::read_to_string(&older).expect("the log has rotated");
        assert!(text.starts_with(FIRST_LINE), "it rotated more than once, room {room}");
        assert!(!folder.path().join("audit.2").exists());
        assert!(!made_directories(&log).is_empty(), "room {room}");
    }
}

/// Opens a pipe for writing once a process reads it.
fn writer_of(pipe: &Path) -> fs::File {
    let mut nonblocking = fs::File::options();
    nonblocking.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
    found("a reader of the pipe", || nonblocking.open(pipe).ok())
}

#[test]
fn an_upgrade_is_logged_with_its_author() {
    let folder = empty_folder();
    let (export, log) = (empty_folder(), folder.path().join("audit"));
    let server = Serve::new(folder.path().join("state")).arg("--audit").arg(&log).arg(export.path());
    let mut server = server.start();
    server.upgrade(None);
    let author = format!("user {}", nix::unistd::geteuid());
    let lines = lines_with(&log, "the upgrade", |line| line["action"] == "upgrade");
    assert!(lines.iter().any(|line| line["author"] == *author), "{lines:?}");
}

#[test]
fn a_rotation_and_a_reload_in_the_middle_of_an_upgrade_reach_the_next_process() {
    let folder = empty_folder();
    let path = |name: &str| folder.path().join(name);
    let (config, log, renamed) = (path("orthrus.toml"), path("audit"), path("audit.older"));
    let export = path("export");
    fs::create_dir(&export).expect("the folder is ours");
    let export = |pseudo: &str| {
        format!(
            "[[export]]\npath = {export:?}\npseudo = {pseudo:?}\nsec = [\"sys\"]\nsecure = false\n\
             squash = \"none\"\n"
        )
    };
    let older_text = format!("audit = {log:?}\n\n{}", export("/memory"));
    let newer_text = format!("{older_text}\n{}", export("/newer"));
    fs::write(&config, &older_text).expect("the folder is ours");
    let mut server = Serve::new(path("state")).arg("--config").arg(&config).start();
    let mut files = mounted(&server);
    files.mkdir("before").expect("it is answered");
    lines_with(&log, "a directory", |line| line["names"][0] == "before");

    // The next process reads the older file until the test lets it go on.
    fs::remove_file(&config).expect("the folder is ours");
    nix::unistd::mkfifo(&config, Mode::S_IRWXU).expect("a pipe");
    let process = nix::unistd::Pid::from_raw(server.pid().cast_signed());
    std::thread::scope(|scope| {
        let upgrade = scope.spawn(|| server.upgrade(None));
        let mut pipe = writer_of(&config);
        fs::rename(&log, &renamed).expect("both are in one folder");
        fs::write(path("orthrus.new"), &newer_text).expect("the folder is ours");
        fs::rename(path("orthrus.new"), &config).expect("both are in one folder");
        nix::sys::signal::kill(process, Signal::SIGHUP).expect("it serves");
        files.mkdir("meanwhile").expect("it is answered");
        pipe.write_all(older_text.as_bytes()).expect("the next process reads it");
        drop(pipe);
        upgrade.join().expect("the upgrade succeeds");
    });
    files.mkdir("after").expect("it is answered");
    lines_with(&log, "the reload", |line| {
        line["result"].as_str().is_some_and(|result| result.contains("are in force"))
    });
    // A line is written soon after the reply.
    lines_with(&log, "a directory", |line| line["names"][0] == "after");
    assert_eq!(
        [&renamed, &log].map(|path| made_directories(path)).concat(),
        ["before", "meanwhile", "after"]
    );
    let options = Options::new("127.0.0.1", Security::sys()).port(server.port());
    Filesystem::mount(options, "/newer").expect("the newer file has it");
}
