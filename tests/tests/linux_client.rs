//! The Linux kernel's own client against the server: the jobs of `tests/linux/`, each in its own
//! guest.
//!
//! All of them run with the kernel of Debian 12, 6.1, and a part with the newer ones that
//! `scripts/debian.sh` unpacks.
//!
//! Skipped, with the reason, where the lab cannot run: not root, no user-mode Linux, no tap device,
//! no mirror of Debian. `ORTHRUS` names the program to test; without it the program is built.
//! `tests/linux/run.sh --help` runs jobs by hand.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};

/// The lab's exit status on a machine that cannot run it.
const CANNOT_RUN: i32 = 77;

#[test]
fn callers_without_a_right_or_a_ticket_are_refused() {
    // RFC 8881 section 2.6: the flavors of an export, and the permissions of each user.
    run("access", &[], 34);
}

#[test]
fn a_repository_is_cloned_copied_and_locked_with_each_flavor_and_nconnect() {
    // RFC 8881 sections 2.10.3 (connections of a session) and 9 (locks); RFC 2203 (flavors).
    run("mounts", &["FILES_IN_REPOSITORY=240"], 8 * 20);
}

#[test]
#[ignore = "takes 2 minutes: cargo test -p e2e --test linux_client 2400 -- --ignored"]
fn a_repository_of_2400_files_is_cloned_and_copied_with_privacy_over_eight_connections() {
    run("mounts", &["FLAVORS=krb5p", "CONNECTIONS=8"], 20);
}

#[test]
#[ignore = "takes 2 minutes: cargo test -p e2e --test linux_client ten_thousand -- --ignored"]
fn ten_thousand_small_files_come_back_as_they_were_written() {
    run("small-files", &["FLAVORS=krb5p"], 6);
}

#[test]
fn small_files_come_back_as_they_were_written_with_each_flavor() {
    run("small-files", &["FILES=400"], 4 * 6);
}

#[test]
fn a_copy_outlives_a_server_that_is_killed_in_the_middle_of_it() {
    // RFC 8881 sections 8.4.2 (restart, reclaim) and 18.3 (COMMIT and the write verifier).
    run("crash", &[], 4 * 4);
}

#[test]
fn programs_work_through_upgrades_to_the_next_version_and_back() {
    // RFC 8881 sections 2.10.6 (each operation once), 2.10.13.1 (connections), 9 (locks); RFC 2203
    // (contexts). `cargo xtask upgrade` makes a hundred.
    run(UPGRADE, &["ROUNDS=4"], 10);
}

#[test]
fn a_delegation_saves_opens_and_is_given_back_when_another_client_writes() {
    // RFC 8881 section 10.4
    run("delegations", &[ALTERNATE], 4 * 10 + 2);
}

#[test]
fn two_clients_share_files_and_folders_with_each_flavor_and_nconnect() {
    // RFC 8881 sections 9.1 (locks and data), 10.3 (the client's cache), 18.25 and 18.26 (REMOVE
    // and RENAME of open files)
    run("sharing", &[ALTERNATE], 4 * 15);
}

#[test]
fn each_of_fifty_thousand_names_comes_once_while_another_client_changes_their_folder() {
    // RFC 8881 section 18.23.3
    run("many", &[], 1 + 4 * 4);
}

#[test]
fn a_client_of_4_0_clones_locks_and_reclaims_beside_one_of_4_2() {
    // RFC 7530 sections 9.1 (owners), 9.4 (locks) and 9.6.2 (reclaim). The other flavors by hand:
    // each waits for a grace period.
    run("minor0", &["FLAVORS=sys krb5p", "FILES_IN_REPOSITORY=150"], 2 * 25);
}

#[test]
fn holes_copies_extended_attributes_and_lists_are_as_programs_made_them() {
    // RFC 7862 section 15, RFC 8276 section 8.4, RFC 8881 section 6
    run("minor2", &[ALTERNATE], 4 * 25);
}

