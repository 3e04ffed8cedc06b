//! `orthrus realm up`, `shell` and `down` as a person runs them.

use e2e::{empty_folder, is_installed, is_root, nobody, orthrus, run};
use nix::unistd::{Gid, Uid, chown};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Ends the realm however the test ends.
struct RealmGuard<'a>(&'a Path);

impl Drop for RealmGuard<'_> {
    fn drop(&mut self) {
        let _ = orthrus(["realm", "down"]).arg(self.0).output();
    }
}

/// Returns the processes whose command line names the folder.
fn processes_of(folder: &Path) -> Vec<String> {
    let name = folder.as_os_str().as_encoded_bytes();
    let lines = fs::read_dir("/proc").expect("/proc is there").flatten();
    let lines = lines.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let ours = lines.filter(|line| line.windows(name.len()).any(|part| part == name));
    ours.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).collect()
}

fn up_and_down(command: impl Fn(&[&OsStr]) -> Command, dir: &Path) {
    let call = |what: &str| run(&mut command(&["realm".as_ref(), what.as_ref(), dir.as_os_str()]));
    let begin = Instant::now();
    let up = call("up");
    eprintln!("realm up took {:?}", begin.elapsed());
    assert!(up.status.success(), "{up:?}");
    let _down = RealmGuard(dir);
    for part in
        ["ORTHRUS.TEST", "kinit -k -t", "mount -t nfs4", "orthrus realm down", &dir.display().to_string()]
    {
        assert!(up.stdout.contains(part), "{part:?} is missing: {}", up.stdout);
    }
    assert!(up.stderr.contains("realm made in "), "the time is said: {}", up.stderr);
    for file in ["krb5.conf", "server.keytab", "client.keytab", "users.keytab", "env"] {
        assert!(dir.join(file).exists(), "{file}");
    }
    let kinit = run(Command::new("kinit")
        .env("KRB5_CONFIG", dir.join("krb5.conf"))
        .args(["-k", "-t"])
        .arg(dir.join("users.keytab"))
        .arg("-c")
        .arg(dir.join("ccache"))
        .arg("alice"));
    assert!(kinit.status.success(), "{kinit:?}");

    let twice = call("up");
    assert!(!twice.status.success() && twice.stderr.contains("realm down"), "{twice:?}");
    assert!(!processes_of(dir).is_empty(), "the first realm goes on");

    let down = call("down");
    assert!(down.status.success() && down.stdout.contains("its KDC ended"), "{down:?}");
    assert!(!dir.exists(), "the folder is gone");
    assert_eq!(processes_of(dir), [""; 0], "no process stays");
    let again = call("down");
    assert!(!again.status.success() && again.stderr.contains("no realm"), "{again:?}");
}

#[test]
fn a_realm_is_made_used_and_removed() {
    if is_installed("krb5kdc", "krb5-kdc") {
        let folder = empty_folder();
        up_and_down(|arguments| orthrus(arguments), &folder.path().join("realm"));
    }
}

#[test]
fn a_realm_is_made_used_and_removed_without_root() {
    if !is_root() {
        return eprintln!("skipped: only root can become nobody; the other test has run without root");
    }
    if is_installed("krb5kdc", "krb5-kdc") {
        let folder = empty_folder();
        let (user, group) = (Uid::from_raw(65534), Gid::from_raw(65534));
        chown(folder.path(), Some(user), Some(group)).expect("root may");
        up_and_down(|arguments| nobody(arguments), &folder.path().join("realm"));
    }
}

#[test]
fn a_folder_of_somebody_elses_is_neither_taken_nor_removed() {
    if !is_installed("krb5kdc", "krb5-kdc") {
        return;
    }
    let folder = empty_folder();
    fs::write(folder.path().join("precious"), "text").expect("the folder is ours");
    for (what, said) in [("up", "is no realm of ours"), ("down", "is no realm")] {
        let ended = run(orthrus(["realm", what]).arg(folder.path()));
        assert!(!ended.status.success() && ended.stderr.contains(said), "{ended:?}");
    }
    let left: Vec<_> =
        fs::read_dir(folder.path()).expect("it is there").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["precious"]);
}

#[test]
fn a_machine_without_krb5kdc_is_told_which_package_to_install() {
    let folder = empty_folder();
    let dir = folder.path().join("realm");
    // A name space of mounts in which the folder of system programs is empty.
    let script = "mount -t tmpfs none /usr/sbin && mount -t tmpfs none /usr/local/sbin && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(e2e::program()).args(["realm", "up"]).arg(&dir);
    let ended = run(&mut command);
    if ended.stderr.contains("unshare") || ended.stderr.contains("mount:") {
        return eprintln!("skipped: no mount name space: {}", ended.stderr.trim());
    }
    assert!(!ended.status.success() && ended.stderr.contains("apt install krb5-"), "{ended:?}");
    assert!(!dir.exists());
}

