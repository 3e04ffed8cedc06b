//! `orthrus bench run`: the server sees the sessions that a plan describes.

use e2e::{empty_folder, is_installed, orthrus, run};
use serde_json::Value;
use std::fs;

#[test]
fn git_loads_use_a_given_repository_and_refuse_a_folder_without_one() {
    if !is_installed("krb5kdc", "krb5-kdc") || !is_installed("git", "git") {
        return;
    }
    let folder = empty_folder();
    let own = folder.path().join("own");
    let git = |arguments: &[&str]| {
        let done = std::process::Command::new("git").arg("-C").arg(&own).args(arguments).output();
        assert!(done.expect("git starts").status.success(), "{arguments:?}");
    };
    fs::create_dir(&own).expect("the folder is ours");
    fs::write(own.join("only file"), "text").expect("the folder is ours");
    git(&["init", "--quiet"]);
    git(&["add", "--all"]);
    git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "--message=t"]);
    let (path, prefix) = (folder.path().join("plan.toml"), folder.path().join("report"));
    let plan = |repository: &str| {
        let text = format!(
            "flavors = [\"sys\"]\nrepetitions = 1\nseconds = 0.05\n[[case]]\nname = \"own\"\nkind = \"git\"\nrepository = \"{repository}\"\n"
        );
        fs::write(&path, text).expect("the folder is ours");
        run(orthrus(["bench", "run"]).arg(&path).arg("--output").arg(&prefix))
    };
    let ended = plan(&own.display().to_string());
    assert!(ended.status.success(), "{ended:?}");
    let text = fs::read_to_string(prefix.with_extension("json")).expect("the report is written");
    let record: Value = serde_json::from_str(&text).expect("it is JSON");
    let case = &record["cases"][0];
    assert_eq!(case["load"]["repository"], own.display().to_string());
    let counters = &case["samples"][0]["counters"];
    // One file that is looked at, one folder that is listed, an index that is written and renamed;
    // twice a turn.
    assert_eq!(counters["status_operations"].as_u64().expect("a count") % 8, 0, "{counters}");
    let ended = plan("/nonexistent");
    assert!(!ended.status.success() && ended.stderr.contains("the repository /nonexistent"), "{ended:?}");
}

#[test]
fn reads_and_writes_of_a_plan_are_no_larger_than_its_rsize_and_wsize() {
    if !is_installed("krb5kdc", "krb5-kdc") {
        return;
    }
    let folder = empty_folder();
    let case = |name: &str, writes: u32, sizes: &str| {
        format!(
            "[[case]]\nname = \"{name}\"\nkind = \"sequential\"\nsize = 65536\nwrites = {writes}\ndepth = 4\nslots = 3\n{sizes}\n"
        )
    };
    let plan = "flavors = [\"sys\"]\nrepetitions = 2\nseconds = 0.1\nfile_size_mib = 4\n".to_owned()
        + &case("small reads", 0, "rsize = 4096")
        + &case("small writes", 100, "wsize = 4096")
        + &case("whole reads", 0, "wsize = 4096");
    let (path, prefix) = (folder.path().join("plan.toml"), folder.path().join("report"));
    fs::write(&path, plan).expect("the folder is ours");
    let ended = run(orthrus(["bench", "run"]).arg(&path).arg("--output").arg(&prefix));
    assert!(ended.status.success(), "{ended:?}");
    let text = fs::read_to_string(prefix.with_extension("json")).expect("the report is written");
    let record: Value = serde_json::from_str(&text).expect("it is JSON");
    // Bytes that a request carries on the average, by the server's own count of requests.
    let carried: Vec<f64> = record["cases"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|case| {
            assert_eq!(case["load"]["slots"], 3, "{case}");
            let sample = case["samples"].as_array().and_then(|samples| samples.last()).expect("a sample");
            let requests = sample["server_stages"]["requests"].as_f64().expect("the server tells");
            sample["bytes"].as_f64().expect("bytes") / requests
        })
        .collect();
    let [reads, writes, whole] = carried[..] else { panic!("{carried:?}") };
    assert!(reads <= 4096.0 && writes <= 4096.0 && whole > 4096.0, "{carried:?}");
}