#[test]
fn lists_of_hundreds_of_users_are_returned_as_set_with_integrity_and_privacy() {
    // RFC 8881 section 6.2.1
    run("acls", &[], 2 * 2 * 23);
}

#[test]
fn clones_share_their_blocks_where_the_file_system_can() {
    // RFC 7862 section 15.13
    LabRun { file_system: "xfs", settings: &[ALTERNATE], jobs: &["clone"], ok_min: 4 * 8, ..LabRun::DEFAULT }
        .run();
    let settings = &["FLAVORS=krb5p", "CONNECTIONS=8"];
    LabRun { file_system: "btrfs", settings, jobs: &["clone"], ok_min: 8, ..LabRun::DEFAULT }.run();
}

#[test]
fn random_writes_truncations_holes_and_copies_give_the_same_file_as_on_a_local_disk() {
    // RFC 8881 sections 18.22 and 18.32, RFC 7862 sections 15.1, 15.2 and 15.4
    run("random", &[ALTERNATE], 4 * 5);
}

#[test]
fn bench_measures_folders_that_are_mounted() {
    run("bench", &[], 21);
}

#[test]
fn bench_measures_mounts_of_its_own() {
    run("bench-mounts", &[], 17);
}

#[test]
fn a_referral_mounts_another_server_and_two_addresses_of_one_are_trunked() {
    // RFC 8881 sections 11.5.6 (referrals) and 11.5.2 (trunking); RFC 7530 section 8.4.3.
    run("referrals", &[], 67);
}

#[test]
fn requests_of_one_context_over_sixteen_connections_are_all_answered() {
    // RFC 2203 section 5.3.3.1 (the sequence window); RFC 8881 section 2.10.3 (connections of a
    // session).
    run("nconnect", &[], 2 * 5 * 4 + 1);
}

#[test]
fn a_client_and_a_local_program_keep_each_other_out_of_locked_ranges() {
    // RFC 8881 sections 18.10.4 (the content of LOCK4denied) and 9.6 (blocking locks)
    run("local-locks", &["FLAVORS=krb5p"], 13);
}

#[test]
fn jobs_of_slurm_outlive_ten_tickets_and_no_other_user_profits() {
    // RFC 2203 section 5.3.3.3 (contexts that expire), MS-SFU section 3.1.5
    LabRun { jobs: &["grants-slurm"], ok_min: 19, places: 2, ..LabRun::DEFAULT }.run();
}

#[test]
#[ignore = "takes 6 minutes: cargo test -p e2e --test linux_client page_from -- --ignored"]
fn the_page_from_empty_machines_to_a_job_works_word_for_word() {
    LabRun { script: "site.sh", ok_min: 43, places: 2, ..LabRun::DEFAULT }.run();
}

#[test]
fn linux_6_12_mounts_clones_and_locks_with_each_flavor() {
    on_newer_kernel("6.12");
}

#[test]
fn linux_7_mounts_clones_and_locks_with_each_flavor() {
    on_newer_kernel("7");
}

/// Kernels differ in the operations that they send and in the room that they leave for replies.
fn on_newer_kernel(kernel: &str) {
    let settings = &[ALTERNATE, "FILES_IN_REPOSITORY=120"];
    let jobs = &["access", "mounts", "delegations", "local-locks"];
    LabRun { kernel, jobs, settings, ok_min: 34 + 4 * 20 + 4 * 10 + 2 + 4 * 13, ..LabRun::DEFAULT }.run();
}

#[test]
fn linux_7_uses_the_encryption_types_of_rfc_8009() {
    // RFC 8009: 20 is aes256-cts-hmac-sha384-192, 19 is aes128-cts-hmac-sha256-128. Linux 6.1 and
    // 6.12 as Debian builds them offer neither.
    for (enctypes, flavors) in [("20", "FLAVORS=krb5 krb5i krb5p"), ("19", "FLAVORS=krb5p")] {
        let settings = &[flavors, ALTERNATE, "FILES_IN_REPOSITORY=120"];
        let cases = flavors.split(' ').count();
        LabRun { kernel: "7", enctypes, settings, jobs: &["mounts"], ok_min: cases * 20, ..LabRun::DEFAULT }
            .run();
    }
}

