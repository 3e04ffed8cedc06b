//! The system's name service while a module of it is unavailable: glibc runs for real, with a
//! module that this test compiles.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use orthrus_identity::{IdentitySource, NssSource};
use std::path::Path;
use std::process::Command;

/// The file whose presence makes the module's groups unavailable, in the process inside.
const GROUPS_DOWN: &str = "ORTHRUS_TEST_GROUPS_DOWN";

/// Runs the test of this name again, where `/etc/nsswitch.conf` has `line` for users and groups.
/// Returns false, with the reason, where that is impossible.
fn with_nsswitch(test: &str, line: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/unavailable.c");
    let library = folder.path().join("libnss_orthrustest.so.2");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(built.expect("a C compiler").success());
    let conf = format!("passwd: {line}\ngroup: {line}\n");
    with_files(test, folder.path(), &[("nsswitch.conf", &conf)])
}

/// Runs the test of this name again, where these files of `/etc` have these contents. `folder` has
/// the modules of the name service. Returns false, with the reason, where that is impossible.
fn with_files(test: &str, folder: &Path, files: &[(&str, &str)]) -> bool {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can replace files of /etc");
        return false;
    }
    let mut run = "mount --make-rprivate /".to_owned();
    for (name, contents) in files {
        std::fs::write(folder.join(name), contents).unwrap();
        run += &format!(" && mount --bind \"$0/{name}\" /etc/{name}");
    }
    let ended = Command::new("unshare")
        .args(["-m", "sh", "-c", &(run + " && exec \"$@\"")])
        .arg(folder)
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env("LD_LIBRARY_PATH", folder)
        .env(GROUPS_DOWN, folder.join("groups-down"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{test}: {said}");
    true
}

/// Returns the file of the module if this is the process inside.
fn inside() -> Option<std::path::PathBuf> {
    std::env::var_os(GROUPS_DOWN).map(Into::into)
}

#[test]
fn an_unavailable_service_is_a_failure_and_not_the_absence_of_a_user() {
    let Some(groups_down) = inside() else {
        let test = "an_unavailable_service_is_a_failure_and_not_the_absence_of_a_user";
        with_nsswitch(test, "files orthrustest");
        with_nsswitch(test, "files orthrustest [UNAVAIL=return TRYAGAIN=return] systemd");
        return;
    };
    for user in ["unavailable", "tryagain"] {
        let failure = NssSource.identity(user).expect_err(user);
        assert!(failure.to_string().contains("unavailable"), "{failure}");
        NssSource.uid(user).expect_err(user);
    }
    assert_eq!(NssSource.identity("absent"), Ok(None));
    let known = NssSource.identity("known").unwrap().unwrap();
    assert_eq!((known.uid, known.gid, &known.groups[..]), (4711, 4712, &[4712, 4713][..]));
    std::fs::write(&groups_down, "").unwrap();
    NssSource.identity("known").expect_err("without its groups it would be another identity");
    NssSource.group(12345).expect_err("its groups are unavailable");
    std::fs::remove_file(&groups_down).unwrap();
    assert!(NssSource.identity("known").is_ok());
}

/// Limits of glibc, which docs/identities.md explains.
#[test]
fn a_service_behind_the_unavailable_one_hides_the_failure() {
    if inside().is_none() {
        with_nsswitch("a_service_behind_the_unavailable_one_hides_the_failure", "orthrustest files");
        return;
    }
    assert_eq!(NssSource.identity("unavailable"), Ok(None));
    assert_eq!(NssSource.identity("silent"), Ok(None));
}

#[test]
fn groups_of_any_length_stop_no_lookup() {
    if inside().is_none() {
        let conf = "passwd: files\ngroup: files\n";
        for members in [60_000, 200_000] {
            let list: Vec<String> = (0..members).map(|member| format!("member{member}")).collect();
            let groups = format!("root:x:0:\nbig:x:70001:{}\nsmall:x:70002:root\n", list.join(","));
            let folder = tempfile::tempdir().unwrap();
            let files = [("nsswitch.conf", conf), ("group", &groups)];
            with_files("groups_of_any_length_stop_no_lookup", folder.path(), &files);
        }
        return;
    }
    let root = NssSource.identity("root").unwrap().unwrap();
    assert_eq!(root.groups[..], [0, 70002]);
    assert_eq!((NssSource.gid("big"), NssSource.gid("small")), (Ok(Some(70001)), Ok(Some(70002))));
    assert_eq!(NssSource.group(70001), Ok(Some("big".to_owned())));
    assert_eq!(NssSource.gid("absent"), Ok(None));
}
