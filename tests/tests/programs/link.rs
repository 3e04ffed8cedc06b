//! `orthrus bench` over a link of a stated rate, and its message where it cannot make one.

use e2e::{Ended, empty_folder, is_installed, orthrus, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const PLAN: &str = "title = \"a plan\"\nflavors = [\"sys\", \"krb5p\"]\nrepetitions = 1\nseconds = 0.05\nfile_size_mib = 1\n\
                    [[case]]\nname = \"reads\"\nkind = \"sequential\"\ndepth = 8\n";

fn bench(plan: &str, link: &str, folder: &Path) -> Command {
    fs::write(folder.join("plan.toml"), plan).expect("a plan");
    let mut command = orthrus(["bench", "run"]);
    command.arg(folder.join("plan.toml")).args(["--link", link]).arg("--output").arg(folder.join("report"));
    // A bench that is killed leaves its files.
    let temporary = folder.join("tmp");
    fs::create_dir_all(&temporary).expect("the folder is ours");
    command.env("TMPDIR", temporary);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns whether a link can be made here, and otherwise why the test is skipped.
fn can(ended: &Ended) -> bool {
    let reasons = ["--link needs root", "is not installed", "this kernel"];
    if !ended.status.success() && reasons.iter().any(|reason| ended.stderr.contains(reason)) {
        eprintln!("skipped: {}", ended.stderr.trim());
        return false;
    }
    true
}

/// The network namespaces that processes are in.
fn namespaces() -> BTreeSet<PathBuf> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    processes.filter_map(|process| fs::read_link(process.path().join("ns/net")).ok()).collect()
}

#[test]
fn the_report_names_the_link_that_the_run_had() {
    let folder = empty_folder();
    let ended = run(&mut bench(PLAN, "1gbit", folder.path()));
    if !can(&ended) {
        return;
    }
    assert!(ended.status.success(), "{}\n{}", ended.stdout, ended.stderr);
    let text = fs::read_to_string(folder.path().join("report.json")).expect("the record is written");
    let record: Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(record["environment"]["link"]["bits_per_second"], 1_000_000_000);
    let limits = record["limits"].as_array().expect("a list");
    let link = limits.iter().find(|limit| limit["name"] == "link").expect("the link is among the limits");
    assert!(link["value"].as_f64().is_some_and(|rate| rate < 140.0), "{link}");
    assert!(limits.iter().any(|limit| limit["name"] == "link round trip"));
    for case in record["cases"].as_array().expect("a list") {
        let rate = case["figures"]["rate"]["median"].as_f64().expect("a rate");
        assert!(rate < 160.0, "a burst beyond the rate at most: {case}");
    }
    let page = fs::read_to_string(folder.path().join("report.html")).expect("the page is written");
    assert!(page.contains("over a link of 1\u{202f}Gbit/s"));
}

#[test]
fn nothing_stays_of_a_link_when_its_process_is_killed() {
    let (folder, before) = (empty_folder(), namespaces());
    if !geteuid().is_root() {
        return eprintln!("skipped: a link needs root");
    }
    let long = PLAN.replace("0.05", "60.0");
    let mut child = bench(&long, "1gbit", folder.path()).spawn().expect("it starts");
    let inside = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    // Until the servers are there it makes progress, or says why it cannot.
    let own = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return eprintln!("skipped: no link can be made here ({status})");
        }
        match inside(child.id()).filter(|own| !before.contains(own)) {
            Some(own) if namespaces().difference(&before).count() > 1 => break own,
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL).expect("it runs");
    child.wait().expect("it has ended");
    let gone = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        !namespaces().contains(&own)
    });
    assert!(gone, "something stays in the client's network namespace");
}

#[test]
fn an_impossible_link_is_refused_before_the_measurement() {
    let folder = empty_folder();
    let ended = run(&mut bench(PLAN, "10parsec", folder.path()));
    assert!(!ended.status.success() && ended.stderr.contains("such as 1gbit"), "{}", ended.stderr);
    let ended = run(bench(PLAN, "1gbit", folder.path()).arg("localhost:/data"));
    assert!(!ended.status.success() && ended.stderr.contains("a server of one's own"), "{}", ended.stderr);
    if !is_installed("tc", "iproute2") {
        return;
    }
    // Where the kernel has netem this is a short run over a link with a delay.
    let ended = run(&mut bench(PLAN, "10gbit,100us", folder.path()));
    let said = ["netem", "--link needs root"].iter().any(|word| ended.stderr.contains(word));
    assert!(ended.status.success() || said, "{}", ended.stderr);
}
