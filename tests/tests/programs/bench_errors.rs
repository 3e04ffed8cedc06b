//! Messages of a bench about errors: cause, remedy, exit status; the results so far are kept.

use client::Flavor;
use e2e::{Disk, Ended, Serve, empty_folder, in_own_mounts, in_world, is_root, orthrus, run, run_within};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a run may take to measure its first case.
const BEGIN_MAX: Duration = Duration::from_secs(60);

/// Exit statuses (docs/report.md): nothing was measured or the run did not come to its end; all but
/// something was measured.
const FAILED: i32 = 1;
const LEFT_OUT: i32 = 3;

fn bench(evaluation: &str, port: u16, output: &Path) -> Command {
    let mut command = orthrus(["bench", evaluation, "127.0.0.1:/export", "--port", &port.to_string()]);
    command.arg("--output").arg(output).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn record(prefix: &Path) -> Value {
    let text = fs::read_to_string(prefix.with_extension("json")).expect("the record is written");
    serde_json::from_str(&text).expect("it is JSON")
}

/// The bytes on a connection: at once, or after the first call, with that call's XID in front.
enum Says {
    AtOnce(&'static [u8]),
    ToCall(&'static [u32]),
}

/// Something that listens and is no NFS server; returns its port.
fn listening(says: Says) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut call = [0; 4096];
            let answer = match &says {
                Says::AtOnce(bytes) => bytes.to_vec(),
                Says::ToCall(words) => {
                    let count = stream.read(&mut call).unwrap_or(0);
                    let body: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
                    let mark = 0x8000_0000 | (4 + body.len() as u32);
                    let xid = call[..count].get(4..8).unwrap_or(&[0; 4]);
                    [&mark.to_be_bytes()[..], xid, &body].concat()
                }
            };
            let _ = stream.write_all(&answer);
        }
    });
    port
}

/// RFC 5531 section 9: PROG_MISMATCH names the versions that there are, PROG_UNAVAIL says that
/// there is no such program.
#[test]
fn a_peer_that_is_no_nfsv4_server_is_reported_as_such() {
    let folder = empty_folder();
    let prefix = folder.path().join("report");
    let cases = [
        (Says::AtOnce(b"SSH-2.0-OpenSSH_9.2\r\n"), "is no RPC"),
        (Says::AtOnce(b"\x80\0\0\x08nonsense"), "no"),
        (Says::AtOnce(b""), "closes the connection instead of answering"),
        // REPLY, MSG_ACCEPTED, AUTH_NONE without a body, PROG_MISMATCH from 3 to 3.
        (Says::ToCall(&[1, 0, 0, 0, 2, 3, 3]), "does not speak NFSv4"),
        (Says::ToCall(&[1, 0, 0, 0, 1]), "is no NFS server"),
    ];
    for (says, said) in cases {
        let ended = run(bench("anf", listening(says), &prefix).args(["--quick", "--flavors", "sys"]));
        assert_eq!(ended.status.code(), Some(FAILED), "{ended:?}");
        assert!(
            ended.stderr.contains("nothing can be measured") && ended.stderr.contains(said),
            "{said}: {}",
            ended.stderr
        );
    }
    assert!(!prefix.with_extension("json").exists());
}

