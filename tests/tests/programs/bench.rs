//! `orthrus bench quick` and `orthrus try` as a person runs them.

use client::Flavor;
use e2e::{Ended, World, empty_folder, in_world, is_installed, orthrus, run, run_within};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LOADS: [&str; 7] = [
    "Sequential read, 1 MiB",
    "Sequential write, 1 MiB",
    "Random read, 4 KiB, 64 in flight",
    "Random write, 4 KiB, 64 in flight",
    "Random read, 4 KiB, one at a time",
    "Random write, 4 KiB, one at a time",
    "Metadata mix",
];

/// The quickest plan there is.
const QUICK: [&str; 6] = ["--repetitions", "1", "--seconds", "0.05", "--file-size", "4"];

fn bench(arguments: &[&str], output: &Path) -> Command {
    let mut command = orthrus(["bench", "quick"]);
    command.args(arguments).arg("--output").arg(output);
    command
}

fn json(prefix: &Path) -> Value {
    let text = fs::read_to_string(prefix.with_extension("json")).expect("the report is written");
    serde_json::from_str(&text).expect("it is JSON")
}

/// Checks a report's form: the fields, the cases, and that the page has the same numbers.
fn check(prefix: &Path, flavors: &[&str]) -> Value {
    let report = json(prefix);
    assert_eq!((&report["schema"], &report["evaluation"]), (&"orthrus-bench/2".into(), &"quick".into()));
    for field in
        ["started_at", "target", "command", "settings", "complete", "environment", "left_out", "cases"]
    {
        assert!(!report[field].is_null(), "{field} is missing");
    }
    assert!(report["limits"].as_array().is_some_and(|limits| limits.len() == 7), "{}", report["limits"]);
    for open in ["csv", "md"] {
        assert!(fs::metadata(prefix.with_extension(open)).is_ok_and(|file| file.len() > 1000), "{open}");
    }
    let page = fs::read_to_string(prefix.with_extension("html")).expect("the page is written");
    assert!(!page.contains("http://") && !page.contains("https://"), "the page needs a network");
    let cases = report["cases"].as_array().expect("a list").iter();
    for case in cases.filter(|case| !case["figures"].is_null()) {
        assert!(flavors.iter().any(|flavor| case["side"] == *flavor), "{case}");
        let figures = &case["figures"];
        for figure in ["rate", "p50_us", "p99_us", "client_cpu"] {
            let median = figures[figure]["median"].as_f64();
            assert!(median.is_some_and(|number| number >= 0.0), "{figure}: {case}");
        }
        assert!(figures["rate"]["median"].as_f64() > Some(0.0), "{case}");
        let number = format!("data-rate=\"{}\"", figures["rate"]["median"]);
        assert!(page.contains(number.trim_end_matches(".0\"")), "{number} is not in the page");
    }
    report
}

fn check_whole(prefix: &Path, flavors: &[&str]) -> Value {
    let report = check(prefix, flavors);
    assert_eq!((&report["complete"], &report["stopped_by"]), (&Value::Bool(true), &Value::Null));
    for load in LOADS {
        for flavor in flavors {
            let cases = report["cases"].as_array().expect("a list").iter();
            let mut found = cases.filter(|case| case["group"] == load && case["side"] == *flavor);
            let case = found.next().unwrap_or_else(|| panic!("no case {load} {flavor}"));
            assert_eq!(case["figures"]["against"].is_null(), *flavor == "sys", "{load} {flavor}");
            assert!(found.next().is_none(), "{load} {flavor} twice");
        }
    }
    report
}

