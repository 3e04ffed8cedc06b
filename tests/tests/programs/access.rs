//! Access control: the file system's permissions, the export's rules, the flavors.

use client::{Client, Error, Filesystem, Flavor, Options, RpcError, Security, flavor_of};
use e2e::{Proxy, World, account, in_world, is_root, status};
use nfs4::Nfsstat4::*;
use nfs4::{NfsOpnum4, Secinfo4};
use nix::unistd::{Gid, Uid, chown};
use realm::RealmOptions;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

/// The anonymous user's number.
const NOBODY: u32 = 65534;

fn skipped() -> bool {
    if !is_root() {
        eprintln!("skipped: only a server of root serves several users");
    }
    !is_root()
}

#[test]
fn bob_cannot_use_files_that_are_private_to_alice() {
    // RFC 8881 sections 5.9.1 (principals) and 6.2.4 (mode bits); the kernel decides.
    in_world(|world| {
        if skipped() {
            return;
        }
        let server = world.server().start();
        for flavor in Flavor::ALL {
            let mut alice = world.mount(&server, "alice", flavor);
            let secret = format!("secret-{flavor}");
            let folder = alice.mkdir(&secret).expect("a new folder");
            let disk = world.export().join(&secret);
            fs::set_permissions(&disk, Permissions::from_mode(0o700)).expect("root may");
            let file = format!("{secret}/file");
            alice.write_file(&file, b"for alice").expect("it is her folder");
            let handle = alice.lookup(&file).expect("she wrote it").0;

            let mut bob = world.mount(&server, "bob", flavor);
            assert_eq!(status(bob.read_file(&file)), NFS4ERR_ACCESS);
            assert_eq!(status(bob.list(&secret)), NFS4ERR_ACCESS);
            assert_eq!(status(bob.write_file(&format!("{secret}/bobs"), b"x")), NFS4ERR_ACCESS);
            assert_eq!(status(bob.remove(&file)), NFS4ERR_ACCESS);
            assert_eq!(status(bob.rename(&file, "stolen")), NFS4ERR_ACCESS);
            assert_eq!(status(bob.mkdir("bobs")), NFS4ERR_ACCESS);
            // A handle that he should not have opens no folder that he may not read.
            assert_eq!(status(bob.client().lookup(&folder, b"file")), NFS4ERR_ACCESS);
            let mode = nfs4::AttributeValues { mode: Some(0o777), ..Default::default() };
            let all = nfs4::Stateid4 { seqid: 0, other: [0; 12] };
            assert_eq!(status(bob.client().setattr(&handle, all, &mode)), NFS4ERR_PERM);
            let granted = bob.client().access(&folder, 0x3f).expect("it can be asked");
            assert_eq!(granted.access, 0, "{flavor}");

            let metadata = fs::metadata(disk.join("file")).expect("on disk");
            let owner = account("alice");
            assert_eq!((metadata.uid(), metadata.gid()), (owner.uid.as_raw(), owner.gid.as_raw()));
            assert_eq!(alice.read_file(&file).expect("it is hers"), b"for alice");
        }
    });
}

#[test]
fn nothing_changes_in_an_export_that_is_read_only() {
    // RFC 8881 section 15.1.4.13: NFS4ERR_ROFS
    in_world(|world| {
        fs::write(world.export().join("file"), "as it was").expect("it is ours");
        let server = world.server().arg("--read-only").start();
        for flavor in [Flavor::Sys, Flavor::Krb5p] {
            let mut files = world.mount(&server, "alice", flavor);
            assert_eq!(files.read_file("file").expect("it can be read"), b"as it was");
            assert_eq!(status(files.write_file("file", b"x")), NFS4ERR_ROFS);
            assert_eq!(status(files.write_file("new", b"x")), NFS4ERR_ROFS);
            assert_eq!(status(files.mkdir("folder")), NFS4ERR_ROFS);
            assert_eq!(status(files.remove("file")), NFS4ERR_ROFS);
            assert_eq!(status(files.rename("file", "other")), NFS4ERR_ROFS);
            let mode = nfs4::AttributeValues { mode: Some(0o777), ..Default::default() };
            assert_eq!(status(files.setattr("file", &mode)), NFS4ERR_ROFS);
        }
        assert_eq!(fs::read(world.export().join("file")).expect("on disk"), b"as it was");
    });
}

fn owner_of_new_file(world: &World, files: &mut Filesystem, name: &str) -> u32 {
    files.write_file(name, b"x").expect("everybody may write here");
    fs::metadata(world.export().join(name)).expect("on disk").uid()
}