#[test]
fn without_a_kdc_and_with_a_ticket_whose_time_is_over_the_kerberos_flavors_are_left_out_with_a_cure() {
    in_world(|world| {
        fs::set_permissions(world.export(), fs::Permissions::from_mode(0o777)).expect("it is ours");
        let server = world.server().start();
        world.identity("alice", Flavor::Krb5p);
        let (plan, prefix) = (world.path("plan.toml"), world.path("report"));
        let text = "flavors = [\"sys\", \"krb5p\"]\nrepetitions = 1\nseconds = 0.05\nfile_size_mib = 1\n[[case]]\nname = \"a\"\nkind = \"random\"\n";
        fs::write(&plan, text).expect("the folder is ours");
        let conf = fs::read_to_string(world.realm.krb5_conf()).expect("the realm has one");
        let nobody = |line: &str| match line.trim_start().starts_with("kdc =") {
            true => "kdc = 127.0.0.1:1\n".to_owned(),
            false => format!("{line}\n"),
        };
        let other = world.path("krb5.conf");
        fs::write(&other, conf.lines().map(nobody).collect::<String>()).expect("the folder is ours");
        let short = world.path("ticket-short");
        let keytab = world.realm.users_keytab();
        world.realm.kinit_with("alice", &short, &keytab, &["-l", "1s"]).expect("the KDC gives a ticket");
        // Its second has to pass.
        std::thread::sleep(Duration::from_millis(1500));
        for (conf, ticket, cause, cure) in [
            (&other, world.path("ticket-alice"), "no KDC of the realm answers", "krb5.conf"),
            (&world.realm.krb5_conf(), short, "has expired", "kinit"),
        ] {
            let mut command = orthrus(["bench", "run"]);
            command.arg(&plan).args(["127.0.0.1:/export", "--port", &server.port().to_string()]);
            command.arg("--ccache").arg(format!("FILE:{}", ticket.display())).arg("--output").arg(&prefix);
            let ended = run(command.env("KRB5_CONFIG", conf));
            assert_eq!(ended.status.code(), Some(LEFT_OUT), "{ended:?}");
            let found = record(&prefix);
            let reason = found["left_out"][0]["reason"].as_str().expect("a reason");
            assert!(reason.contains(cause) && reason.contains(cure), "{reason}");
            assert!(found["cases"][0]["figures"]["rate"]["median"].as_f64() > Some(0.0), "{found}");
        }
    });
}

/// A plan whose first load needs no room once its files exist, and whose second makes files.
fn roomy_then_not(flavors: &str) -> String {
    format!(
        "flavors = {flavors}\nrepetitions = 3\nseconds = 0.2\nfile_size_mib = 1\n\
         [[case]]\nname = \"in place\"\nkind = \"random\"\nwrites = 50\n[[case]]\nname = \"more files\"\nkind = \"git\"\n"
    )
}