/// Opens the page in a browser, when there is one: the console stays silent and every chart has a
/// size.
fn check_in_browser(prefix: &Path, folder: &Path) {
    if Command::new("chromium").arg("--version").output().is_err() {
        return eprintln!("skipped: chromium is not installed");
    }
    let probe = "<script>const boxes=[...document.querySelectorAll('svg')].map(e=>e.getBoundingClientRect());\
        const out=document.createElement('pre');out.id='probe';\
        out.textContent=`charts=${boxes.length} empty=${boxes.filter(b=>!(b.width>0&&b.height>0)).length}.`;\
        document.body.append(out);</script>";
    let page = folder.join("page.html");
    let text = fs::read_to_string(prefix.with_extension("html")).expect("the page is written");
    fs::write(&page, text + probe).expect("the folder is ours");
    let flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"];
    let more = ["--disable-background-networking", "--disable-component-update", "--disable-sync"];
    let mut chromium = Command::new("chromium");
    chromium.args(flags).args(more).args(["--enable-logging=stderr", "--window-size=1280,900", "--dump-dom"]);
    chromium.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    let shown = run(chromium.arg(format!("file://{}", page.display())).stdin(Stdio::null()));
    assert!(!shown.stderr.contains("CONSOLE"), "the console speaks: {}", shown.stderr);
    let probe = shown.stdout.split("id=\"probe\">").nth(1).expect("the probe ran");
    let probe = probe.split('.').next().unwrap_or_default();
    assert!(probe.ends_with("empty=0") && !probe.starts_with("charts=0 "), "{probe}");
}

/// Returns the processes that have the variable `mark` in their environment: children of a process
/// that has ended have another parent.
fn processes_with(mark: &str) -> Vec<String> {
    let folders = fs::read_dir("/proc").expect("/proc is there").flatten().map(|entry| entry.path());
    let marked = folders.filter(|path| {
        fs::read(path.join("environ"))
            .is_ok_and(|text| text.windows(mark.len()).any(|part| part == mark.as_bytes()))
    });
    marked
        .filter_map(|path| fs::read_to_string(path.join("cmdline")).ok())
        .filter(|line| !line.is_empty())
        .collect()
}

fn ended_well(ended: &Ended) {
    assert!(ended.status.success(), "{}\n{}\n{}", ended.status, ended.stdout, ended.stderr);
}

#[test]
fn bench_quick_without_a_target_measures_all_flavors_and_leaves_a_report() {
    if !is_installed("krb5kdc", "krb5-kdc") {
        return;
    }
    let folder = empty_folder();
    let (prefix, temporary) = (folder.path().join("report"), folder.path().join("tmp"));
    fs::create_dir(&temporary).expect("the folder is ours");
    let mark = format!("ORTHRUS_E2E_MARK={}", folder.path().display());
    let ended = run(bench(&QUICK, &prefix).env("TMPDIR", &temporary).env("ORTHRUS_E2E_MARK", folder.path()));
    ended_well(&ended);
    check_whole(&prefix, &["sys", "krb5", "krb5i", "krb5p"]);
    for part in ["krb5p", "Sequential read, 1 MiB", "report.html", "report.json", "report.csv", "report.md"] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    check_in_browser(&prefix, folder.path());
    assert_eq!(fs::read_dir(&temporary).expect("it is there").count(), 0, "temporary files stay");
    assert_eq!(processes_with(&mark), [""; 0], "processes stay");
}

