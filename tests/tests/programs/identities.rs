//! Identities of a running server: refreshed in live contexts, never silently wrong.

use client::{Filesystem, Flavor, Options, Security, SysCredential};
use e2e::{Serve, Server, World, account, in_world, is_root, orthrus, run, status};
use nfs4::Nfsstat4::*;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, chown};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a change may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// A group that no machine has.
const GROUP: u32 = 54_321;

/// Gives this thread, and the programs that it starts, mounts of its own; `None` with the reason
/// where it cannot.
fn own_mounts() -> Option<()> {
    if !is_root() {
        eprintln!("skipped: only a server of root serves several users");
        return None;
    }
    unshare(CloneFlags::CLONE_NEWNS).expect("root may");
    mount(&["--make-rprivate", "/"]);
    Some(())
}

fn mount(arguments: &[&str]) {
    assert!(Command::new("mount").args(arguments).status().expect("it is installed").success());
}

/// Replaces a file of /etc by a copy that the test can change; returns the copy.
fn replace(world: &World, file: &str) -> PathBuf {
    let copy = world.path(Path::new(file).file_name().expect("a file").to_str().expect("text"));
    fs::copy(file, &copy).expect("there is room");
    mount(&["--bind", copy.to_str().expect("text"), file]);
    copy
}

/// Makes the test's module a service of nsswitch.conf. Returns the folder of its library.
fn replace_services(world: &World) -> PathBuf {
    let folder = world.path("nss");
    fs::create_dir(&folder).expect("a new name");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/identity/tests/unavailable.c");
    let library = folder.join("libnss_orthrustest.so.2");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(built.expect("a C compiler").success());
    let conf = world.path("nsswitch.conf");
    fs::write(&conf, "passwd: files orthrustest\ngroup: files orthrustest\n").expect("it is ours");
    mount(&["--bind", conf.to_str().expect("text"), "/etc/nsswitch.conf"]);
    folder
}

