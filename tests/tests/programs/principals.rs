//! `orthrus bench run` with several principals: each has a ticket cache, and so contexts, of its
//! own.

use client::Flavor;
use e2e::{account, in_world, is_installed, orthrus, run, run_within};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn plan(folder: &Path, principals: u32) -> std::path::PathBuf {
    let text = format!(
        "flavors = [\"sys\", \"krb5p\"]\nrepetitions = 3\nseconds = 0.2\nfile_size_mib = 4\n[[case]]\nname = \"four clients\"\n\
         kind = \"random\"\ndepth = 4\nclients = 4\nprincipals = {principals}\n"
    );
    let path = folder.join(format!("plan-{principals}.toml"));
    fs::write(&path, text).expect("the folder is ours");
    path
}

/// Returns the owners of a run's files in the export for a flavor.
fn owners(export: &Path, flavor: &str) -> BTreeSet<u32> {
    let entries = fs::read_dir(export).expect("it is there").flatten();
    let of = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.contains(&format!("-{flavor}-"))
            .then(|| entry.metadata().ok().map(|found| found.uid()))
            .flatten()
    };
    entries.filter_map(of).collect()
}

#[test]
fn clients_of_a_plan_are_several_principals_each_with_contexts_of_its_own() {
    // RFC 2203 section 5.2.2: a context is that of one principal.
    in_world(|world| {
        fs::set_permissions(world.export(), fs::Permissions::from_mode(0o777)).expect("it is ours");
        let (server, prefix) = (world.server().start(), world.path("report"));
        let caches = ["alice", "bob"].map(|user| {
            world.identity(user, Flavor::Krb5p);
            format!("FILE:{}", world.path(&format!("ticket-{user}")).display())
        });
        let command = |principals: u32, caches: &[String]| -> Command {
            let mut command = orthrus(["bench", "run"]);
            command.arg(plan(&world.path("."), principals)).arg("127.0.0.1:/export");
            command.args(["--port", &server.port().to_string()]).arg("--output").arg(&prefix);
            caches.iter().for_each(|cache| {
                command.args(["--ccache", cache]);
            });
            command
        };
        let mut two = command(2, &caches);
        let mut child = two.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (mut by_context, mut by_number) = (BTreeSet::new(), BTreeSet::new());
        while child.try_wait().expect("it is a child").is_none() {
            by_context.extend(owners(&world.export(), "krb5p"));
            by_number.extend(owners(&world.export(), "sys"));
            std::thread::sleep(Duration::from_millis(5));
        }
        let ended = run_within(child, Duration::from_secs(60));
        assert!(ended.status.success(), "{ended:?}");
        let users = ["alice", "bob"].map(|user| account(user).uid.as_raw());
        assert_eq!(by_context, BTreeSet::from(users), "the server knows both");
        assert_eq!(by_number.len(), 1, "with AUTH_SYS all are one user");
        let text = fs::read_to_string(prefix.with_extension("json")).expect("the report is written");
        let record: Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!(record["complete"], true);
        assert!(
            record["cases"].as_array().expect("a list").iter().all(|case| case["load"]["principals"] == 2)
        );
        // More than there are caches for.
        let ended = run(&mut command(3, &caches));
        let said = fs::read_to_string(prefix.with_extension("json")).expect("the report is written");
        assert!((ended.stderr + &ended.stdout + &said).contains("--ccache several times"), "{said}");
    });
}

#[test]
fn a_server_of_ones_own_has_two_principals() {
    if !is_installed("krb5kdc", "krb5-kdc") {
        return;
    }
    let folder = e2e::empty_folder();
    let prefix = folder.path().join("report");
    let mut command = orthrus(["bench", "run"]);
    let ended = run(command.arg(plan(folder.path(), 2)).arg("--output").arg(&prefix));
    assert!(ended.status.success(), "{ended:?}");
    let text = fs::read_to_string(prefix.with_extension("json")).expect("the report is written");
    let record: Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!((&record["complete"], record["left_out"].as_array().map(Vec::len)), (&true.into(), Some(0)));
}
