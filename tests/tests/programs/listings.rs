//! `orthrus clients`, `opens`, `locks` and `delegations`, of a server with a client.

use client::{Client, OpenHow, Options, Security};
use e2e::{Ended, Serve, empty_folder, nobody, orthrus, run};
use nfs4::NfsLockType4;
use serde_json::Value;
use std::fs;
use std::path::Path;

fn ask(state: &Path, arguments: &[&str]) -> Ended {
    run(orthrus(arguments).arg("--state-dir").arg(state))
}

fn rows(state: &Path, kind: &str) -> Vec<Value> {
    let ended = ask(state, &[kind, "--json"]);
    assert!(ended.status.success(), "{ended:?}");
    let report: Value = serde_json::from_str(&ended.stdout).expect("it is JSON");
    assert_eq!(report["left_out"], 0);
    report["rows"][kind].as_array().expect("a list").clone()
}

#[test]
fn an_administrator_finds_out_who_locks_a_file() {
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
    assert!(rows(&state, "delegations").is_empty());

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
fn a_listing_without_a_server_says_so_and_others_may_not_ask() {
    let folder = empty_folder();
    let state = folder.path().join("state");
    let server = Serve::new(&state).args(["--memory", "1", "--sec", "sys"]).start();
    let refused = run(nobody(["clients", "--state-dir"]).arg(&state));
    assert!(!refused.status.success() && refused.stderr.contains("Permission denied"), "{refused:?}");
    drop(server);
    let alone = ask(&state, &["clients"]);
    assert!(!alone.status.success() && alone.stderr.contains("no server runs in"), "{alone:?}");
}