#[test]
fn root_and_unknown_principals_act_as_the_anonymous_user() {
    // RFC 8881 section 5.9.1: a principal without an account is served as somebody without rights
    let options = RealmOptions { users: vec!["carol".into()], ..RealmOptions::default() };
    e2e::in_world_with(&options, |world| {
        if skipped() {
            return;
        }
        fs::set_permissions(world.export(), Permissions::from_mode(0o777)).expect("it is ours");
        let server = world.server().start();
        let options = |security| Options::new("127.0.0.1", security).port(server.port());
        let mut root = Filesystem::mount(options(Security::sys_as(0, 0)), "/export").expect("it is open");
        assert_eq!(owner_of_new_file(world, &mut root, "of-root"), NOBODY);
        let mut carol = world.mount(&server, "carol", Flavor::Krb5p);
        assert_eq!(owner_of_new_file(world, &mut carol, "of-carol"), NOBODY);
        let mut alice = world.mount(&server, "alice", Flavor::Krb5p);
        let alices = account("alice").uid.as_raw();
        assert_eq!(owner_of_new_file(world, &mut alice, "of-alice"), alices);
        drop(server);

        let server = world.server().args(["--squash", "none"]).start();
        let options = Options::new("127.0.0.1", Security::sys_as(0, 0)).port(server.port());
        let mut root = Filesystem::mount(options, "/export").expect("it is open");
        assert_eq!(owner_of_new_file(world, &mut root, "of-real-root"), 0);
        drop(server);

        let server = world.server().args(["--squash", "all"]).start();
        let mut alice = world.mount(&server, "alice", Flavor::Krb5i);
        assert_eq!(owner_of_new_file(world, &mut alice, "of-squashed-alice"), NOBODY);
    });
}

#[test]
fn a_client_outside_of_the_networks_sees_no_export() {
    // RFC 8881 section 7.3: a server may hide exports from clients
    in_world(|world| {
        let server = world.server().args(["--clients", "10.1.0.0/16,::2"]).start();
        // Where no export admits the address, not even a client ID is made.
        let refused = Client::connect(world.options(&server, "alice", Flavor::Krb5p));
        assert_eq!(status(refused), NFS4ERR_CLID_INUSE);
        drop(server);
        let server = world.server().args(["--clients", "10.1.0.0/16,127.0.0.0/8"]).start();
        world.mount(&server, "alice", Flavor::Krb5p).list("").expect("it is of the network");
    });
}

#[test]
fn an_export_for_krb5p_alone_refuses_the_other_flavors() {
    // RFC 8881 sections 2.6.3.1 (NFS4ERR_WRONGSEC), 18.29 (SECINFO) and 18.45 (SECINFO_NO_NAME)
    in_world(|world| {
        let server = world.server().args(["--sec", "krb5p"]).start();
        for flavor in [Flavor::Sys, Flavor::Krb5, Flavor::Krb5i] {
            let mut client = Client::connect(world.options(&server, "alice", flavor)).expect("a session");
            assert_eq!(status(client.lookup_path("/export")), NFS4ERR_WRONGSEC, "{flavor}");
            // The way to SECINFO is open with any flavor (section 2.6.3.1.1.5).
            let asked = client.perform(
                |compound| compound.putrootfh().secinfo(b"export"),
                |reply| {
                    let mut results = reply.results();
                    results.done(NfsOpnum4::OP_PUTROOTFH)?;
                    let found: Vec<Secinfo4<'_>> = results.take(NfsOpnum4::OP_SECINFO)?;
                    Ok(found.iter().map(flavor_of).collect::<Vec<_>>())
                },
            );
            assert_eq!(asked.expect("it can be asked"), [Some(Flavor::Krb5p)]);
        }
        let mut files = world.mount(&server, "alice", Flavor::Krb5p);
        files.write_file("file", b"x").expect("krb5p is allowed");
        // A handle gives no more access than a name.
        let (handle, _) = files.lookup("file").expect("it is there");
        let mut client = Client::connect(world.options(&server, "alice", Flavor::Krb5i)).expect("a session");
        let all = nfs4::Stateid4 { seqid: 0, other: [0; 12] };
        assert_eq!(status(client.read(&handle, all, 0, 1)), NFS4ERR_WRONGSEC);
    });
}

