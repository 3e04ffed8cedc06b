//! Identities of a running server: refreshed in live contexts, never silently wrong.

use client::{Filesystem, Flavor, Options, Security, SysCredential};
use e2e::{Serve, Server, World, account, in_world, is_root, nobody, orthrus, run, status, until};
use nfs4::Nfsstat4::*;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, chown};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

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

/// Writes a configuration with alice in a table, and two exports that squash differently.
fn explained(world: &World) -> PathBuf {
    let config = world.path("orthrus.toml");
    let text = format!(
        "keytab = {:?}\n[[identity.source]]\nkind = \"static\"\nusers.alice = {{ uid = 5, gid = 6, groups = [7, 0] }}\n\
         [[identity.source]]\nkind = \"nss\"\nrealms = [\"ELSEWHERE\"]\n\
         [[export]]\nmemory = 1048576\npseudo = \"/own\"\n\
         [[export]]\nmemory = 1048576\npseudo = \"/all\"\nsquash = \"all\"\nanon_uid = 99\n",
        world.realm.server_keytab()
    );
    fs::write(&config, text).expect("the folder is ours");
    config
}

/// The output of `orthrus id` about alice.
fn trace(realm: &str, from: &str, cache: &str) -> String {
    format!(
        "from     {from}\nrealm    {realm} is in `realms`\nrule     DEFAULT gives user \"alice\"\n\
         source   1 static\nquery    user alice\nanswer   uid 5, gid 6, 2 groups\n{cache}\
         export   /all: uid 99, gid 65534, 0 groups\nexport   /own: uid 5, gid 6, 2 groups\n"
    )
}

#[test]
fn the_identity_of_a_principal_is_explained_step_by_step() {
    in_world(|world| {
        let config = explained(world);
        let id = |principal: &str, json: &[&str]| {
            let mut command = orthrus(["id", principal, "--offline", "--config"]);
            run(command.arg(&config).args(json))
        };
        let realm = world.realm.name();
        let alice = id(&format!("alice@{realm}"), &[]);
        assert!(alice.status.success(), "{alice:?}");
        assert_eq!(alice.stdout, trace(realm, "the configuration: --offline", ""));
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
        let odd = id("e\u{9b}31m@ELSEWHERE", &["--json"]);
        assert!(odd.stdout.contains(r"e\u009b31m@ELSEWHERE"), "it steers no terminal: {odd:?}");
    });
}

#[test]
fn a_running_server_explains_an_identity_even_if_its_file_has_changed_since() {
    in_world(|world| {
        let (config, state, realm) = (explained(world), world.path("state"), world.realm.name());
        let asked = |more: &[&str]| {
            let mut command = orthrus(["id", &format!("alice@{realm}"), "--config"]);
            run(command.arg(&config).arg("--state-dir").arg(&state).args(more))
        };
        let none = format!("the configuration: no server runs in {}", state.display());
        assert_eq!(asked(&[]).stdout, trace(realm, &none, ""));
        let mut server = Serve::new(&state).arg("--config").arg(&config).start();
        let from = format!("the server of {}", state.display());
        let answer = asked(&[]).stdout;
        assert_eq!(answer, trace(realm, &from, "cache    0 s old, fresh for 150 s\n"), "{}", server.log());
        let text = fs::read_to_string(&config).expect("text").replace("uid = 5", "uid = 77");
        fs::write(&config, text).expect("the folder is ours");
        let answer = |more: &[&str]| -> serde_json::Value {
            let json: Vec<&str> = ["--json"].iter().chain(more).copied().collect();
            serde_json::from_str(&asked(&json).stdout).expect("it is JSON")
        };
        let live = answer(&[]);
        assert_eq!((&live["from"], &live["identity"]["uid"]), (&"server".into(), &5.into()));
        assert_eq!((&live["cache"]["stale"], &live["exports"]["/all"]["uid"]), (&false.into(), &99.into()));
        let offline = answer(&["--offline"]);
        assert_eq!((&offline["from"], &offline["identity"]["uid"]), (&"configuration".into(), &77.into()));
        server.kill();
        assert_eq!(answer(&[])["from"], "configuration", "the socket of a dead server is none");
        server.restart();
        assert_eq!(answer(&[])["identity"]["uid"], 77, "a restart takes the socket over");
        only_root_and_the_owner_may_ask(&server, &state);
    });
}

fn only_root_and_the_owner_may_ask(server: &Server, state: &Path) {
    if !is_root() {
        return eprintln!("skipped: only root can ask as another user");
    }
    let ask = || run(nobody(["id", "alice@X", "--state-dir"]).arg(state));
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("root may");
    let refused = ask();
    assert!(refused.stdout.contains("is closed to this user"), "{refused:?}");
    // Even where the folder is open by mistake.
    mode(state, 0o755);
    mode(&state.join("admin.sock"), 0o666);
    mode(state.parent().expect("a folder"), 0o755);
    let refused = ask();
    assert!(refused.stderr.contains("only root and its own user may ask"), "{refused:?}");
    server.wait_for_log("user 65534 may not ask");
}

