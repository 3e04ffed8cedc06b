//! `orthrus bench anf`, `ontap`, `nconnect` and `run` from the command line, and their messages
//! about errors.

use client::Flavor;
use e2e::{Ended, Serve, World, empty_folder, in_world, is_installed, orthrus, run, run_within};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a run may take to measure its first cases.
const BEGIN_MAX: Duration = Duration::from_secs(60);

/// A plan of several loads, each short.
fn plan(repetitions: u32) -> String {
    let case = |number: u32| {
        format!(
            "[[case]]\nname = \"load {number}\"\nkind = \"random\"\ndepth = 8\nwrites = {}\n",
            number * 20
        )
    };
    let cases: Vec<String> = (0..5).map(case).collect();
    format!(
        "title = \"a plan\"\nflavors = [\"sys\", \"krb5p\"]\nrepetitions = {repetitions}\nseconds = 0.05\nfile_size_mib = 1\n{}",
        cases.join("")
    )
}

fn bench(arguments: &[&str], output: &Path) -> Command {
    let mut command = orthrus(["bench"]);
    command.args(arguments).arg("--output").arg(output);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn record(prefix: &Path) -> Value {
    let text = fs::read_to_string(prefix.with_extension("json")).expect("the record is written");
    serde_json::from_str(&text).expect("it is JSON")
}

/// Checks a record's form, and that the page and the CSV have its numbers.
fn check(prefix: &Path) -> Value {
    let found = record(prefix);
    assert_eq!(found["schema"], "orthrus-bench/2");
    assert!(found["limits"].as_array().is_some_and(|limits| limits.len() == 7), "{}", found["limits"]);
    let page = fs::read_to_string(prefix.with_extension("html")).expect("the page is written");
    let samples = fs::read_to_string(prefix.with_extension("csv")).expect("the samples are written");
    let mut lines = 1;
    for case in found["cases"].as_array().expect("a list") {
        // A failed case without samples has a line with the reason.
        let failed = found["left_out"].as_array().into_iter().flatten().any(|missing| {
            missing["side"] == case["side"]
                && (missing["group"].is_null() || missing["group"] == case["group"])
        });
        lines += case["samples"].as_array().expect("a list").len().max(usize::from(failed));
        let Some(rate) = case["figures"]["rate"]["median"].as_f64() else { continue };
        assert!(rate > 0.0 && page.contains(&format!("data-rate=\"{rate}\"")), "{rate} is not in the page");
        for sample in case["samples"].as_array().expect("a list") {
            assert!(
                sample["latency"]["histogram"].as_str().is_some_and(|text| text.contains(':')),
                "{sample}"
            );
        }
    }
    assert_eq!(samples.lines().count(), lines);
    assert!(
        fs::read_to_string(prefix.with_extension("md"))
            .is_ok_and(|text| text.contains("| case |") || text.contains("|---"))
    );
    found
}

/// Checks that each sample says where the server's time went, and that the page says the same of
/// the loads that it shows.
fn check_stages(prefix: &Path, found: &Value) {
    let page = fs::read_to_string(prefix.with_extension("html")).expect("the page is written");
    let mut shown = 0;
    for case in found["cases"].as_array().expect("a list") {
        for sample in case["samples"].as_array().expect("a list") {
            let stages = &sample["server_stages"];
            assert!(stages["requests"].as_u64().is_some_and(|requests| requests > 0), "{sample}");
            assert!(stages["execute_seconds"].as_f64() > Some(0.0), "{stages}");
            assert_eq!(stages["wrap_seconds"].as_f64() > Some(0.0), case["side"] != "sys", "{case}");
        }
        let figures = &case["figures"]["server_stages"];
        let median = |stage: &str| figures[format!("{stage}_us")]["median"].as_f64().expect("a figure");
        let times = ["queue", "unwrap", "execute", "wrap", "send"].map(|stage| median(stage).to_string());
        let (group, side) = (case["group"].as_str().expect("a name"), case["side"].as_str().expect("a name"));
        let drawn = |unit: &str| format!("data-group=\"{group}, per {unit}\" data-side=\"{side}\" data-us=");
        shown += usize::from(page.contains(&drawn("MiB")));
        let drawn = drawn("call");
        if page.contains(&drawn) {
            shown += 1;
            let drawn = format!("{drawn}\"{}\"", times.join(" "));
            assert!(page.contains(&drawn), "{drawn} is not in the page");
        }
    }
    assert!(shown > 0 && page.contains("Where the server"), "the page has none of it");
}

fn check_whole(prefix: &Path, ended: &Ended) -> Value {
    assert!(ended.status.success(), "{}\n{}\n{}", ended.status, ended.stdout, ended.stderr);
    let found = check(prefix);
    assert_eq!((&found["complete"], &found["stopped_by"]), (&Value::Bool(true), &Value::Null));
    let repetitions = found["settings"]["repetitions"].as_u64().expect("a number") as usize;
    for case in found["cases"].as_array().expect("a list") {
        let samples = case["samples"].as_array().expect("a list");
        let counted = samples.iter().filter(|sample| sample["warm_up"] != true).count();
        assert!(counted == repetitions && samples.len() > counted, "{case}");
    }
    found
}

#[test]
fn anf_measures_both_loads_from_pure_read_to_pure_write_and_metadata_for_each_flavor() {
    if !is_installed("krb5kdc", "krb5-kdc") {
        return;
    }
    let folder = empty_folder();
    let prefix = folder.path().join("report");
    let quick = ["anf", "--time", "1s", "--repetitions", "1", "--file-size", "1", "--flavors", "sys,krb5p"];
    let ended = run(&mut bench(&quick, &prefix));
    let found = check_whole(&prefix, &ended);
    assert_eq!(found["cases"].as_array().map(Vec::len), Some(2 * 22));
    for said in
        ["maximum metadata rate (published)", "Averages over the workloads", "One core of the load generator"]
    {
        assert!(ended.stdout.contains(said), "{said}: {}", ended.stdout);
    }
}

#[test]
fn ontap_climbs_with_and_without_the_servers_instructions() {
    if !is_installed("krb5kdc", "krb5-kdc") {
        return;
    }
    let folder = empty_folder();
    let prefix = folder.path().join("report");
    let quick = ["ontap", "--time", "1s", "--repetitions", "1", "--file-size", "2", "--flavors", "sys,krb5p"];
    let ended = run(bench(&quick, &prefix).args(["--clients", "2", "--server-cpu", "portable"]));
    let found = check_whole(&prefix, &ended);
    let cases = found["cases"].as_array().expect("a list");
    let of = |axis: &str| cases.iter().filter(|case| !case["axes"][axis].is_null()).count();
    // Each of eight curves has the most of both flavors and at least one step of one.
    assert!(of("step") >= 8 && of("server_cpu") >= 4 * 2, "{} {}", of("step"), of("server_cpu"));
    assert!(
        cases.iter().all(|case| case["axes"]["step"].is_null() || case["load"]["rate"].as_f64() > Some(0.0))
    );
    assert!(ended.stdout.contains("4 KiB sequential reads, 2 clients, server portable"), "{}", ended.stdout);
}

#[test]
fn nconnect_loses_nothing_and_its_record_can_be_compared_and_shown_anew() {
    if !is_installed("krb5kdc", "krb5-kdc") {
        return;
    }
    let folder = empty_folder();
    let (prefix, again) = (folder.path().join("report"), folder.path().join("again"));
    let quick =
        ["nconnect", "--time", "2s", "--repetitions", "2", "--file-size", "1", "--flavors", "sys,krb5p"];
    let ended = run(&mut bench(&quick, &prefix));
    let found = check_whole(&prefix, &ended);
    check_stages(&prefix, &found);
    for sample in found["cases"]
        .as_array()
        .expect("a list")
        .iter()
        .flat_map(|case| case["samples"].as_array().expect("a list"))
    {
        assert!(sample["counters"]["client_calls"].as_u64() > Some(0), "{sample}");
        for lost in ["window_drops", "client_reconnects", "client_calls_repeated"] {
            assert!(sample["counters"][lost].is_null(), "{lost}: {sample}");
        }
    }
    let json = prefix.with_extension("json");
    let ended = run(orthrus(["bench", "compare"]).args([&json, &json]));
    assert!(
        ended.status.success() && ended.stdout.contains("Nothing differs significantly in 18 cases."),
        "{ended:?}"
    );
    let ended = run(orthrus(["bench", "report"]).arg(&json).arg("--output").arg(&again));
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(check(&again), found);
}

/// Starts a plan on a server of this test's and waits until some of it has been measured.
fn begun(world: &World, port: u16, prefix: &Path) -> Child {
    fs::set_permissions(world.export(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    let mut child = by_plan(world, port, prefix, 20).spawn().expect("it starts");
    let end = Instant::now() + BEGIN_MAX;
    while !prefix.with_extension("json").exists() {
        assert!(
            child.try_wait().expect("it is a child").is_none() && Instant::now() < end,
            "it does not begin"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn by_plan(world: &World, port: u16, prefix: &Path, repetitions: u32) -> Command {
    world.identity("alice", Flavor::Krb5p);
    let file = world.path("plan.toml");
    fs::write(&file, plan(repetitions)).expect("the folder is ours");
    let mut command = bench(&["run"], prefix);
    command.arg(&file).args(["127.0.0.1:/export", "--port", &port.to_string()]);
    command.arg("--ccache").arg(format!("FILE:{}", world.path("ticket-alice").display()));
    command
}

fn counted(found: &Value) -> Vec<f64> {
    let cases = found["cases"].as_array().expect("a list").iter();
    let samples = cases.flat_map(|case| case["samples"].as_array().expect("a list"));
    samples
        .filter(|sample| sample["warm_up"] != true)
        .filter_map(|sample| sample["seconds"].as_f64())
        .collect()
}

#[test]
fn a_metrics_endpoint_tells_the_processor_time_of_a_server_elsewhere_and_where_its_time_goes() {
    in_world(|world| {
        let server = world.server().args(["--metrics", "127.0.0.1:0"]).start();
        fs::set_permissions(world.export(), fs::Permissions::from_mode(0o777)).expect("it is ours");
        let prefix = world.path("report");
        let mut measured = by_plan(world, server.port(), &prefix, 2);
        measured.arg("--server-metrics").arg(format!("http://{}/metrics", server.metrics()));
        let found = check_whole(&prefix, &run(&mut measured));
        check_stages(&prefix, &found);
        for case in found["cases"].as_array().expect("a list") {
            let samples = case["samples"].as_array().expect("a list");
            assert!(samples.iter().all(|sample| sample["server_cpu_seconds"].as_f64() > Some(0.0)), "{case}");
        }
    });
}

#[test]
fn a_run_that_was_interrupted_leaves_a_report_and_is_gone_on_with() {
    in_world(|world| {
        let server = world.server().start();
        let prefix = world.path("report");
        let child = begun(world, server.port(), &prefix);
        kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it runs");
        let ended = run_within(child, Duration::from_secs(40));
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains("--resume"), "{}", ended.stderr);
        assert_eq!(
            fs::read_dir(world.export()).expect("it is there").count(),
            0,
            "the bench leaves its folders"
        );
        let before = check(&prefix);
        assert_eq!(
            (&before["complete"], &before["stopped_by"]),
            (&Value::Bool(false), &Value::from("it was interrupted"))
        );
        let taken = counted(&before);
        assert!((40..200).contains(&taken.len()), "{} samples", taken.len());
        let mut resumed = by_plan(world, server.port(), &world.path("other"), 20);
        resumed.arg("--resume").arg(prefix.with_extension("json"));
        let after = check_whole(
            &world.path("other"),
            &run_within(resumed.spawn().expect("it starts"), Duration::from_secs(120)),
        );
        // This server has no metrics.
        assert!(
            after["notes"].to_string().contains("Where the server's time went is unknown"),
            "{}",
            after["notes"]
        );
        // Whole groups stay; the one that was in progress is measured again with both flavors.
        let groups = before["cases"].as_array().expect("a list").chunks(2);
        let groups = groups.map(|group| counted(&serde_json::json!({ "cases": group })));
        let kept: Vec<f64> = groups.filter(|group| group.len() == 40).flatten().collect();
        let all = counted(&after);
        assert!(all.len() == 200 && kept.iter().all(|seconds| all.contains(seconds)), "{}", all.len());
        assert!(kept.len() >= 40, "{} samples of whole groups", kept.len());
        // Another plan is another run.
        let ended =
            run(by_plan(world, server.port(), &prefix, 3).arg("--resume").arg(prefix.with_extension("json")));
        assert!(!ended.status.success() && ended.stderr.contains("begun with another"), "{}", ended.stderr);
    });
}

#[test]
fn a_server_that_dies_in_the_middle_of_a_plan_leaves_what_was_measured() {
    in_world(|world| {
        let mut server = world.server().start();
        let prefix = world.path("report");
        let child = begun(world, server.port(), &prefix);
        server.kill();
        let ended = run_within(child, Duration::from_secs(60));
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains("not complete") && ended.stderr.contains("load "), "{}", ended.stderr);
        let found = check(&prefix);
        assert_eq!(found["complete"], false);
        assert!(counted(&found).len() >= 40, "nothing was kept");
    });
}

#[test]
fn a_flavor_that_is_refused_and_one_without_a_ticket_are_left_out_and_named() {
    in_world(|world| {
        fs::set_permissions(world.export(), fs::Permissions::from_mode(0o777)).expect("it is ours");
        let server = world.server().args(["--sec", "krb5i,sys"]).start();
        let prefix = world.path("report");
        let mut command = by_plan(world, server.port(), &prefix, 1);
        let found = check_whole_but_krb5p(&prefix, &run(&mut command));
        assert!(found.contains("NFS4ERR_WRONGSEC"), "{found}");
        let mut command = by_plan(world, server.port(), &prefix, 1);
        fs::remove_file(world.path("ticket-alice")).expect("it is there");
        let found = check_whole_but_krb5p(&prefix, &run(&mut command));
        assert!(found.to_lowercase().contains("credential"), "{found}");
    });
}

/// Returns why krb5p was left out.
fn check_whole_but_krb5p(prefix: &Path, ended: &Ended) -> String {
    // All but something: docs/report.md.
    assert_eq!(ended.status.code(), Some(3), "{ended:?}");
    assert!(ended.stdout.contains("krb5p was left out") && ended.stderr.contains("--resume"), "{ended:?}");
    let found = check(prefix);
    assert_eq!(found["left_out"][0]["side"], "krb5p");
    found["left_out"][0]["reason"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_server_that_is_full_and_other_trouble_before_the_first_sample_say_why() {
    let folder = empty_folder();
    let prefix = folder.path().join("report");
    let server = Serve::new(folder.path().join("state")).args(["--memory", "2", "--sec", "sys"]).start();
    let port = server.port().to_string();
    let file = folder.path().join("plan.toml");
    fs::write(&file, "[[case]]\nname = \"a\"\nkind = \"fast\"\n").expect("the folder is ours");
    let file = file.to_str().expect("it has no other characters");
    let memory = ["127.0.0.1:/memory", "--port", &port, "--flavors", "sys", "--quick"];
    let cases: [(&str, &[&str], &str); 6] = [
        ("anf", &memory, "the server is full"),
        (
            "anf",
            &["127.0.0.1:/memory", "--port", "1", "--flavors", "sys"],
            "nothing can be measured: nothing listens on port 1 of 127.0.0.1",
        ),
        ("ontap", &["somewhere"], "HOST:/EXPORT"),
        ("ontap", &["127.0.0.1:/memory", "--server-cpu", "portable"], "--server-cpu"),
        ("run", &[file], "random, sequential or git"),
        ("compare", &[file, file], "no report of orthrus bench"),
    ];
    for (name, arguments, said) in cases {
        let mut command = orthrus(["bench", name]);
        command.args(arguments);
        if name != "compare" {
            command.arg("--output").arg(&prefix);
        }
        let ended = run(&mut command);
        assert!(!ended.status.success() && ended.stderr.contains(said), "{name} {arguments:?}: {ended:?}");
    }
    assert!(!prefix.with_extension("json").exists());
    let ended = run(&mut bench(&["nconnect"], Path::new("/nowhere/report")));
    assert!(!ended.status.success() && ended.stderr.contains("another place with --output"), "{ended:?}");
}
