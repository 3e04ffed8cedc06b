//! The Linux kernel's own client against the server: the jobs of `lab/`, each in a guest of its own.
//!
//! Skipped, with the reason, where the lab cannot run: not root, no user-mode Linux, no tap device.
//! `ORTHRUS` names the program to test; without it the program is built. `lab/run.sh --help` runs jobs by hand.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The lab's exit status on a machine that cannot run it.
const CANNOT_RUN: i32 = 77;

/// A guest has a processor and a GiB of memory: one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn who_has_no_right_or_no_ticket_is_refused() {
    // RFC 8881 section 2.6: the flavors that an export allows, and what each user may.
    run("access", &[], 34);
}

#[test]
fn a_repository_is_cloned_copied_and_locked_with_each_flavor_and_nconnect() {
    // RFC 8881 sections 2.10.3 (connections of a session) and 9 (locks); RFC 2203 (flavors).
    run("mounts", &["FILES_IN_REPOSITORY=600"], 8 * 20);
}

#[test]
fn a_repository_of_2400_files_is_cloned_and_copied_with_privacy_over_eight_connections() {
    run("mounts", &["FLAVORS=krb5p", "CONNECTIONS=8"], 20);
}

#[test]
fn ten_thousand_small_files_come_back_as_they_were_written() {
    run("small-files", &["FLAVORS=krb5p"], 6);
}

#[test]
fn small_files_come_back_as_they_were_written_with_each_flavor() {
    run("small-files", &["FLAVORS=sys krb5 krb5i", "FILES=1000"], 3 * 6);
}

#[test]
fn a_copy_outlives_a_server_that_is_killed_in_the_middle_of_it() {
    // RFC 8881 sections 8.4.2 (restart, reclaim) and 18.3 (COMMIT and the write verifier).
    run("crash", &[], 4 * 4);
}

#[test]
fn a_delegation_saves_opens_and_is_given_back_when_another_client_writes() {
    // RFC 8881 section 10.4
    run("delegations", &[], 8 * 10 + 2);
}

#[test]
fn two_clients_share_files_and_folders_with_each_flavor_and_nconnect() {
    // RFC 8881 sections 9.1 (locks and data), 10.3 (what a client may believe), 18.25 and 18.26 (REMOVE and RENAME of open files)
    run("sharing", &[], 8 * 15);
}

#[test]
fn each_of_fifty_thousand_names_comes_once_while_another_client_changes_their_folder() {
    // RFC 8881 section 18.23.3
    run("many", &[], 1 + 4 * 4);
}

#[test]
fn a_client_of_4_0_clones_locks_and_reclaims_beside_one_of_4_2() {
    // RFC 7530 sections 9.1 (owners), 9.4 (locks) and 9.6.2 (reclaim). The other flavors by hand: each waits for a grace period.
    run("minor0", &["FLAVORS=sys krb5p", "FILES_IN_REPOSITORY=300"], 2 * 25);
}

#[test]
fn holes_copies_extended_attributes_and_lists_are_what_programs_make_them() {
    // RFC 7862 section 15, RFC 8276 section 8.4, RFC 8881 section 6
    run("minor2", &[], 8 * 25);
}

#[test]
fn lists_of_hundreds_of_users_are_told_as_they_were_set_with_integrity_and_privacy() {
    // RFC 8881 section 6.2.1
    run("acls", &[], 2 * 2 * 23);
}

#[test]
fn clones_share_their_blocks_where_the_file_system_can() {
    // RFC 7862 section 15.13
    run_on("xfs", "clone", &[], 8 * 8);
    run_on("btrfs", "clone", &["FLAVORS=krb5p", "CONNECTIONS=8"], 8);
}

#[test]
fn random_writes_cuts_holes_and_copies_leave_what_they_leave_on_a_local_file() {
    // RFC 8881 sections 18.22 and 18.32, RFC 7862 sections 15.1, 15.2 and 15.4
    run("random", &[], 8 * 5);
}

#[test]
fn the_bench_measures_folders_that_are_mounted_and_mounts_of_its_own() {
    run("bench", &[], 36);
}

#[test]
fn requests_of_one_context_over_sixteen_connections_are_all_answered() {
    // RFC 2203 section 5.3.3.1 (the sequence window); RFC 8881 section 2.10.3 (connections of a session).
    run("nconnect", &[], 2 * 5 * 4 + 1);
}

/// Runs a job of the lab with settings and prints its lines; at least so many must say `ok`, and none `FAIL`.
fn run(job: &str, settings: &[&str], ok_min: usize) {
    run_on("disk", job, settings, ok_min);
}

/// As [`run`], with the exports on another file system.
fn run_on(file_system: &str, job: &str, settings: &[&str], ok_min: usize) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let program = match std::env::var_os("ORTHRUS") {
        Some(program) => PathBuf::from(program),
        None => built(&root),
    };
    // What the lab says of itself comes between the lines of its jobs.
    let mut lab = Command::new("sh")
        .args(["-c", "exec \"$0\" \"$@\" 2>&1"])
        .arg(root.join("lab/run.sh"))
        .args(["--time-limit", "1200", "--export-on", file_system, "--orthrus"])
        .arg(program)
        .args(settings.iter().flat_map(|setting| ["--set", setting]))
        .arg(job)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("lab/run.sh starts");
    let (mut ok, mut failed, mut why) = (0, Vec::new(), String::new());
    for line in BufReader::new(lab.stdout.take().expect("a pipe")).lines().map_while(Result::ok) {
        println!("{line}");
        if line.starts_with("ok ") {
            ok += 1;
        } else if line.starts_with("FAIL ") {
            failed.push(line);
        } else if let Some(reason) = line.strip_prefix("lab: cannot run here: ") {
            why = reason.to_owned();
        }
    }
    let status = lab.wait().expect("lab/run.sh ends");
    if status.code() == Some(CANNOT_RUN) {
        return println!("skipped: {job} with the Linux client: {why}");
    }
    assert!(failed.is_empty(), "{} of {job} failed:\n{}", failed.len(), failed.join("\n"));
    assert!(status.success(), "the lab ended with {status}");
    assert!(ok >= ok_min, "only {ok} lines say ok, {ok_min} or more were expected");
}

/// Builds the program as this test was built, and returns where it is.
fn built(root: &Path) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let folder = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST").to_owned();
    let target = folder.parent().expect("target/PROFILE").to_owned();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package", "orthrus", "--target-dir"]).arg(&target).current_dir(root);
    if folder.file_name().is_some_and(|profile| profile == "release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("cargo starts").success(), "the program does not build");
    folder.join("orthrus")
}