/// A server with these settings, and alice and bob as in [`World::bare_server`].
fn serve(world: &World, settings: &str) -> Server {
    let mut text = format!("keytab = {:?}\n{settings}\n[principals]\n", world.realm.server_keytab());
    for user in ["alice", "bob"] {
        text += &format!("\"{user}@{}\" = {:?}\n", world.realm.name(), account(user).name);
    }
    let sys = "sec = [\"krb5p\", \"sys\"]\nsecure = false\n";
    text += &format!("[[export]]\npath = {:?}\n{sys}", world.export());
    let config = world.path("orthrus.toml");
    fs::write(&config, text).expect("the folder is ours");
    let folder = world.path("nss");
    Serve::new(world.path("state")).arg("--config").arg(config).env("LD_LIBRARY_PATH", folder).start()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_user_that_joins_a_group_need_not_wait_for_a_new_ticket() {
    in_world(|world| {
        if own_mounts().is_none() {
            return;
        }
        let groups = replace(world, "/etc/group");
        let (file, joined) = (world.export().join("file"), account("alice").name);
        fs::write(&file, b"for the group").expect("it is ours");
        chown(&file, None, Some(Gid::from_raw(GROUP))).expect("root may");
        fs::set_permissions(&file, Permissions::from_mode(0o040)).expect("root may");
        let server = serve(world, "identity.refresh = 86400");
        let mut files = world.mount(&server, "alice", Flavor::Krb5p);
        assert_eq!(status(files.read_file("file")), NFS4ERR_ACCESS);
        let before = fs::read_to_string(&groups).expect("text");
        fs::write(&groups, format!("{before}orthrusgroup:x:{GROUP}:{joined}\n")).expect("it is ours");
        server.signal(Signal::SIGHUP);
        until("SIGHUP refreshes the context", || files.read_file("file").is_ok());
        server.wait_for_log("acts as uid");
        drop(server);

        let server = serve(world, "grace_time = 0\nidentity.refresh = 2");
        let mut files = world.mount(&server, "alice", Flavor::Krb5p);
        files.read_file("file").expect("it is still in the group");
        fs::write(&groups, before).expect("it is ours");
        until("the context is refreshed by itself", || files.read_file("file").is_err());
        assert_eq!(status(files.read_file("file")), NFS4ERR_ACCESS);
    });
}

#[test]
fn users_without_an_account_are_logged_once_and_counted_or_refused() {
    in_world(|world| {
        let carol = |server: &Server| {
            let options = world.options(server, "alice", Flavor::Krb5);
            client::Client::connect(options).map(drop)
        };
        let config = |unknown: &str| {
            let text = format!(
                "keytab = {:?}\nrealms = [\"ELSEWHERE\"]\nidentity.unknown = {unknown:?}\n[[export]]\npath = {:?}\n",
                world.realm.server_keytab(),
                world.export()
            );
            let config = world.path("orthrus.toml");
            fs::write(&config, text).expect("the folder is ours");
            Serve::new(world.path("state")).arg("--config").arg(config)
        };
        let server = config("anonymous").start();
        (0..3).for_each(|_| carol(&server).expect("nobody may connect"));
        let name = format!("alice@{}", world.realm.name());
        server.wait_for_log(&format!("{name} acts as nobody: users of realm"));
        assert_eq!(server.log().matches("acts as nobody").count(), 1, "{}", server.log());
        server.signal(Signal::SIGUSR1);
        server.wait_for_log("contexts_of_nobody=3");
        drop(server);
        let server = config("refused").start();
        carol(&server).expect_err("the context is refused");
        server.wait_for_log("[identity] unknown = \"refused\"");
    });
}

/// With slapd stopped, libnss-ldapd is unavailable and sets ENOENT. Its user must not become
/// nobody.
#[test]
fn an_unavailable_name_service_delays_a_context_until_it_is_back() {
    in_world(|world| {
        if own_mounts().is_none() {
            return;
        }
        let folder = replace_services(world);
        let (groups_down, users) = (world.path("groups-down"), replace(world, "/etc/passwd"));
        let text = format!(
            "keytab = {:?}\n[principals]\n\"alice@{}\" = \"unavailable\"\n[[export]]\npath = {:?}\n",
            world.realm.server_keytab(),
            world.realm.name(),
            world.export()
        );
        let config = world.path("orthrus.toml");
        fs::write(&config, text).expect("the folder is ours");
        let server = Serve::new(world.path("state")).arg("--config").arg(config);
        let server = server.env("LD_LIBRARY_PATH", &folder).env("ORTHRUS_TEST_GROUPS_DOWN", &groups_down);
        let server = server.start();
        let connect = || client::Client::connect(world.options(&server, "alice", Flavor::Krb5p)).map(drop);
        let error = connect().expect_err("the account is unavailable");
        assert!(format!("{error:?}").contains("SYSTEM_ERR"), "{error:?}");
        server.wait_for_log("context not created yet");
        assert!(!server.log().contains("nobody"), "{}", server.log());
        let mut text = fs::read_to_string(&users).expect("text");
        text += "unavailable:x:4711:4711::/:/bin/false\n";
        fs::write(&users, text).expect("it is ours");
        connect().expect("the account is there");
    });
}

/// RFC 5531 appendix A: a credential has room for 16 groups.
#[test]
fn an_auth_sys_caller_has_all_groups_of_its_account_and_no_others() {
    in_world(|world| {
        if own_mounts().is_none() {
            return;
        }
        replace_services(world);
        let groups = replace(world, "/etc/group");
        let (user, mut text) = (account("alice"), fs::read_to_string(&groups).expect("text"));
        text += &(0..40).map(|i| format!("g{i}:x:{}:{}\n", GROUP + i, user.name)).collect::<String>();
        fs::write(&groups, text).expect("it is ours");
        let file = |name: &str, group: u32| {
            let file = world.export().join(name);
            fs::write(&file, b"for a group").expect("it is ours");
            chown(&file, None, Some(Gid::from_raw(group))).expect("root may");
            fs::set_permissions(&file, Permissions::from_mode(0o040)).expect("root may");
        };
        (0..40).for_each(|i| file(&format!("own{i}"), GROUP + i));
        file("foreign", GROUP + 40);
        let claims = |uid: u32| match Security::sys_as(uid, user.gid.as_raw()) {
            Security::Sys(sys) => Security::Sys(SysCredential { gids: vec![GROUP + 40], ..sys }),
            other => other,
        };
        let options = |server: &Server, uid| {
            let options = Options::new("127.0.0.1", claims(uid)).port(server.port());
            Options { delay_max: Duration::ZERO, ..options }
        };
        let mount = |server: &Server| {
            let options = options(server, user.uid.as_raw());
            Filesystem::mount(options, "/export").expect("it is exported")
        };
        let server = serve(world, "identity.groups = \"client\"");
        let mut files = mount(&server);
        files.read_file("foreign").expect("the client's word counts");
        assert_eq!(status(files.read_file("own39")), NFS4ERR_ACCESS);
        drop(server);
        let server = serve(world, "identity.groups = \"server\"\ngrace_time = 0");
        let mut files = mount(&server);
        (0..40).for_each(|i| drop(files.read_file(&format!("own{i}")).expect("it is a member")));
        assert_eq!(status(files.read_file("foreign")), NFS4ERR_ACCESS);
        // The module is unavailable for this uid.
        let error = Filesystem::mount(options(&server, 4711), "/export")
            .map(drop)
            .expect_err("its groups are unknown");
        assert_eq!(error.status(), Some(NFS4ERR_DELAY), "{error}");
        server.wait_for_log("its groups are unknown");
    });
}

#[test]
fn the_identity_of_a_principal_is_explained_step_by_step() {
    in_world(|world| {
        let config = world.path("orthrus.toml");
        let text = format!(
            "keytab = {:?}\n[[identity.source]]\nkind = \"static\"\nusers.alice = {{ uid = 5, gid = 6, groups = [7, 0] }}\n\
             [[identity.source]]\nkind = \"nss\"\nrealms = [\"ELSEWHERE\"]\n\
             [[export]]\nmemory = 1048576\npseudo = \"/own\"\n\
             [[export]]\nmemory = 1048576\npseudo = \"/all\"\nsquash = \"all\"\nanon_uid = 99\n",
            world.realm.server_keytab()
        );
        fs::write(&config, text).expect("the folder is ours");
        let id = |principal: &str, json: &[&str]| {
            let mut command = orthrus(["id", principal, "--config"]);
            run(command.arg(&config).args(json))
        };
        let realm = world.realm.name();
        let alice = id(&format!("alice@{realm}"), &[]);
        assert!(alice.status.success(), "{alice:?}");
        let expected = format!(
            "realm    {realm} is in `realms`\nrule     DEFAULT gives user \"alice\"\nsource   1 static\n\
             query    user alice\nanswer   uid 5, gid 6, 2 groups\nexport   /own: uid 5, gid 6, 2 groups\n\
             export   /all: uid 99, gid 65534, 0 groups\n"
        );
        assert_eq!(alice.stdout, expected);
        let json = id(&format!("alice@{realm}"), &["--json"]);
        let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("it is JSON");
        assert_eq!(json["identity"]["uid"], 5);
        assert_eq!(json["exports"]["/own"]["groups"], serde_json::json!([7, 65534]), "group 0 is squashed");
        assert_eq!(json["exports"]["/all"]["uid"], 99);
        assert_eq!(json["steps"][4]["kind"], "answer");
        let bob = id(&format!("bob@{realm}"), &["--json"]);
        assert_eq!(bob.status.code(), Some(1));
        let json: serde_json::Value = serde_json::from_str(&bob.stdout).expect("it is JSON");
        assert_eq!(
            (&json["identity"], &json["exports"]["/own"]["uid"]),
            (&serde_json::Value::Null, &65534.into())
        );
        assert!(json["reason"].as_str().is_some_and(|why| why.contains("no account \"bob\"")), "{json}");
        assert!(id("eve@ELSEWHERE", &[]).stderr.contains("no local users"));
    });
}