fn wait_for_record(prefix: &Path, child: &mut Child) {
    let end = Instant::now() + BEGIN_MAX;
    while !prefix.with_extension("json").exists() {
        let runs = child.try_wait().expect("it is a child").is_none();
        assert!(runs && Instant::now() < end, "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Takes all the room that there is.
fn fill(folder: &Path) {
    let file = fs::File::options().create(true).append(true).open(folder.join("full"));
    let mut file = file.expect("it is ours");
    for piece in [vec![1; 64 << 10], vec![1; 4096]] {
        while file.write_all(&piece).is_ok() {}
    }
}

/// RFC 8881 section 15.1.4.8: NFS4ERR_NOSPC.
#[test]
fn a_servers_disk_that_fills_up_fails_the_cases_that_write_and_keeps_other_results() {
    if !is_root() {
        return eprintln!("skipped: only root can mount a small disk");
    }
    in_own_mounts(|| {
        let folder = empty_folder();
        let disk = Disk::tmpfs(folder.path(), "export", 16 << 20);
        let server = Serve::new(folder.path().join("state"))
            .args(["--sec", "sys", "--squash", "none"])
            .arg(disk.path())
            .start();
        let (plan, prefix) = (folder.path().join("plan.toml"), folder.path().join("report"));
        fs::write(&plan, roomy_then_not("[\"sys\"]")).expect("the folder is ours");
        let mut command = orthrus(["bench", "run"]);
        command.arg(&plan).args(["127.0.0.1:/export", "--port", &server.port().to_string()]);
        command.arg("--output").arg(&prefix).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        wait_for_record(&prefix, &mut child);
        let done = AtomicBool::new(false);
        let ended = std::thread::scope(|scope| {
            // The free space that the bench makes is taken as well.
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    fill(disk.path());
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let ended = run_within(child, Duration::from_secs(60));
            done.store(true, Ordering::Relaxed);
            ended
        });
        assert_eq!(ended.status.code(), Some(LEFT_OUT), "{ended:?}");
        let found = record(&prefix);
        assert_eq!(
            (&found["left_out"][0]["group"], found["left_out"].as_array().map(Vec::len)),
            (&"more files".into(), Some(1))
        );
        let reason = found["left_out"][0]["reason"].as_str().expect("a reason");
        assert!(reason.contains("NFS4ERR_NOSPC") && reason.contains("the server is full"), "{reason}");
        assert!(ended.stdout.contains("NFS4ERR_NOSPC"), "{}", ended.stdout);
        assert!(found["cases"][0]["figures"].is_object() && found["cases"][1]["figures"].is_null());
    });
}

#[test]
fn a_report_whose_disk_is_full_goes_elsewhere_and_the_old_one_stays() {
    if !is_root() {
        return eprintln!("skipped: only root can mount a small disk");
    }
    in_own_mounts(|| {
        let folder = empty_folder();
        let disk = Disk::tmpfs(folder.path(), "reports", 64 << 10);
        let temporary = folder.path().join("tmp");
        fs::create_dir(&temporary).expect("the folder is ours");
        let server = Serve::new(folder.path().join("state")).args(["--memory", "64", "--sec", "sys"]).start();
        let prefix = disk.path().join("report");
        let old = prefix.with_extension("json");
        fs::write(&old, "an old report").expect("there is room for that");
        fill(disk.path());
        let mut command =
            orthrus(["bench", "nconnect", "127.0.0.1:/memory", "--port", &server.port().to_string()]);
        command
            .args(["--flavors", "sys", "--repetitions", "1", "--time", "1s", "--file-size", "1", "--output"])
            .arg(&prefix);
        let ended = run(command.env("TMPDIR", &temporary));
        assert_eq!(ended.status.code(), Some(FAILED), "{ended:?}");
        let named = old.to_str().expect("it has no other characters");
        assert!(
            ended.stderr.contains(named) && ended.stderr.contains("No space left on device"),
            "{}",
            ended.stderr
        );
        assert!(ended.stderr.contains("--output") && ended.stdout.contains("16 connections"), "{ended:?}");
        assert_eq!(fs::read_to_string(&old).expect("it is there"), "an old report");
        let within = |folder: &Path| -> Vec<PathBuf> {
            fs::read_dir(folder).expect("it is there").flatten().map(|entry| entry.path()).collect()
        };
        let kept = within(within(&temporary).first().expect("a private folder"));
        let json =
            kept.iter().find(|path| path.extension().is_some_and(|end| end == "json")).expect("a record");
        assert_eq!(record(json)["complete"], true);
        assert!(
            kept.len() == 4 && ended.stderr.contains(json.to_str().expect("a name")),
            "{kept:?}: {}",
            ended.stderr
        );
    });
}

#[test]
fn an_incomplete_report_is_not_resumed() {
    let folder = empty_folder();
    let (file, prefix) = (folder.path().join("begun.json"), folder.path().join("report"));
    let head = r#"{"schema": "orthrus-bench/2", "evaluation": "anf", "title": "#;
    for (text, said) in [
        (head, "cut off in the middle"),
        ("", "no report of orthrus bench"),
        (r#"{"name": "another's"}"#, "no report of orthrus bench"),
        (r#"{"schema": "orthrus-bench/2"}"#, "damaged"),
    ] {
        fs::write(&file, text).expect("the folder is ours");
        let ended: Ended = run(bench("anf", 1, &prefix).args(["--flavors", "sys", "--resume"]).arg(&file));
        assert_eq!(ended.status.code(), Some(FAILED), "{ended:?}");
        assert!(
            ended.stderr.contains(said) && ended.stderr.contains("begun.json"),
            "{said}: {}",
            ended.stderr
        );
        assert_eq!(fs::read_to_string(&file).expect("it is there"), text);
    }
}