/// nconnect 1 and 8, in turn over the flavors, where not each combination is the point.
const ALTERNATE: &str = "CONNECTIONS=alternate";

/// The job that upgrades to the next version.
const UPGRADE: &str = "upgrade";

/// A guest has a processor and a GiB of memory.
const GUESTS_MAX: usize = 3;

/// The places that running guests take.
static GUESTS: Mutex<usize> = Mutex::new(0);
/// One of them has ended.
static GUEST_ENDED: Condvar = Condvar::new();

/// The right to run a guest, in so many of their places.
struct Guest(usize);

impl Guest {
    fn next(places: usize) -> Self {
        let mut guests = GUESTS.lock().unwrap_or_else(PoisonError::into_inner);
        while *guests + places > GUESTS_MAX {
            guests = GUEST_ENDED.wait(guests).unwrap_or_else(PoisonError::into_inner);
        }
        *guests += places;
        Self(places)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        *GUESTS.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        GUEST_ENDED.notify_all();
    }
}

/// A run of the lab: a guest that does its jobs.
struct LabRun<'a> {
    /// The script in tests/linux.
    script: &'a str,
    jobs: &'a [&'a str],
    /// How many lines say `ok` at least.
    ok_min: usize,
    settings: &'a [&'a str],
    /// The file system below the exports.
    file_system: &'a str,
    /// Empty: that of the system.
    kernel: &'a str,
    enctypes: &'a str,
    /// The guests that it counts for: more than one where tickets of seconds leave no time to wait
    /// for a processor.
    places: usize,
}

/// Runs a job of the lab with settings.
fn run(job: &str, settings: &[&str], ok_min: usize) {
    LabRun { jobs: &[job], ok_min, settings, ..LabRun::DEFAULT }.run();
}

impl LabRun<'_> {
    const DEFAULT: LabRun<'static> = LabRun {
        script: "run.sh",
        jobs: &[],
        ok_min: 1,
        settings: &[],
        file_system: "disk",
        kernel: "",
        enctypes: "sha1",
        places: 1,
    };

    /// Runs the jobs and prints their lines; as many as expected must say `ok`, and none `FAIL`.
    fn run(&self) {
        let _guest = Guest::next(self.places);
        let mut lab =
            self.command().stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the lab starts");
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
        let status = lab.wait().expect("the lab ends");
        let jobs = [&[self.script], self.jobs].concat().join(" ");
        if status.code() == Some(CANNOT_RUN) {
            return println!("skipped: {jobs} with the Linux client{}: {why}", self.kernel_named());
        }
        assert!(failed.is_empty(), "{} of {jobs} failed:\n{}", failed.len(), failed.join("\n"));
        assert!(status.success(), "the lab ended with {status}");
        assert!(ok >= self.ok_min, "only {ok} lines say ok, {} or more were expected", self.ok_min);
    }

    fn command(&self) -> Command {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let program = match std::env::var_os("ORTHRUS") {
            Some(program) => PathBuf::from(program),
            None => built(&root),
        };
        // The lab's own messages come between the lines of its jobs.
        let mut lab = Command::new("sh");
        lab.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(root.join("tests/linux").join(self.script));
        lab.args(["--time-limit", "1200", "--export-on", self.file_system, "--enctypes", self.enctypes]);
        if !self.kernel.is_empty() {
            lab.args(["--kernel", self.kernel]);
        }
        lab.arg("--orthrus").arg(program);
        if self.jobs.contains(&UPGRADE) {
            lab.env("ORTHRUS_NEXT", e2e::next_program());
        }
        lab.args(self.settings.iter().flat_map(|setting| ["--set", setting])).args(self.jobs);
        lab
    }

    fn kernel_named(&self) -> String {
        if self.kernel.is_empty() { String::new() } else { format!(", kernel {}", self.kernel) }
    }
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