#[test]
fn sighup_applies_changed_identities_to_live_contexts_and_a_broken_file_changes_nothing() {
    in_world(|world| {
        if own_mounts().is_none() {
            return;
        }
        let realm = world.realm.name();
        let write = |identity: &str, more: &str| write(world, identity, more);
        for uid in [5001_u32, 5002] {
            let file = world.export().join(format!("of{uid}"));
            fs::write(&file, b"private").expect("it is ours");
            chown(&file, Some(nix::unistd::Uid::from_raw(uid)), None).expect("root may");
            fs::set_permissions(&file, Permissions::from_mode(0o400)).expect("root may");
        }
        fs::set_permissions(world.export(), Permissions::from_mode(0o755)).expect("root may");
        let config = write(&users(5001), "");
        let server = Serve::new(world.path("state")).arg("--config").arg(&config).start();
        let mut files = world.mount(&server, "alice", Flavor::Krb5p);
        files.read_file("of5001").expect("it is the user's");
        assert_eq!(status(files.read_file("of5002")), NFS4ERR_ACCESS);
        let reload = |says: &str| reload(&server, says);
        let stay = "the settings stay as they were";

        // Sources, and a file whose later part is wrong.
        write(&users(5002), "squash = 7\n");
        reload(stay);
        write(&users(5002).replace("static", "ldap"), "");
        reload(stay);
        write(&format!("{}\n[[identity.source]]\nkind = \"ldap\"", users(5002)), "");
        reload(stay);
        files.read_file("of5001").expect("nothing has changed");
        write(&users(5002), "");
        reload("are in force");
        until("the live context has the new account", || files.read_file("of5002").is_ok());
        assert_eq!(status(files.read_file("of5001")), NFS4ERR_ACCESS);

        // Rules, the list of realms and `unknown`.
        let rule = format!("identity.rules = ['RULE:[1:$1@$0](alice@{realm})s/.*/other/']\n");
        let other = format!("{rule}{}", users(5001).replace("users.alice", "users.other"));
        write(&other, "");
        reload("are in force");
        until("the new rule applies", || files.read_file("of5001").is_ok());
        write(&format!("realms = [\"ELSEWHERE\"]\n{other}"), "");
        reload("are in force");
        until("the realm is foreign now", || files.read_file("of5001").is_err());
        assert_eq!(status(files.read_file("of5001")), NFS4ERR_ACCESS, "nobody");
        write(&format!("realms = [\"ELSEWHERE\"]\nidentity.unknown = \"refused\"\n{other}"), "");
        reload("are in force");
        server.wait_for_log("a context ends");
        client::Client::connect(world.options(&server, "alice", Flavor::Krb5p))
            .map(drop)
            .expect_err("refused");
    });
}

#[test]
fn sighup_changes_the_source_of_the_groups_of_auth_sys_callers() {
    in_world(|world| {
        if own_mounts().is_none() {
            return;
        }
        let config = write(world, &users(5001), "");
        let server = Serve::new(world.path("state")).arg("--config").arg(&config).start();
        fs::set_permissions(world.export(), Permissions::from_mode(0o755)).expect("root may");
        let file = world.export().join("group");
        fs::write(&file, b"for a group").expect("it is ours");
        chown(&file, None, Some(Gid::from_raw(GROUP))).expect("root may");
        fs::set_permissions(&file, Permissions::from_mode(0o040)).expect("root may");
        let sys = match Security::sys_as(5001, 5001) {
            Security::Sys(sys) => Security::Sys(SysCredential { gids: vec![GROUP], ..sys }),
            other => other,
        };
        let mut files = Filesystem::mount(Options::new("127.0.0.1", sys).port(server.port()), "/export")
            .expect("exported");
        files.read_file("group").expect("the client's word counts");
        write(world, &format!("identity.groups = \"server\"\n{}", users(5001)), "");
        reload(&server, "are in force");
        assert_eq!(status(files.read_file("group")), NFS4ERR_ACCESS);
        write(world, &format!("identity.groups = \"client\"\n{}", users(5001)), "");
        reload(&server, "are in force");
        files.read_file("group").expect("the client's word counts again");
    });
}

/// Writes a configuration with these settings before and behind its export.
fn write(world: &World, identity: &str, more: &str) -> PathBuf {
    let text = format!(
        "keytab = {:?}\n{identity}\n[[export]]\npath = {:?}\nsec = [\"krb5p\", \"sys\"]\nsecure = false\n{more}",
        world.realm.server_keytab(),
        world.export()
    );
    let config = world.path("orthrus.toml");
    fs::write(&config, text).expect("the folder is ours");
    config
}

/// A table with alice under this number.
fn users(uid: u32) -> String {
    format!("[[identity.source]]\nkind = \"static\"\nusers.alice = {{ uid = {uid}, gid = {uid} }}")
}

/// Sends SIGHUP and waits until the log says this once more.
fn reload(server: &Server, says: &str) {
    let before = server.log().matches(says).count();
    server.signal(Signal::SIGHUP);
    until(says, || server.log().matches(says).count() > before);
}
