//! `orthrus bench lanl` as a person runs it: natively with an SSH server beside it, and on folders.

use client::Flavor;
use e2e::{Disk, Ended, empty_folder, in_own_mounts, in_world, is_installed, orthrus, run, run_within};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const FLAVORS: [&str; 4] = ["sys", "krb5", "krb5i", "krb5p"];

/// The smallest plan that copies something of everything.
const TINY: [&str; 4] = ["--scale", "0.0002", "--repetitions", "1"];

/// A bench that has its temporary files where the test can count them.
struct LanlBench {
    folder: TempDir,
}

impl LanlBench {
    fn new() -> Self {
        let folder = empty_folder();
        fs::create_dir(folder.path().join("tmp")).expect("the folder is ours");
        Self { folder }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = orthrus(["bench", "lanl"]);
        command.args(arguments).arg("--output").arg(self.folder.path().join("report"));
        command.current_dir(self.folder.path());
        command.env("TMPDIR", self.folder.path().join("tmp")).env("ORTHRUS_E2E_MARK", self.folder.path());
        command
    }

    fn record(&self) -> Value {
        let text = fs::read_to_string(self.folder.path().join("report.json")).expect("the report is written");
        serde_json::from_str(&text).expect("it is JSON")
    }

    fn text(&self, extension: &str) -> String {
        fs::read_to_string(self.folder.path().join("report").with_extension(extension))
            .expect("it is written")
    }

    /// Checks that no file and no process stays.
    fn check_clean(&self) {
        let left = fs::read_dir(self.folder.path().join("tmp")).expect("it is there");
        let left: Vec<_> = left.flatten().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "temporary files stay: {left:?}");
        let mark = format!("ORTHRUS_E2E_MARK={}", self.folder.path().display());
        let marked = |path: &Path| {
            let environment = fs::read(path.join("environ")).unwrap_or_default();
            environment.windows(mark.len()).any(|part| part == mark.as_bytes())
        };
        let processes = fs::read_dir("/proc").expect("/proc is there").flatten().map(|entry| entry.path());
        let left: Vec<_> = processes.filter(|path| marked(path)).collect();
        assert!(left.is_empty(), "processes stay: {left:?}");
    }
}

fn ended_well(ended: &Ended) {
    assert!(ended.status.success(), "{}\n{}\n{}", ended.status, ended.stdout, ended.stderr);
}

/// The sides of a group that have figures.
fn sides(record: &Value, group: &str) -> Vec<String> {
    let cases = record["cases"].as_array().expect("a list").iter();
    let measured = cases.filter(|case| case["group"] == group && !case["figures"].is_null());
    measured.map(|case| case["side"].as_str().expect("a name").to_owned()).collect()
}

fn check_figures(record: &Value) {
    for case in record["cases"].as_array().expect("a list") {
        let rate = case["figures"]["rate"]["median"].as_f64();
        assert!(rate.is_some_and(|rate| rate > 0.0), "{case}");
        let counted = case["samples"].as_array().expect("a list").iter();
        assert_eq!(counted.filter(|sample| sample["warm_up"] != true).count(), 1, "{case}");
    }
}

#[test]
fn lanl_copies_with_every_flavor_and_scp_and_says_what_of_the_paper_holds() {
    if !is_installed("krb5kdc", "krb5-kdc") {
        return;
    }
    let bench = LanlBench::new();
    let ended = run(&mut bench.command(&[&TINY[..], &["--parts", "sizes,small,large,caches"]].concat()));
    ended_well(&ended);
    let record = bench.record();
    assert_eq!((&record["evaluation"], &record["complete"]), (&"lanl".into(), &true.into()));
    check_figures(&record);
    let mut copying = FLAVORS.map(str::to_owned).to_vec();
    if is_installed("sshd", "openssh-server") && is_installed("scp", "openssh-client") {
        copying.push("scp".to_owned());
    } else {
        assert!(record["left_out"].to_string().contains("apt install openssh-"), "{}", record["left_out"]);
    }
    for group in ["One file of 20 B", "One file of 400 kB", "2 files of 5 kB", "20 files of 100 kB"] {
        assert_eq!(sides(&record, group), copying, "{group}");
    }
    for group in ["Reading 100 kB, server cold", "Reading 100 kB, server warm"] {
        assert_eq!(sides(&record, group), FLAVORS, "{group}");
    }
    for cpu in ["client_cpu", "server_cpu"] {
        let cases = record["cases"].as_array().expect("a list");
        assert!(cases.iter().all(|case| case["figures"][cpu].is_object()), "{cpu} is not known");
    }
    for extension in ["md", "html"] {
        let text = bench.text(extension);
        for part in
            ["krb5 is about equal to sys", "CPU use by protocol", "Scaled down to 0.02", "20 files of 100 kB"]
        {
            assert!(text.contains(part), "{part} is not in the .{extension}");
        }
    }
    assert!(bench.text("csv").lines().count() > 40);
    bench.check_clean();
}

