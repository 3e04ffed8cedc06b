//! `orthrus lab`: the cluster behind NAT, up, used and gone.
//!
//! Skipped, with the reason, where a lab cannot run: not root, no user-mode Linux, no tap device,
//! no address translation.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use e2e::{Ended, empty_folder, orthrus, run, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Each node is a kernel: one lab at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The script that each node runs.
const SCRIPT: &str = r#"
. /lab/lib.sh
addressless() { as alice klist -a -n | grep -q 'Addresses: (none)' && ! as alice klist -a -n | grep -q 'Addresses: [^(]'; }
check "ticket" ticket alice
check "addressless" addressless
check "protected" grep -q ' /nfs/krb5p nfs4 .*sec=krb5p' /proc/mounts
check "alice writes" as alice sh -c "echo $NODE >/nfs/krb5p/alice/$NODE"
check "alice reads" as alice grep -q "$NODE" "/nfs/krb5p/alice/$NODE"
refused "bob has no ticket" "permission denied|key has expired|required key" as bob touch /nfs/krb5p/bob/file
finish
"#;

#[test]
fn nodes_of_one_image_are_clients_of_their_own_behind_one_address_and_nothing_stays() {
    // RFC 8881 section 2.4: the co_ownerid tells clients apart, not their addresses. RFC 4120
    // section 7.1: a ticket without addresses is good from all of them.
    let Some(_alone) = can_run() else { return };
    let above = empty_folder();
    let lab = TestLab::new(above.path());
    let before = machine(&lab.dir);
    assert_eq!(before, Vec::<String>::new());
    ok(&lab.run(&["up"], &["--nodes", "2"]));

    let script = above.path().join("script.sh");
    fs::write(&script, SCRIPT).expect("it is ours");
    let ended = ok(&lab.run(&["run"], &[&script.to_string_lossy()]));
    for node in ["node1", "node2"] {
        let lines = ended.lines().filter(|line| line.starts_with(node) && line.contains(" ok ")).count();
        assert_eq!(lines, 6, "{node}:\n{ended}");
    }
    for node in ["node1", "node2"] {
        let content = fs::read_to_string(lab.dir.join("export/alice").join(node)).expect("alice wrote it");
        assert_eq!(content.trim(), node);
    }

    let status: serde_json::Value =
        serde_json::from_str(&ok(&lab.run(&["status"], &["--json"]))).expect("it is JSON");
    assert_eq!(status["clients"], 2, "{status:#}");
    let peers = status["peers"].as_object().expect("addresses");
    assert_eq!(peers.keys().collect::<Vec<_>>(), ["10.77.1.1"], "all come from the head node");
    assert!(peers["10.77.1.1"].as_u64().is_some_and(|count| count >= 2), "{status:#}");
    // The nodes have no route to the outside.
    let outside = ok(&lab.run(&["shell", "server"], &["--", "ip", "route"]));
    assert!(!outside.contains("default") && !outside.contains("10.77.2."), "{outside}");

    let namespaces = namespaces_of(&lab.dir);
    assert!(namespaces.len() >= 5, "{namespaces:?}");
    ok(&lab.run(&["down"], &[]));
    assert_eq!(machine(&lab.dir), before);
    assert!(held(&namespaces).is_empty(), "namespaces are held: {:?}", held(&namespaces));
    assert!(!lab.dir.exists());
    assert!(ok(&lab.run(&["down"], &[])).contains("no lab"), "the second time there is nothing to do");
}

#[test]
fn a_lab_whose_start_is_interrupted_or_killed_leaves_no_process_and_no_mount() {
    let Some(_alone) = can_run() else { return };
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let above = empty_folder();
        let lab = TestLab::new(above.path());
        let mut up = lab.spawn_up();
        // In the middle: the nodes boot.
        until("the log is there", || lab.dir.join("node1.log").exists());
        let namespaces = namespaces_of(&lab.dir);
        kill(Pid::from_raw(up.id().try_into().expect("a process id")), signal).expect("it runs");
        assert!(!up.wait().expect("it is a child").success());
        if signal == Signal::SIGKILL {
            // The remaining processes end on their own.
            until("nothing is left", || machine(&lab.dir).is_empty());
        }
        ok(&lab.run(&["down"], &[]));
        assert_eq!(machine(&lab.dir), Vec::<String>::new(), "{signal}");
        assert!(held(&namespaces).is_empty(), "{signal}");
        assert!(!lab.dir.exists(), "{signal}");
    }
}