#[test]
fn the_log_names_the_refused_client_the_export_the_rule_and_the_remedy() {
    in_world(|world| {
        let export = |name: &str, rules: &str| {
            let path = world.folder_of("alice", name);
            format!("[[export]]\npath = \"{}\"\npseudo = \"/{name}\"\n{rules}\n", path.display())
        };
        let text = [
            export("private", "sec = [\"krb5p\", \"krb5i\"]"),
            export("ports", "sec = [\"sys\"]\nsecure = true"),
            export("elsewhere", "sec = [\"krb5p\"]\nclients = [\"192.0.2.0/24\"]"),
        ];
        let config = world.path("rules.toml");
        fs::write(&config, text.concat()).expect("the folder is ours");
        let metrics = ["--metrics", "127.0.0.1:0"];
        let server = world.bare_server().arg("--config").arg(&config).args(metrics).start();
        let mut alice = Client::connect(world.options(&server, "alice", Flavor::Krb5)).expect("a session");
        assert_eq!(status(alice.lookup_path("/private")), NFS4ERR_WRONGSEC);
        assert_eq!(status(alice.lookup_path("/elsewhere")), NFS4ERR_NOENT);
        assert_eq!(status(alice.lookup_path("/absent")), NFS4ERR_NOENT);
        // Its port is one that any program may use.
        let proxy = Proxy::start(server.address(), vec![Duration::ZERO]);
        let options = world.options(&server, "alice", Flavor::Sys).port(proxy.address().port());
        let mut sys = Client::connect(options).expect("a session");
        assert_eq!(status(sys.lookup_path("/ports")), NFS4ERR_WRONGSEC);

        let user = format!("user=\"alice@{}\" flavor=\"krb5\"", world.realm.name());
        let uid = format!("user=\"sys:{}\" flavor=\"sys\"", account("alice").uid);
        for (level, rule, remedy, who, export) in [
            ("INFO", "`sec`", "mount with sec=krb5p or sec=krb5i, or change `sec`", &user, "/private"),
            ("WARN", "`clients`", "add the address to `clients`", &user, "/elsewhere"),
            ("WARN", "`secure`", "mount without noresvport, or set `secure = false`", &uid, "/ports"),
        ] {
            server.wait_for_log(&format!("refused by {rule}"));
            let line = server.log().lines().find(|line| line.contains(rule)).expect("it is there").to_owned();
            for part in [level, remedy, who, &format!("export=\"{export}\""), "peer=127.0.0.1:"] {
                assert!(line.contains(part), "{part} is missing: {line}");
            }
        }
        assert!(!server.log().contains("/absent"), "{}", server.log());
        for rule in ["sec", "clients", "secure"] {
            let count = crate::metrics::value(
                &crate::metrics::page(&server),
                &format!("orthrus_refusals_total{{rule=\"{rule}\"}}"),
            );
            assert_eq!(count, 1.0, "{rule}");
        }
    });
}

#[test]
fn secinfo_lists_the_flavors_in_the_exports_order() {
    // RFC 8881 section 18.29.3: in the server's order of preference
    in_world(|world| {
        let server = world.server().args(["--sec", "krb5i,sys,krb5p"]).start();
        let mut client = Client::connect(world.options(&server, "alice", Flavor::Krb5i)).expect("a session");
        let order = [Some(Flavor::Krb5i), Some(Flavor::Sys), Some(Flavor::Krb5p)];
        let (root, _) = client.lookup_path("").expect("the root is open");
        let found = client.secinfo(&root, b"export").expect("it can be asked");
        assert_eq!(found.iter().map(flavor_of).collect::<Vec<_>>(), order);
        let (export, _) = client.lookup_path("/export").expect("krb5i is allowed");
        let current = nfs4::SecinfoStyle4::SECINFO_STYLE4_CURRENT_FH;
        let found = client.secinfo_no_name(&export, current).expect("it can be asked");
        assert_eq!(found.iter().map(flavor_of).collect::<Vec<_>>(), order);
    });
}

#[test]
fn a_session_needs_at_least_auth_sys() {
    // RFC 5531 section 8.2: AUTH_TOOWEAK
    in_world(|world| {
        let server = world.server().start();
        let options = Options::new("127.0.0.1", Security::None).port(server.port());
        let error = Client::connect(options).expect_err("AUTH_NONE proves nothing");
        assert!(matches!(error, Error::Rpc(RpcError::Auth(rpc::AuthStat::AUTH_TOOWEAK))), "{error}");
    });
}

#[test]
fn owners_are_named_and_can_be_given_away_by_root_alone() {
    // RFC 8881 section 5.9: owner and owner_group as user@domain
    in_world(|world| {
        if skipped() {
            return;
        }
        let server = world.server().args(["--squash", "none"]).start();
        let mut alice = world.mount(&server, "alice", Flavor::Krb5p);
        alice.write_file("file", b"x").expect("it is her folder");
        let attributes = alice.stat("file").expect("it is there");
        let owner = attributes.values().expect("they can be read").owner.expect("it was asked for").to_vec();
        assert_eq!(String::from_utf8_lossy(&owner), "daemon@orthrus.test");
        let gift =
            nfs4::AttributeValues { owner: Some(b"games@orthrus.test"[..].into()), ..Default::default() };
        assert_eq!(status(alice.setattr("file", &gift)), NFS4ERR_PERM);
        let options = Options::new("127.0.0.1", Security::sys_as(0, 0)).port(server.port());
        let mut root = Filesystem::mount(options, "/export").expect("it is open");
        root.setattr("file", &gift).expect("root may");
        let uid = fs::metadata(world.export().join("file")).expect("on disk").uid();
        assert_eq!(uid, account("bob").uid.as_raw());
        let back = world.export().join("file");
        chown(&back, Some(Uid::from_raw(1)), Some(Gid::from_raw(1))).expect("root may");
    });
}