#[test]
fn lanl_compares_the_encryption_types_17_to_20() {
    if !is_installed("krb5kdc", "krb5-kdc") {
        return;
    }
    let bench = LanlBench::new();
    ended_well(&run(&mut bench.command(&[&TINY[..], &["--parts", "enctypes", "--no-scp"]].concat())));
    let record = bench.record();
    check_figures(&record);
    for group in ["2 files of 5 kB, by encryption type", "20 files of 100 kB, by encryption type"] {
        assert_eq!(sides(&record, group), ["sys", "krb5p-17", "krb5p-18", "krb5p-19", "krb5p-20"]);
    }
    assert_eq!(record["left_out"].as_array().map(Vec::len), Some(0), "{}", record["left_out"]);
    bench.check_clean();
}

#[test]
fn lanl_measures_another_server_whose_leases_are_shorter_than_the_turns_of_others() {
    // RFC 8881 section 8.3: a client that is silent for longer than a lease can lose its session.
    in_world(|world| {
        // AUTH_SYS is called with this process' own numbers.
        fs::set_permissions(world.export(), fs::Permissions::from_mode(0o777)).expect("it is ours");
        let server = world.server().args(["--lease-time", "1"]).start();
        world.identity("alice", Flavor::Krb5p);
        let (bench, cache) = (LanlBench::new(), format!("FILE:{}", world.path("ticket-alice").display()));
        let port = server.port().to_string();
        let plan = ["127.0.0.1:/export", "--port", &port, "--ccache", &cache, "--flavors", "sys,krb5p"];
        // Copies that fill the time between the turns of the others.
        let scp = ["--scp-folder", &bench.folder.path().display().to_string()].map(str::to_owned);
        let scp = scp.each_ref().map(String::as_str);
        let mut command =
            bench.command(&[&TINY[..], &plan[..], &["--parts", "sizes"][..], &scp[..]].concat());
        command.env("ORTHRUS_LOG", "error");
        ended_well(&run(&mut command));
        let record = bench.record();
        check_figures(&record);
        assert_eq!(sides(&record, "One file of 200 B")[..2], ["sys", "krb5p"]);
        assert_eq!(record["environment"]["enctype"], "aes256-cts-hmac-sha1-96");
        assert_eq!(
            fs::read_dir(world.export()).expect("it is there").count(),
            0,
            "the bench leaves its folders"
        );
        bench.check_clean();
    });
}

/// Two folders beside each other, as if they were mounts.
fn folders(bench: &LanlBench) -> [String; 2] {
    ["one", "two"].map(|name| {
        let path = bench.folder.path().join(name);
        fs::create_dir(&path).expect("the folder is ours");
        path.display().to_string()
    })
}