/// A bench of a server of this test's, as alice.
fn bench_of(world: &World, port: u16, plan: &[&str], output: &Path) -> Command {
    world.identity("alice", Flavor::Krb5p);
    let mut command = bench(&["127.0.0.1:/export", "--port", &port.to_string()], output);
    command.args(plan).arg("--ccache").arg(format!("FILE:{}", world.path("ticket-alice").display()));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn bench_quick_measures_another_server_and_names_a_flavor_that_is_refused() {
    in_world(|world| {
        // AUTH_SYS is called with this process' own numbers.
        fs::set_permissions(world.export(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .expect("it is ours");
        let server = world.server().args(["--sec", "krb5p,krb5i,sys"]).start();
        let prefix = world.path("report");
        let ended = run(&mut bench_of(world, server.port(), &QUICK, &prefix));
        assert_eq!(ended.status.code(), Some(3), "{ended:?}");
        let report = check_whole(&prefix, &["sys", "krb5i", "krb5p"]);
        assert_eq!(report["target"], format!("127.0.0.1:/export, port {}", server.port()));
        let left_out = report["left_out"].as_array().expect("a list");
        assert!(left_out.len() == 1 && left_out[0]["side"] == "krb5", "{left_out:?}");
        assert!(
            left_out[0]["reason"].as_str().is_some_and(|why| why.contains("NFS4ERR_WRONGSEC")),
            "{left_out:?}"
        );
        assert!(ended.stdout.contains("krb5 was left out"), "{}", ended.stdout);
        assert_eq!(
            fs::read_dir(world.export()).expect("it is there").count(),
            0,
            "the bench leaves its folders"
        );
    });
}

/// Some of it is measured after a few seconds, all of it after a quarter of a minute.
const LONG: [&str; 8] =
    ["--repetitions", "5", "--seconds", "0.1", "--file-size", "4", "--flavors", "sys,krb5p"];

/// Waits until a bench has stored the first results of its first load.
fn wait_until_it_has_measured(prefix: &Path, child: &mut Child) {
    let end = Instant::now() + Duration::from_secs(60);
    while !prefix.with_extension("json").exists() {
        assert!(
            child.try_wait().expect("it is a child").is_none() && Instant::now() < end,
            "it does not begin"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_interrupted_bench_keeps_its_results_cleans_up_and_can_be_resumed() {
    in_world(|world| {
        fs::set_permissions(world.export(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .expect("it is ours");
        let server = world.server().start();
        let prefix = world.path("report");
        let json = prefix.with_extension("json");
        let mut child = bench_of(world, server.port(), &LONG, &prefix).spawn().expect("it starts");
        wait_until_it_has_measured(&prefix, &mut child);
        kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it runs");
        let ended = run_within(child, Duration::from_secs(40));
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(&format!("--resume {}", json.display())), "{}", ended.stderr);
        let before = check(&prefix, &["sys", "krb5p"]);
        assert_eq!(
            (&before["complete"], &before["stopped_by"]),
            (&false.into(), &"it was interrupted".into())
        );
        assert!(!before["cases"][0]["figures"].is_null(), "nothing was kept");
        let left = fs::read_dir(world.export()).expect("it is there").count();
        assert_eq!(left, 0, "the bench leaves its folders");
        let mut again = bench_of(world, server.port(), &LONG, &prefix);
        ended_well(&run(again.arg("--resume").arg(&json)));
        let after = check_whole(&prefix, &["sys", "krb5p"]);
        assert_eq!(before["cases"][0]["samples"], after["cases"][0]["samples"]);
        let compared = run(orthrus(["bench", "compare"]).args([&json, &json]));
        assert!(compared.stdout.contains("Nothing differs significantly in 14 cases."), "{compared:?}");
        ended_well(&run(orthrus(["bench", "report"]).arg(&json)));
    });
}

#[test]
fn a_report_of_the_older_form_is_refused_with_what_helps() {
    let folder = empty_folder();
    let old = folder.path().join("old.json");
    fs::write(&old, r#"{"schema": "orthrus-bench/1", "command": "orthrus bench quick", "series": []}"#)
        .expect("the folder is ours");
    let old = old.to_str().expect("it has no other characters");
    for arguments in [&["compare", old, old][..], &["report", old], &["quick", "--resume", old]] {
        let ended = run(orthrus(["bench"]).args(arguments));
        assert!(!ended.status.success(), "{ended:?}");
        for said in [old, "orthrus-bench/1", "measure again: orthrus bench quick"] {
            assert!(ended.stderr.contains(said), "{arguments:?}: {}", ended.stderr);
        }
    }
}

#[test]
fn a_bench_of_nothing_says_why() {
    let folder = empty_folder();
    let prefix = folder.path().join("report");
    let cases = [
        (&["somewhere"][..], "HOST:/EXPORT"),
        (&["127.0.0.1:/export", "--port", "1", "--flavors", "sys"], "nothing can be measured"),
        (&["--flavors", "krb6"], "krb5p"),
        (&["--repetitions", "0"], "repetitions"),
    ];
    for (arguments, said) in cases {
        let ended = run(&mut bench(arguments, &prefix));
        assert!(!ended.status.success() && ended.stderr.contains(said), "{arguments:?}: {ended:?}");
    }
    assert!(!prefix.with_extension("json").exists());
}

/// Everything of a folder that must not change: names, owners, modes, sizes, times of change and
/// content.
fn picture(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut entries: Vec<_> =
        fs::read_dir(folder).expect("it is there").flatten().map(|e| e.path()).collect();
    entries.sort();
    for path in entries {
        let data = path.symlink_metadata().expect("it is there");
        lines.push(format!(
            "{} {:o} {} {} {}",
            path.display(),
            data.mode(),
            data.uid(),
            data.gid(),
            data.mtime_nsec()
        ));
        match data.is_dir() {
            true => lines.extend(picture(&path)),
            false => lines.push(format!("{:?}", fs::read(&path).expect("it is ours"))),
        }
    }
    lines
}

#[test]
fn try_does_everything_once_and_leaves_only_its_report() {
    if !is_installed("krb5kdc", "krb5-kdc") {
        return;
    }
    let folder = empty_folder();
    let (data, temporary) = (folder.path().join("data"), folder.path().join("tmp"));
    fs::create_dir_all(data.join("below")).expect("the folder is ours");
    fs::create_dir(&temporary).expect("the folder is ours");
    fs::write(data.join("below/file"), "precious").expect("the folder is ours");
    let before = picture(&data);
    let prefix = folder.path().join("report");
    let mark = format!("ORTHRUS_E2E_MARK={}", folder.path().display());
    let begin = Instant::now();
    let mut command = orthrus(["try", "--once"]);
    command.arg(&data).args(QUICK).arg("--output").arg(&prefix);
    command.env("TMPDIR", &temporary).env("ORTHRUS_E2E_MARK", folder.path());
    let ended = run(&mut command);
    eprintln!("orthrus try took {:?}", begin.elapsed());
    ended_well(&ended);
    check_whole(&prefix, &["sys", "krb5", "krb5i", "krb5p"]);
    assert_eq!(picture(&data), before, "the folder has changed");
    assert_eq!(fs::read_dir(&temporary).expect("it is there").count(), 0, "temporary files stay");
    assert_eq!(processes_with(&mark), [""; 0], "processes stay");
}

#[test]
fn a_trial_that_is_ended_while_its_cluster_starts_leaves_nothing() {
    let programs = [("krb5kdc", "krb5-kdc"), ("ceph-mon", "ceph-mon"), ("ceph", "ceph-common")];
    if !programs.iter().all(|(program, package)| is_installed(program, package)) {
        return;
    }
    let folder = empty_folder();
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).expect("the folder is ours");
    let mark = format!("ORTHRUS_E2E_MARK={}", folder.path().display());
    let mut command = orthrus(["try", "--ceph", "--once"]);
    command.args(QUICK).arg("--output").arg(folder.path().join("report"));
    command.env("TMPDIR", &temporary).env("ORTHRUS_E2E_MARK", folder.path());
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let names = || fs::read_dir(&temporary).expect("it is there").flatten().map(|entry| entry.file_name());
    while !names().any(|name| name.to_string_lossy().starts_with("orthrus-ceph-")) {
        assert!(child.try_wait().expect("it is a child").is_none(), "it ends without a cluster");
        std::thread::sleep(Duration::from_millis(2));
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("it runs");
    let ended = run_within(child, Duration::from_secs(40));
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("interrupted while the cluster started"), "{}", ended.stderr);
    assert_eq!(names().collect::<Vec<_>>(), [""; 0], "temporary files stay");
    assert_eq!(processes_with(&mark), [""; 0], "processes stay");
}
