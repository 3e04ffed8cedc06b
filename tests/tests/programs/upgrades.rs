//! Upgrades: the server goes on in another process, and clients notice at most a pause.

use client::{Client, Filesystem, Flavor, OpenHow, Options, Security};
use e2e::upgrade::{fail_under_load, open_files, upgrade_under_load};
use e2e::{
    Disk, Ended, Installation, Serve, Server, children, data_folder, empty_folder, found, in_own_mounts,
    in_world, is_root, next_program, orthrus, program, run, status,
};
use handover::HandoverImage;
use nfs4::{NfsLockType4, OPEN4_SHARE_ACCESS_READ};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Upgrades of each flavor; `cargo xtask upgrade` makes more.
const ROUNDS: usize = 4;

/// The variable with the name of a file for the image of a server with every kind of state:
/// `crates/handover/tests/compatibility.rs` reads the image of each version.
const SAVE: &str = "ORTHRUS_UPGRADE_IMAGE";

/// A number that `cargo xtask upgrade` gives.
fn told(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn clients_of_every_flavor_work_through_upgrades_to_the_next_version_and_back() {
    // RFC 8881 sections 2.10.6, 8.4, 9 and 10.4
    // Built before the test goes on in its realm.
    let _ = next_program();
    in_world(|world| {
        let rounds = told("ORTHRUS_UPGRADE_ROUNDS").map_or(ROUNDS, |rounds| rounds as usize);
        let seed = told("ORTHRUS_UPGRADE_SEED").unwrap_or(1);
        let mut all = Vec::new();
        for flavor in [Flavor::Sys, Flavor::Krb5, Flavor::Krb5i, Flavor::Krb5p] {
            let upgraded = upgrade_under_load(world, flavor, rounds, seed);
            eprintln!("{upgraded}");
            all.push(upgraded.json());
        }
        if let Some(path) = std::env::var_os("ORTHRUS_UPGRADE_JSON") {
            let text = serde_json::Value::from(all).to_string();
            std::fs::write(path, text).expect("a file for the result");
        }
    });
}

/// Returns the program that fails at a step of the handover in a way.
fn faulty(installation: &Installation, step: &str, kind: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_faulty-successor"));
    installation.add(&format!("orthrus-{step}-{kind}"), program)
}

fn upgrade(server: &Server, binary: Option<&Path>) -> Ended {
    run(&mut server.upgrade_command(binary))
}

/// Checks that an upgrade fails with a message, and that the server goes on.
fn refused(server: &mut Server, binary: Option<&Path>, messages: &[&str]) {
    let ended = upgrade(server, binary);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    for message in messages.iter().chain(&["the server goes on as before"]) {
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
    }
    assert!(server.is_running());
}

const STEPS: [&str; 6] = ["hello", "prepared", "take", "descriptors", "restored", "go"];

#[test]
fn a_next_process_that_fails_at_any_step_changes_nothing_for_clients() {
    in_world(|world| {
        let installed = Installation::with_program();
        let mut failures = Vec::new();
        for step in STEPS {
            failures.push((faulty(&installed, step, "die"), "has ended"));
            failures.push((faulty(&installed, step, "close"), "has ended"));
            failures.push((faulty(&installed, step, "refuse"), "a reason to refuse"));
            failures.push((faulty(&installed, step, "garbage"), "means nothing"));
            failures.push((faulty(&installed, step, "early"), "out of order"));
        }
        failures.push((faulty(&installed, "hello", "major"), "restart the server instead"));
        failures.push((faulty(&installed, "restored", "hang"), "does not answer"));
        failures.push((faulty(&installed, "go", "hang"), "does not answer"));
        let server = world.server().program(installed.program());
        let mut server = server.args(["--delegations", "all"]).start();
        fail_under_load(world, &mut server, Flavor::Krb5p, &failures);
    });
}

#[test]
fn failed_upgrades_leave_no_descriptor_and_no_process_behind() {
    let (folder, installed) = (empty_folder(), Installation::with_program());
    let server = Serve::new(folder.path().join("state")).program(installed.program());
    let mut server = server.arg(data_folder(&folder)).start();
    let starter = children(server.pid());
    let starter: u32 = starter.trim().parse().expect("a server has one process below it");
    let (mut before, mut files_before) = (None, None);
    for step in STEPS {
        let kind = if step == "hello" { "die" } else { "close" };
        refused(&mut server, Some(&faulty(&installed, step, kind)), &["has ended"]);
        // The first attempt opens what stays open, such as the socket of the service manager.
        let now = open_files(server.pid());
        assert_eq!(*before.get_or_insert(now), now, "after {step}");
        assert_eq!(children(starter), "");
        assert_eq!(*files_before.get_or_insert(open_files(starter)), open_files(starter), "after {step}");
    }
}

#[test]
fn the_next_process_is_the_first_to_end_when_memory_runs_out_until_it_serves() {
    // proc_pid_oom_score_adj(5)
    let (folder, installed) = (empty_folder(), Installation::with_program());
    let server = Serve::new(folder.path().join("state")).program(installed.program());
    let mut server = server.arg(data_folder(&folder)).start();
    let score = |process: u32| {
        let score = fs::read_to_string(format!("/proc/{process}/oom_score_adj")).ok()?;
        score.trim().parse::<i32>().ok()
    };
    let child = |process| children(process).trim().parse::<u32>().ok();
    let (starter, before) = (child(server.pid()).expect("its starter"), score(server.pid()));
    let mut command = server.upgrade_command(Some(&faulty(&installed, "prepared", "hang")));
    let asking = std::thread::spawn(move || run(&mut command));
    let hung = found("the next process waits for the image", || {
        // The real program below the one that hangs.
        let hung = child(starter)?;
        (score(child(hung)?) == Some(1000)).then_some(hung)
    });
    assert_eq!(score(server.pid()), before);
    kill(Pid::from_raw(hung.cast_signed()), Signal::SIGKILL).expect("it is ours");
    assert_eq!(asking.join().expect("the command ends").status.code(), Some(1));
    server.upgrade(None);
    assert_eq!(score(server.pid()), before);
}

#[test]
fn a_server_whose_starter_has_ended_is_to_be_restarted() {
    let folder = empty_folder();
    let mut server = Serve::new(folder.path().join("state")).arg(data_folder(&folder)).start();
    let starter: i32 = children(server.pid()).trim().parse().expect("a server has one process below it");
    kill(Pid::from_raw(starter), Signal::SIGKILL).expect("it is ours");
    refused(&mut server, None, &["orthrus starter", "restart the server instead"]);
}

#[test]
fn a_program_that_others_could_change_or_of_another_folder_is_refused() {
    let (folder, installed) = (empty_folder(), Installation::with_program());
    let server = Serve::new(folder.path().join("state")).program(installed.program());
    let mut server = server.arg(data_folder(&folder)).start();
    let other = installed.add("other", program());
    refused(&mut server, Some(&other), &["begins with \"orthrus\"", "put"]);
    refused(&mut server, Some(program()), &["beside it"]);
    let copy = installed.path("orthrus-copy");
    fs::copy(program(), &copy).expect("the folder is ours");
    fs::set_permissions(&copy, Permissions::from_mode(0o775)).expect("the folder is ours");
    refused(&mut server, Some(&copy), &["others can change it", "chmod go-w"]);
    fs::set_permissions(&copy, Permissions::from_mode(0o644)).expect("the folder is ours");
    refused(&mut server, Some(&copy), &["no program", "--binary"]);
    refused(&mut server, Some(&installed.path("orthrus-absent")), &["absent", "cannot be opened"]);
    fs::set_permissions(&copy, Permissions::from_mode(0o755)).expect("the folder is ours");
    if is_root() {
        chown(&copy, Some(12345), None).expect("root may");
        refused(&mut server, Some(&copy), &["belongs to the user with the id 12345"]);
        chown(&copy, Some(0), None).expect("root may");
    }
    server.upgrade(Some(&copy));
}

/// Returns `orthrus upgrade --if-replaced` of the installed program, as `systemctl reload` runs it.
fn if_replaced(installed: &Installation, state: &Path) -> Command {
    let mut command = Command::new(installed.program());
    command.args(["upgrade", "--json", "--if-replaced", "--state-dir"]).arg(state);
    command
}

#[test]
fn the_program_of_the_unit_replaces_that_of_a_former_upgrade() {
    let (folder, installed) = (empty_folder(), Installation::with_program());
    let state = folder.path().join("state");
    let server = Serve::new(&state).program(installed.program());
    let mut server = server.arg(data_folder(&folder)).start();
    let other = installed.path("orthrus-hotfix");
    fs::copy(program(), &other).expect("the folder is ours");
    server.upgrade(Some(&other));
    let report = server.upgrade_by(&mut if_replaced(&installed, &state));
    assert_eq!(report["program"], installed.program().display().to_string());
    let ended = run(&mut if_replaced(&installed, &state));
    assert!(ended.status.success() && ended.stdout.contains("\"upgraded\":null"), "{ended:?}");
}

#[test]
fn a_main_process_of_systemd_without_a_notify_socket_is_not_upgraded() {
    // systemd.exec(5), SYSTEMD_EXEC_PID
    let folder = empty_folder();
    let systemd = ["sh", "-c", "SYSTEMD_EXEC_PID=$$ exec \"$@\"", "sh"];
    let server = Serve::new(folder.path().join("state")).arg(data_folder(&folder));
    let mut server = server.behind(systemd.map(str::to_owned)).start();
    refused(&mut server, None, &["NOTIFY_SOCKET", "restart the server"]);
}

#[test]
fn another_address_with_the_port_of_the_running_server_needs_a_restart() {
    let folder = empty_folder();
    let config = folder.path().join("orthrus.toml");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let (old, new) = (format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}"));
    let with = |metrics: &str| {
        let export =
            format!("path = {:?}\npseudo = \"/e\"\nsec = [\"sys\"]\nsecure = false\n", data_folder(&folder));
        fs::write(&config, format!("metrics = {metrics:?}\n[[export]]\n{export}")).expect("it is ours");
    };
    with(&old);
    let mut server = Serve::new(folder.path().join("state")).arg("--config").arg(&config).start();
    with(&new);
    refused(&mut server, None, &[&format!("listens at {old}"), &new, "needs a restart"]);
}

#[test]
fn locks_that_local_programs_do_not_see_stay_so_until_a_restart() {
    // docs/upgrade.md
    let folder = empty_folder();
    let config = folder.path().join("orthrus.toml");
    let with = |local_locks: bool| {
        let export =
            format!("path = {:?}\npseudo = \"/e\"\nsec = [\"sys\"]\nsecure = false\n", data_folder(&folder));
        let text = format!("local_locks = {local_locks}\n[[export]]\n{export}");
        fs::write(&config, text).expect("the folder is ours");
    };
    with(false);
    let data = data_folder(&folder);
    fs::write(data.join("file"), b"locked").expect("the folder is ours");
    fs::set_permissions(data.join("file"), Permissions::from_mode(0o666)).expect("it is ours");
    fs::set_permissions(&data, Permissions::from_mode(0o755)).expect("it is ours");
    let mut server = Serve::new(folder.path().join("state")).arg("--config").arg(&config).start();
    let mut client = connect(&server);
    let file = client.open_path("/e/file", &OpenHow::write()).expect("it is there");
    let lock = client.lock(&file, b"owner", NfsLockType4::WRITE_LT, 0, 9).expect("it answers");
    lock.expect("nobody has locked it");
    with(true);
    server.upgrade(None);
    server.wait_for_log("local_locks = true takes effect with the next restart");
}

#[test]
fn an_account_that_the_next_process_does_not_give_is_taken_from_live_contexts() {
    // docs/upgrade.md
    in_world(|world| {
        if !is_root() {
            return eprintln!("skipped: only root acts as its callers");
        }
        let config = world.path("orthrus.toml");
        let with = |uid: u32| {
            let text = format!(
                "keytab = {:?}\nidentity.refresh = 86400\n[[identity.source]]\nkind = \"static\"\n\
                 users.alice = {{ uid = {uid}, gid = {uid} }}\n[[export]]\npath = {:?}\nsecure = false\n",
                world.realm.server_keytab(),
                world.export()
            );
            fs::write(&config, text).expect("the folder is ours");
        };
        let file = world.export().join("private");
        fs::write(&file, b"private").expect("the folder is ours");
        chown(&file, Some(5001), Some(5001)).expect("root may");
        fs::set_permissions(&file, Permissions::from_mode(0o400)).expect("root may");
        fs::set_permissions(world.export(), Permissions::from_mode(0o755)).expect("root may");
        with(5001);
        let mut server = Serve::new(world.path("state")).arg("--config").arg(&config).start();
        let mut files = world.mount(&server, "alice", Flavor::Krb5p);
        files.read_file("private").expect("it is hers");
        with(6001);
        server.upgrade(None);
        let end = Instant::now() + Duration::from_secs(10);
        while files.read_file("private").is_ok() {
            assert!(Instant::now() < end, "the old account is in use");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(status(files.read_file("private")), nfs4::Nfsstat4::NFS4ERR_ACCESS);
    });
}

#[test]
fn a_replaced_program_that_is_refused_is_no_reload() {
    let (folder, installed) = (empty_folder(), Installation::with_program());
    let server = Serve::new(folder.path().join("state")).program(installed.program());
    let _server = server.arg(data_folder(&folder)).start();
    let upgrade_if_replaced = || run(&mut if_replaced(&installed, &folder.path().join("state")));
    assert!(upgrade_if_replaced().status.success(), "there is nothing to do");
    let new = installed.path("orthrus.new");
    fs::copy(program(), &new).expect("the folder is ours");
    fs::set_permissions(&new, Permissions::from_mode(0o775)).expect("the folder is ours");
    fs::rename(&new, installed.program()).expect("the folder is ours");
    let ended = upgrade_if_replaced();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("others can change it"), "{}", ended.stderr);
}

#[test]
fn client_records_that_a_full_disk_kept_in_memory_are_written_before_the_next_process_reads_them() {
    in_own_mounts(|| {
        let (folder, export) = (empty_folder(), empty_folder());
        let disk = Disk::tmpfs(folder.path(), "small", 1 << 20);
        let state = disk.path().join("state");
        let mut server = Serve::new(&state).arg(export.path()).start();
        let filler = disk.path().join("filler");
        let full = fs::write(&filler, vec![0; 2 << 20]);
        assert!(full.is_err(), "the disk has room");
        let mut client = connect(&server);
        client.lookup_path("/").expect("clients are served");
        server.wait_for_log("a client could not be recorded");
        refused(&mut server, None, &["make room there"]);
        fs::remove_file(&filler).expect("it is ours");
        server.upgrade(None);
        let records = fs::read_to_string(state.join("clients")).expect("it is there");
        assert_eq!(records.lines().count(), 1, "{records}");
        client.lookup_path("/").expect("known clients are served");
    });
}

/// Connects a client that has reclaimed all that it wants to.
fn connect(server: &Server) -> Client {
    let options = Options::new("127.0.0.1", Security::sys_as(1000, 1000)).port(server.port());
    Client::connect(options).expect("it serves")
}

#[test]
fn a_fault_in_the_configuration_of_the_next_process_is_named_and_the_old_one_goes_on() {
    let folder = empty_folder();
    let config = folder.path().join("orthrus.toml");
    let with = |more: &str| {
        let export =
            format!("path = {:?}\npseudo = \"/e\"\nsec = [\"sys\"]\nsecure = false\n", data_folder(&folder));
        fs::write(&config, format!("{more}\n[[export]]\n{export}")).expect("the folder is ours");
    };
    with("");
    let mut server = Serve::new(folder.path().join("state")).arg("--config").arg(&config).start();
    with("leasetime = 90");
    refused(&mut server, None, &["leasetime"]);
    with("shards = 3\nlease_time = 30");
    let before = server.pid();
    server.upgrade(None);
    assert_ne!(server.pid(), before);
    // A key that a reload cannot change is in force.
    let threads = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    let shards = threads.filter_map(|task| Some(name(task.ok()?))).filter(|name| name.starts_with("shard"));
    assert_eq!(shards.count(), 3);
    // RFC 8881 section 8.4.2: clients ask for the lease only with a new client ID.
    server.wait_for_log("clients know 60 s");
}

#[test]
fn the_files_of_an_export_that_the_next_process_does_not_serve_are_closed() {
    let (folder, exported) = (empty_folder(), empty_folder());
    let config = folder.path().join("orthrus.toml");
    let export = |name: &str| {
        let path = exported.path().join(name);
        fs::create_dir_all(&path).expect("the folder is ours");
        fs::write(path.join("file"), name).expect("the folder is ours");
        format!("[[export]]\npath = {path:?}\npseudo = \"/{name}\"\nsec = [\"sys\"]\nsecure = false\n")
    };
    fs::write(&config, export("goes") + &export("stays")).expect("the folder is ours");
    let mut server = Serve::new(folder.path().join("state")).arg("--config").arg(&config).start();
    let mut client = connect(&server);
    for path in ["/goes/file", "/stays/file"] {
        client.open_path(path, &OpenHow::read()).expect("it is there");
    }
    fs::write(&config, export("stays")).expect("the folder is ours");
    server.upgrade(None);
    let has_open = |name: &str| {
        let path = exported.path().join(name).join("file");
        let files = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("it runs");
        files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|link| link == path))
    };
    assert!(has_open("stays"));
    let end = Instant::now() + Duration::from_secs(10);
    while has_open("goes") {
        assert!(Instant::now() < end, "its file system cannot be unmounted");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_opens_of_an_export_that_another_file_system_serves_are_revoked() {
    // RFC 8881 section 15.1.2.9
    in_own_mounts(|| {
        let (folder, before) = (empty_folder(), empty_folder());
        let disk = Disk::tmpfs(folder.path(), "other", 1 << 20);
        fs::write(before.path().join("file"), "before").expect("the folder is ours");
        fs::set_permissions(before.path(), Permissions::from_mode(0o755)).expect("it is ours");
        let config = folder.path().join("orthrus.toml");
        let serve = |path: &Path| {
            let export =
                format!("[[export]]\npath = {path:?}\npseudo = \"/e\"\nsec = [\"sys\"]\nsecure = false\n");
            fs::write(&config, export).expect("the folder is ours");
        };
        serve(before.path());
        let mut server = Serve::new(folder.path().join("state")).arg("--config").arg(&config).start();
        let mut client = connect(&server);
        client.open_path("/e/file", &OpenHow::read()).expect("it is there");
        serve(disk.path());
        server.upgrade(None);
        let open = before.path().join("file");
        let end = Instant::now() + Duration::from_secs(10);
        while fs::read_dir(format!("/proc/{}/fd", server.pid()))
            .expect("it runs")
            .flatten()
            .any(|file| fs::read_link(file.path()).is_ok_and(|link| link == open))
        {
            assert!(Instant::now() < end, "its file system cannot be unmounted");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

#[test]
fn files_in_memory_are_not_handed_over() {
    let folder = empty_folder();
    let mut server = Serve::new(folder.path().join("state")).args(["--memory", "16"]).start();
    refused(&mut server, None, &["/memory", "restart the server instead"]);
}

#[test]
fn a_server_that_is_to_end_ends_also_while_a_next_process_hangs() {
    let (folder, installed) = (empty_folder(), Installation::with_program());
    let server = Serve::new(folder.path().join("state")).program(installed.program());
    let mut server = server.arg(data_folder(&folder)).start();
    for step in ["hello", "restored"] {
        let mut command = server.upgrade_command(Some(&faulty(&installed, step, "hang")));
        let asking = std::thread::spawn(move || run(&mut command));
        server.wait_for_log("upgrade to");
        server.signal(Signal::SIGTERM);
        let (status, _) = server.wait();
        assert!(status.success(), "{status}");
        let ended = asking.join().expect("the command ends");
        assert_ne!(ended.status.code(), Some(0));
        server.restart();
    }
}

#[test]
fn without_an_answer_the_status_tells() {
    let (folder, installed) = (empty_folder(), Installation::with_program());
    let server = Serve::new(folder.path().join("state")).program(installed.program());
    let mut server = server.arg(data_folder(&folder)).start();
    let mut command = server.upgrade_command(Some(&faulty(&installed, "hello", "hang")));
    let asking = std::thread::spawn(move || run(&mut command));
    server.wait_for_log("upgrade to");
    server.kill();
    let ended = asking.join().expect("the command ends");
    assert_eq!(ended.status.code(), Some(4), "{}", ended.stderr);
    assert!(ended.stderr.contains("which process serves"), "{}", ended.stderr);
}

#[test]
fn without_a_server_the_status_tells() {
    let folder = empty_folder();
    let mut server = Serve::new(folder.path().join("state")).arg(data_folder(&folder)).start();
    server.kill();
    let ended = upgrade(&server, None);
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("--state-dir"));
}

#[test]
fn a_drain_goes_on_and_ends_the_next_process_with_the_last_client() {
    let folder = empty_folder();
    let state = folder.path().join("state");
    let mut server = Serve::new(&state).arg(data_folder(&folder)).start();
    let options = Options::new("127.0.0.1", Security::sys()).port(server.port());
    let mut client = Client::connect(options.clone()).expect("it serves");
    let drain = ["drain", "--no-wait", "--state-dir", state.to_str().expect("UTF-8")];
    assert!(run(&mut orthrus(drain)).status.success());
    server.upgrade(None);
    client.lookup_path("/").expect("known clients are served");
    let refused = Client::connect(Options { delay_max: Duration::ZERO, ..options });
    assert!(refused.is_err(), "new clients are not served");
    client.close().expect("it is there");
    let (process, end) = (format!("/proc/{}", server.pid()), Instant::now() + Duration::from_secs(20));
    while Path::new(&process).exists() {
        assert!(Instant::now() < end, "it serves no client, and has not ended");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_image_of_a_server_with_clients_can_be_read() {
    in_world(|world| {
        let installed = Installation::with_program();
        let server = world.server().program(installed.program());
        let mut server = server.args(["--delegations", "all"]).start();
        let mut clients = Vec::new();
        for flavor in [Flavor::Sys, Flavor::Krb5, Flavor::Krb5i, Flavor::Krb5p] {
            let options = Options {
                connections: 2,
                minor_version: 2,
                backchannel: true,
                callback_service: flavor.service(),
                ..world.options(&server, "alice", flavor)
            };
            let mut files = Filesystem::mount(options, "/export").expect("it is exported");
            let name = format!("file-{flavor}");
            files.write_file(&name, b"content").expect("there is room");
            let file = files.open(&name, &OpenHow::create(0o600)).expect("it is there");
            let client = files.client();
            let lock = client.lock(&file, b"owner", NfsLockType4::WRITE_LT, 3, 4).expect("it answers");
            lock.expect("nobody has locked it");
            let how = OpenHow { access: OPEN4_SHARE_ACCESS_READ, ..OpenHow::new(0) };
            let path = format!("other-{flavor}");
            files.write_file(&path, b"content").expect("there is room");
            files.open(&path, &how).expect("it is there");
            clients.push(files);
        }
        refused(&mut server, Some(&faulty(&installed, "take", "save")), &["has ended"]);
        let path = installed.path("image");
        let bytes = fs::read(&path).expect("it was saved");
        let image = HandoverImage::read(&bytes).expect("it is an image");
        assert_eq!(image.net.len(), 8);
        if let Some(path) = std::env::var_os(SAVE) {
            fs::write(path, bytes).expect("a file for the image");
        }
    });
}