#[test]
fn lanl_copies_with_cp_to_folders_that_somebody_mounted() {
    let bench = LanlBench::new();
    let [one, two] = folders(&bench);
    fs::write(Path::new(&one).join("precious"), "x").expect("the folder is ours");
    let mounts = [format!("sys={one}"), format!("krb5p={two}")];
    let arguments = ["--mount", &mounts[0], &mounts[1], "--any-file-system", "--parts", "sizes,small,caches"];
    ended_well(&run(&mut bench.command(&[&TINY[..], &arguments[..], &["--no-scp"]].concat())));
    let record = bench.record();
    check_figures(&record);
    assert_eq!(sides(&record, "2 files of 5 kB"), ["sys", "krb5p"]);
    assert_eq!(sides(&record, "Reading 100 kB, client cold, server warm"), ["sys", "krb5p"]);
    let facts = &record["environment"]["mounts"][1];
    assert_eq!((&facts["side"], &facts["folder"]), (&"krb5p".into(), &two.as_str().into()));
    assert!(
        facts["options"].as_array().is_some_and(|options| options.iter().any(|option| option == "rw")),
        "{facts}"
    );
    assert!(bench.text("md").contains("read-ahead"), "what decides the result is not told");
    let left: Vec<_> =
        fs::read_dir(&one).expect("it is there").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["precious"], "the user's folder has changed");
    assert_eq!(fs::read_dir(&two).expect("it is there").count(), 0);
    bench.check_clean();
}

#[test]
fn lanl_says_what_is_wrong_with_a_folder() {
    let bench = LanlBench::new();
    let [one, two] = folders(&bench);
    let (sys, same) = (format!("sys={one}"), format!("sys={two}"));
    let cases: [(&[&str], &str); 7] = [
        (&["--mount", &sys], "no NFS mount but"),
        (&["--mount", "sys=/no/such/folder", "--any-file-system"], "/no/such/folder is no folder"),
        (&["--mount", &one, "--any-file-system"], "is not known; name it"),
        (&["--mount", &sys, &same, "--any-file-system"], "two folders are for sys"),
        (&["--mount", "nonsense"], "SERVER:/EXPORT"),
        (&["--scale", "7"], "the scale has to be from"),
        (&["--mount", &sys, "--any-file-system", "--source", "/proc"], "no folder can be made in /proc"),
    ];
    for (arguments, said) in cases {
        // The published sizes need 11 GB of free space, which is checked before the folders are.
        let tiny = if arguments.contains(&"--scale") { &[][..] } else { &TINY[..] };
        let ended = run(&mut bench.command(&[arguments, tiny, &["--no-scp"]].concat()));
        assert!(!ended.status.success() && ended.stderr.contains(said), "{arguments:?}: {ended:?}");
    }
    bench.check_clean();
}

#[test]
fn lanl_looks_first_whether_a_disk_is_read_only_or_too_small() {
    in_own_mounts(|| {
        let bench = LanlBench::new();
        let disk = Disk::tmpfs(bench.folder.path(), "disk", 80 << 20);
        let mount = format!("sys={}", disk.path().display());
        let arguments =
            ["--mount", &mount, "--any-file-system", "--no-scp", "--parts", "large", "--repetitions", "1"];
        let ended = run(&mut bench.command(&[&arguments[..], &["--scale", "0.005"]].concat()));
        assert!(
            !ended.status.success() && ended.stderr.contains("MB are free where the copies go"),
            "{ended:?}"
        );
        // Both on one disk: 30 MB of sources and as much of copies, beside the reserved free space.
        let small = Disk::tmpfs(bench.folder.path(), "small", 110 << 20);
        let folder = small.path().display().to_string();
        let plan = ["--folder", &folder, "--source", &folder, "--scale", "0.003", "--parts", "large"];
        let ended = run(&mut bench
            .command(&[&plan[..], &["--flavors", "sys", "--repetitions", "1", "--no-scp"]].concat()));
        assert!(ended.stderr.contains("with the files that are copied; make them smaller"), "{ended:?}");
        disk.make_read_only();
        let ended = run(&mut bench.command(&[&arguments[..], &["--scale", "0.0001"]].concat()));
        assert!(!ended.status.success() && ended.stderr.contains("mounted read-only"), "{ended:?}");
        bench.check_clean();
    });
}