#[test]
fn a_shell_in_the_realm_has_its_files_in_etc_and_the_machine_keeps_its_own() {
    if !is_root() {
        return println!("skipped: only root can mount");
    }
    if !is_installed("krb5kdc", "krb5-kdc") || !is_installed("unshare", "util-linux") {
        return;
    }
    let folder = empty_folder();
    let dir = folder.path().join("realm");
    let up = run(orthrus(["realm", "up"]).arg(&dir));
    assert!(up.status.success() && up.stdout.contains("orthrus realm shell"), "{up:?}");
    let _down = RealmGuard(&dir);
    // No command overwrites the machine's files; a sentence says which files the shell replaces.
    let commands = up.stdout.lines().filter(|line| line.starts_with("  "));
    assert!(commands.clone().count() >= 5 && commands.clone().all(|line| !line.contains("/etc/")), "{up:?}");
    let of_the_machine =
        || ["krb5.conf", "krb5.keytab"].map(|name| fs::read(Path::new("/etc").join(name)).ok());
    let before = of_the_machine();
    fs::create_dir(folder.path().join("tmp")).expect("the folder is ours");
    // A network of its own: rpc.gssd must not answer for the machine.
    let mut shell = Command::new("unshare");
    shell.args(["--net", "--"]).arg(e2e::program()).args(["realm", "shell"]).arg(&dir);
    shell.args(["--", "sh", "-c", "cat /etc/krb5.conf && klist -k && touch /etc/orthrus-was-here && exit 7"]);
    let ended = run(shell.env("TMPDIR", folder.path().join("tmp")).env_remove("KRB5_KTNAME"));
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    let configuration = fs::read_to_string(dir.join("krb5.conf")).expect("the realm has it");
    assert!(ended.stdout.contains(&configuration) && ended.stdout.contains("host/"), "{ended:?}");
    assert!(of_the_machine() == before && !Path::new("/etc/orthrus-was-here").exists());
    assert_eq!(fs::read_dir(folder.path().join("tmp")).expect("it is ours").count(), 0, "files stay");
    let ended = run(orthrus(["realm", "shell"]).arg(folder.path()));
    assert!(!ended.status.success() && ended.stderr.contains("realm"), "{ended:?}");
}

#[test]
fn a_realm_shell_that_is_terminated_leaves_no_folder_and_no_process() {
    if !is_root() {
        return println!("skipped: only root can mount");
    }
    if !is_installed("krb5kdc", "krb5-kdc") || !is_installed("unshare", "util-linux") {
        return;
    }
    let folder = empty_folder();
    let (dir, tmp) = (folder.path().join("a realm"), folder.path().join("tmp"));
    let up = run(orthrus(["realm", "up"]).arg(&dir));
    let _down = RealmGuard(&dir);
    // The commands of the instructions are for a shell.
    let env = up.stdout.lines().find_map(|line| line.trim().strip_prefix(". ")).expect("it names the file");
    let (env, _) = env.split_once("  ").expect("a remark follows");
    assert!(run(Command::new("sh").args(["-c", &format!(". {env}")])).status.success(), "{env}");
    fs::create_dir(&tmp).expect("the folder is ours");
    for signal in ["HUP", "TERM"] {
        let ready = folder.path().join(signal);
        let script = format!("touch {}; exec sleep 1000", ready.display());
        let mut shell = Command::new("unshare");
        // A test that runs below `nohup` ignores SIGHUP.
        shell.args(["--net", "--", "env", "--default-signal=HUP"]);
        shell.arg(e2e::program()).args(["realm", "shell"]).arg(&dir);
        let mut shell =
            shell.args(["--", "sh", "-c", &script]).env("TMPDIR", &tmp).spawn().expect("it starts");
        let end = Instant::now() + Duration::from_secs(60);
        while !ready.exists() {
            assert!(Instant::now() < end, "the shell does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        // unshare and env have become the program.
        let sent = run(Command::new("kill").arg(format!("-{signal}")).arg(shell.id().to_string()));
        assert!(sent.status.success(), "{sent:?}");
        let status = shell.wait().expect("it ends");
        assert_eq!(status.code(), Some(129), "the shell gets SIGHUP");
        assert_eq!(fs::read_dir(&tmp).expect("it is ours").count(), 0, "files stay");
    }
}