#[test]
fn a_folder_that_is_no_lab_is_refused_and_left_alone() {
    let above = empty_folder();
    let lab = TestLab::new(above.path());
    fs::create_dir(&lab.dir).expect("a new name");
    fs::write(lab.dir.join("letter"), "dear").expect("it is ours");
    for verb in ["down", "status"] {
        let ended = lab.run(&[verb], &[]);
        assert!(!ended.status.success() && ended.stderr.contains("no lab"), "{verb}: {}", ended.stderr);
    }
    assert!(lab.dir.join("letter").exists());
}

/// A lab in a folder of the test.
struct TestLab {
    dir: PathBuf,
}

impl TestLab {
    fn new(above: &Path) -> Self {
        Self { dir: above.join("lab") }
    }

    fn arguments(&self, verb: &[&str], more: &[&str]) -> Vec<String> {
        let dir = self.dir.display().to_string();
        let words = [&["lab"], verb, &["--dir", &dir], more].concat();
        words.into_iter().map(str::to_owned).collect()
    }

    fn run(&self, verb: &[&str], more: &[&str]) -> Ended {
        run(&mut orthrus(self.arguments(verb, more)))
    }

    fn spawn_up(&self) -> Child {
        let mut up = orthrus(self.arguments(&["up"], &["--nodes", "2"]));
        up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts")
    }
}

impl Drop for TestLab {
    fn drop(&mut self) {
        let _ = self.run(&["down"], &[]);
    }
}

/// Skips the test, with the reason, where a lab cannot run.
fn can_run() -> Option<MutexGuard<'static, ()>> {
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let ended = run(&mut orthrus(["lab", "up", "--check", "--nodes", "2"]));
    match ended.status.success() {
        true => Some(alone),
        false => {
            println!("skipped: the lab: {}", ended.stderr.trim());
            None
        }
    }
}

fn ok(ended: &Ended) -> String {
    assert!(ended.status.success(), "{}\n{}\n{}", ended.status, ended.stdout, ended.stderr);
    ended.stdout.clone()
}

/// All on the machine that belongs to the lab in `dir`: processes, mounts, links, rules.
fn machine(dir: &Path) -> Vec<String> {
    let dir = dir.display().to_string();
    let mut all: Vec<String> = processes(&dir).iter().map(|pid| format!("process {pid}")).collect();
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let mounts = read("/proc/self/mountinfo");
    all.extend(mounts.lines().filter(|line| line.contains(&dir)).map(|line| format!("mount {line}")));
    let links = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let names = links.map(|link| link.file_name().to_string_lossy().into_owned());
    let own = ["enterprise", "cluster", "node1", "node2"];
    all.extend(names.filter(|name| own.contains(&name.as_str())).map(|name| format!("link {name}")));
    let rules = std::process::Command::new("nft").args(["list", "tables"]).output();
    let rules = rules.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    all.extend(rules.lines().filter(|line| *line == "table ip lab").map(str::to_owned));
    all
}

/// Returns the processes whose command names the lab's folder, except those of the command line
/// that work on it.
fn processes(dir: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names_it = |pid: &String| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        pid.bytes().all(|byte| byte.is_ascii_digit()) && String::from_utf8_lossy(&command).contains(dir)
    };
    pids.filter(names_it).collect()
}

/// The namespaces of the lab's processes that are not ours.
fn namespaces_of(dir: &Path) -> BTreeSet<String> {
    let own: BTreeSet<String> = namespaces("self").collect();
    let pids = processes(&dir.display().to_string());
    pids.iter().flat_map(|pid| namespaces(pid)).filter(|namespace| !own.contains(namespace)).collect()
}

fn namespaces(pid: &str) -> impl Iterator<Item = String> + use<> {
    let pid = pid.to_owned();
    let link = move |kind| fs::read_link(format!("/proc/{pid}/ns/{kind}"));
    ["net", "mnt", "pid", "uts", "ipc"]
        .into_iter()
        .filter_map(move |kind| link(kind).ok())
        .map(|path| path.display().to_string())
}

/// Returns the namespaces of `namespaces_then` that a process of this machine is still in. A
/// process that has ended is in none, even before its parent waits for it.
fn held(namespaces_then: &BTreeSet<String>) -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let alive = |pid: &String| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
    };
    pids.filter(alive)
        .flat_map(|pid| namespaces(&pid))
        .filter(|namespace| namespaces_then.contains(namespace))
        .collect()
}