#[test]
fn lanl_that_is_interrupted_keeps_what_it_has_and_goes_on_from_there() {
    let bench = LanlBench::new();
    let [one, two] = folders(&bench);
    let mounts = [format!("sys={one}"), format!("krb5p={two}")];
    let plan = ["--mount", &mounts[0], &mounts[1], "--any-file-system", "--no-scp", "--parts", "sizes"];
    let mut command = bench.command(&[&plan[..], &["--scale", "0.001", "--repetitions", "200"]].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let (report, end) = (bench.folder.path().join("report.json"), Instant::now() + Duration::from_secs(40));
    // The record is kept for the first time when the first file size is done.
    while !report.exists() {
        assert!(Instant::now() < end, "it does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it runs");
    let ended = run_within(child, Duration::from_secs(40));
    assert!(ended.status.code() == Some(1) && ended.stderr.contains("not complete"), "{ended:?}");
    let record = bench.record();
    assert_eq!((&record["complete"], &record["stopped_by"]), (&false.into(), &"it was interrupted".into()));
    assert!(!record["cases"][0]["figures"].is_null(), "nothing was kept");
    for folder in [&one, &two] {
        assert_eq!(fs::read_dir(folder).expect("it is there").count(), 0, "a folder stays in {folder}");
    }
    bench.check_clean();
    // Another plan is not gone on with.
    let other = ["--scale", "0.002", "--repetitions", "200", "--resume", "report.json"];
    let ended = run(&mut bench.command(&[&plan[..], &other[..]].concat()));
    assert!(ended.stderr.contains("it was begun with another"), "{ended:?}");
}

#[test]
fn a_plan_measures_folders_that_somebody_mounted_with_fio_and_git() {
    if !is_installed("fio", "fio") || !is_installed("git", "git") {
        return;
    }
    let bench = LanlBench::new();
    let [one, two] = folders(&bench);
    let plan = bench.folder.path().join("plan.toml");
    let cases = "[[case]]\nname = \"Half written\"\nkind = \"random\"\nsize = 4096\nwrites = 50\ndepth = 4\nclients = 2\n\
        [[case]]\nname = \"On a schedule\"\nkind = \"sequential\"\nsize = 4096\ndepth = 4\nclients = 2\nrate = 500\n\
        [[case]]\nname = \"As git does it\"\nkind = \"git\"\n";
    let head = "title = \"On folders\"\nflavors = [\"sys\", \"krb5p\"]\nrepetitions = 1\nseconds = 0.1\nfile_size_mib = 2\n";
    fs::write(&plan, format!("{head}{cases}")).expect("the folder is ours");
    let mut command = orthrus(["bench", "run"]);
    command.arg(&plan).args(["--mount", &format!("sys={one}"), &format!("krb5p={two}"), "--any-file-system"]);
    command.arg("--output").arg(bench.folder.path().join("report"));
    command.env("TMPDIR", bench.folder.path().join("tmp")).env("ORTHRUS_E2E_MARK", bench.folder.path());
    ended_well(&run(&mut command));
    let record = bench.record();
    check_figures(&record);
    for group in ["Half written", "On a schedule", "As git does it"] {
        assert_eq!(sides(&record, group), ["sys", "krb5p"], "{group}");
    }
    let cases = record["cases"].as_array().expect("a list");
    let random = cases.iter().find(|case| case["group"] == "Half written").expect("it was measured");
    assert!(random["figures"]["p99_us"]["median"].as_f64() > Some(0.0), "{random}");
    assert_eq!(record["environment"]["mounts"].as_array().map(Vec::len), Some(2));
    let scheduled = cases.iter().filter(|case| case["group"] == "On a schedule");
    for sample in scheduled.flat_map(|case| case["samples"].as_array().expect("a list")) {
        // 500 a second for 0.05 s of the warm-up or 0.1 s: all that were due began or are counted
        // as not begun.
        let begun = sample["operations"].as_u64().unwrap_or(0) + sample["unserved"].as_u64().unwrap_or(0);
        assert!(sample["offered"] == 500.0 && [25, 26, 50, 51].contains(&begun), "{sample}");
    }
    assert!(bench.text("md").contains("Fixed schedules are not fio's"), "what latencies count is not told");
    for folder in [&one, &two] {
        assert_eq!(fs::read_dir(folder).expect("it is there").count(), 0, "something stays in {folder}");
    }
    bench.check_clean();
}
