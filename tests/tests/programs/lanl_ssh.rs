//! `orthrus bench lanl --scp`: copies over SSH to another host, here an SSH server of the test; and
//! messages about missing programs.

use bench::mounted::{CopyProgram, Sshd};
use e2e::{empty_folder, is_installed, orthrus, run, run_within};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A folder that is measured as if it were a mount, and one at "another host".
struct LanlFolders {
    folder: TempDir,
    sshd: Sshd,
}

impl LanlFolders {
    /// None, with the reason, where a program is missing.
    fn new() -> Option<Self> {
        let needed = ["sshd", "ssh-keygen", "scp", "sftp"]
            .map(|name| is_installed(name, if name == "sshd" { "openssh-server" } else { "openssh-client" }));
        if needed.contains(&false) {
            return None;
        }
        let folder = empty_folder();
        for name in ["mount", "there", "tmp"] {
            fs::create_dir(folder.path().join(name)).expect("the folder is ours");
        }
        Some(Self { folder, sshd: Sshd::start(None).expect("it starts") })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, host: &str, arguments: &[&str]) -> Command {
        let ssh = self.sshd.way(CopyProgram::Scp);
        let mut command = orthrus(["bench", "lanl", "--any-file-system", "--scale", "0.0002"]);
        command.arg("--mount").arg(format!("sys={}", self.path("mount").display()));
        command.arg("--scp").arg(format!("{host}:{}", self.path("there").display()));
        command.arg("--ssh-config").arg(ssh.config.expect("it has one"));
        command.args(arguments).arg("--output").arg(self.path("report")).env("TMPDIR", self.path("tmp"));
        command
    }

    fn record(&self) -> Value {
        let text = fs::read_to_string(self.path("report.json")).expect("the report is written");
        serde_json::from_str(&text).expect("it is JSON")
    }

    fn check_clean(&self) {
        for name in ["mount", "there", "tmp"] {
            let left = fs::read_dir(self.path(name)).expect("it is there");
            let left: Vec<_> = left.flatten().map(|entry| entry.path()).collect();
            assert!(left.is_empty(), "something stays: {left:?}");
        }
    }
}

#[test]
fn lanl_copies_to_another_host_by_scp_and_by_sftp_and_leaves_nothing_there() {
    let Some(place) = LanlFolders::new() else { return };
    let host = place.sshd.way(CopyProgram::Scp).host;
    for program in ["scp", "sftp"] {
        let plan = ["--repetitions", "1", "--parts", "small", "--with", program];
        let ended = run(&mut place.command(&host, &plan));
        assert!(ended.status.success(), "{ended:?}");
        let record = place.record();
        assert_eq!(record["complete"], true, "{}", record["left_out"]);
        for case in record["cases"].as_array().expect("a list") {
            assert!(case["figures"]["rate"]["median"].as_f64() > Some(0.0), "{case}");
            if case["side"] == "scp" {
                assert!(
                    case["figures"]["client_cpu"].is_object() && case["figures"]["server_cpu"].is_null(),
                    "{case}"
                );
            }
        }
        let text = fs::read_to_string(place.path("report.md")).expect("it is written");
        assert!(text.contains(&format!("were made by {program} to {host}:")), "{text}");
        place.check_clean();
    }
}

#[test]
fn an_interrupted_copy_to_another_host_leaves_nothing_there() {
    let Some(place) = LanlFolders::new() else { return };
    let host = place.sshd.way(CopyProgram::Scp).host;
    let mut command = place.command(&host, &["--repetitions", "500", "--parts", "small,sizes"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let end = Instant::now() + Duration::from_secs(60);
    let copies = |folder: PathBuf| fs::read_dir(folder).is_ok_and(|mut found| found.next().is_some());
    let begun =
        || fs::read_dir(place.path("there")).expect("it is there").flatten().any(|one| copies(one.path()));
    while !begun() {
        assert!(Instant::now() < end, "nothing is copied");
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it runs");
    let ended = run_within(child, Duration::from_secs(60));
    assert!(!ended.status.success(), "{ended:?}");
    place.check_clean();
}

#[test]
fn a_host_that_does_not_let_us_in_is_said_to_before_anything_is_measured() {
    let Some(place) = LanlFolders::new() else { return };
    let ended = run(&mut place.command("nobody-of-that-name@127.0.0.1", &[]));
    assert!(!ended.status.success() && ended.stderr.contains("has to work without a question"), "{ended:?}");
    assert!(!place.path("report.json").exists());
    place.check_clean();
}

#[test]
fn missing_programs_are_named_with_their_packages() {
    let folder = empty_folder();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let plan = |kind: &str| {
        let text = format!(
            "flavors = [\"sys\"]\nrepetitions = 1\nseconds = 0.1\n[[case]]\nname = \"one\"\nkind = \"{kind}\"\n"
        );
        fs::write(path(kind), text).expect("the folder is ours");
        path(kind)
    };
    let (random, git, sys) = (plan("random"), plan("git"), format!("sys={}", folder.path().display()));
    let scp = format!("nobody@127.0.0.1:{}", folder.path().display());
    let on_folder = ["--any-file-system", "--mount", &sys];
    let tiny = ["lanl", "--scale", "0.0002"];
    let cases: [(&[&str], &str); 6] = [
        (&["run", &random], "apt install fio"),
        (&["run", &git], "apt install git"),
        (&["ontap"], "apt install fio"),
        (&["anf"], "apt install fio"),
        (&[&tiny[..], &["--no-scp"]].concat(), "apt install coreutils"),
        (&[&tiny[..], &["--scp", &scp]].concat(), "apt install openssh-client"),
    ];
    for (arguments, said) in cases {
        let mut command = orthrus(["bench"]);
        command.args(arguments).args(on_folder).arg("--output").arg(path("report")).env("PATH", "");
        let ended = run(&mut command);
        assert!(!ended.status.success() && ended.stderr.contains(said), "{arguments:?}: {ended:?}");
    }
    if nix::unistd::geteuid().is_root() && !Path::new("/usr/sbin/mount").exists() {
        let mut command = orthrus(["bench", "nconnect", "--mount", "127.0.0.1:/export"]);
        let ended = run(command.arg("--output").arg(path("report")).env("PATH", ""));
        assert!(ended.stderr.contains("apt install mount"), "{ended:?}");
    }
}
