//! Referrals from one server to another, and several addresses of one server.

use client::{Client, Filesystem, Flavor, Options};
use e2e::{Proxy, Server, World, empty_folder, in_world, orthrus, run, status};
use nfs4::Nfsstat4::*;
use nix::sys::signal::Signal;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Starts a server with a configuration: the world's keys, users of their own numbers, and `more`.
fn configured(world: &World, name: &str, more: &str) -> (Server, PathBuf) {
    let config = world.path(&format!("{name}.toml"));
    fs::write(&config, more).expect("the folder is ours");
    let serve = world.bare_server().arg("--config").arg(&config);
    (serve.start(), config)
}

fn export(folder: &std::path::Path, pseudo: &str) -> String {
    let sec = "sec = [\"krb5p\", \"sys\"]\nsecure = false";
    format!("[[export]]\npath = \"{}\"\npseudo = \"{pseudo}\"\n{sec}\n\n", folder.display())
}

fn referral(pseudo: &str, to: &str) -> String {
    format!(
        "[[export]]\nrefer = \"{to}\"\npseudo = \"{pseudo}\"\nsec = [\"krb5p\", \"sys\"]\nsecure = false\n\n"
    )
}

/// Returns the address that a universal address stands for (RFC 5665 section 5.2.3).
fn of_universal(text: &[u8]) -> SocketAddr {
    let text = std::str::from_utf8(text).expect("it is text");
    if let Ok(address) = text.parse::<IpAddr>() {
        return (address, 2049).into();
    }
    let mut parts = text.rsplitn(3, '.');
    let mut byte = || parts.next().expect("a part");
    let (low, high): (u16, u16) = (byte().parse().expect("a byte"), byte().parse().expect("a byte"));
    (byte().parse::<IpAddr>().expect("an address"), high << 8 | low).into()
}

fn names(path: &[std::borrow::Cow<'_, [u8]>]) -> String {
    path.iter().map(|name| format!("/{}", String::from_utf8_lossy(name))).collect()
}

/// Follows a referral of a server, and mounts its target.
fn follow(world: &World, server: &Server, flavor: Flavor, path: &str) -> Filesystem {
    let mut client = Client::connect(world.options(server, "alice", flavor)).expect("the server is there");
    assert_eq!(status(client.lookup_path(path)), NFS4ERR_MOVED, "its filehandle is not given away");
    let found = client.locations(path).expect("it has locations");
    assert_eq!(names(&found.fs_root), path);
    let [location] = &found.locations[..] else { panic!("{found:?}") };
    let target = of_universal(&location.server[0]);
    let options = Options::new(target.ip().to_string(), world.identity("alice", flavor)).port(target.port());
    Filesystem::mount(options, &names(&location.rootpath)).expect("the target can be mounted")
}

#[test]
fn a_referral_leads_to_another_server_with_sys_and_krb5p() // RFC 8881 sections 11.5.6 and 11.15
{
    in_world(|world| {
        let (target, _) = configured(world, "target", &export(&world.export(), "/x/data"));
        let place = format!("{}:/x/data", target.address());
        let first = world.folder_of("alice", "first");
        let text = format!("{}{}", export(&first, "/here"), referral("/projects/data", &place));
        let (server, _) = configured(world, "first", &text);
        server.wait_for_log("export /projects/data: any address with sec=krb5p:sys");
        assert!(server.log().contains(&format!("is referred to {place}")), "{}", server.log());
        for flavor in [Flavor::Sys, Flavor::Krb5p] {
            let mut files = follow(world, &server, flavor, "/projects/data");
            let name = format!("by-{flavor}");
            files.write_file(&name, b"over there").expect("it is her folder");
            assert_eq!(fs::read(world.export().join(&name)).expect("the target has it"), b"over there");
            files.unmount().expect("it ends");
        }
        // Two servers are different to clients that compare (RFC 8881 section 2.10.5).
        let session = |server| {
            let client = Client::connect(world.options(server, "alice", Flavor::Sys)).expect("it is there");
            client.session().clone()
        };
        let (one, other) = (session(&server), session(&target));
        assert_ne!(one.server_major_id, other.server_major_id);
        assert_ne!(one.server_scope, other.server_scope);
    });
}

#[test]
fn a_reload_adds_and_removes_referrals_and_turns_an_export_into_one() // RFC 8881 section 11.5.5
{
    in_world(|world| {
        let here = export(&world.export(), "/here");
        let state = format!("state_dir = \"{}\"\n", world.path("state-1").display());
        let (server, config) = configured(world, "server", &format!("{state}{here}"));
        let mut files = Filesystem::mount(world.options(&server, "alice", Flavor::Krb5p), "/here")
            .expect("it is exported");
        files.write_file("file", b"data").expect("it is her folder");
        let (handle, _) = files.lookup("file").expect("she wrote it");
        let reload = |text: String| {
            fs::write(&config, format!("{state}{text}")).expect("the folder is ours");
            run(orthrus(["reload", "--config"]).arg(&config))
        };
        let there = referral("/there", "there.example.org:/x");
        let ended = reload(format!("{here}{there}"));
        assert!(ended.stdout.contains("added: /there"), "{ended:?}");
        let found = files.client().locations("/there").expect("it is a referral");
        assert_eq!(&*found.locations[0].server[0], b"there.example.org");
        let listed = run(orthrus(["exports", "--config"]).arg(&config));
        let row = listed.stdout.lines().find(|line| line.starts_with("/there")).expect("it is listed");
        assert!(row.contains("refer to there.example.org:/x") && row.contains("krb5p:sys"), "{row}");

        let ended = reload(format!("{here}{}", there.replace("there.ex", "elsewhere.ex")));
        assert!(ended.stdout.contains("changed: /there"), "{ended:?}");
        let found = files.client().locations("/there").expect("it is a referral");
        assert_eq!(&*found.locations[0].server[0], b"elsewhere.example.org");

        // Clients that use an export learn where it has gone.
        let ended = reload(referral("/here", "gone.example.org:/here"));
        assert!(
            ended.stdout.contains("removed: /there") && ended.stdout.contains("changed: /here"),
            "{ended:?}"
        );
        let all = nfs4::Stateid4 { seqid: 0, other: [0; 12] };
        assert_eq!(status(files.client().read(&handle, all, 0, 4)), NFS4ERR_MOVED);
        assert_eq!(status(files.client().lookup_path("/there")), NFS4ERR_NOENT);
        assert_eq!(names(&files.client().locations("/here").expect("it has moved").fs_root), "/here");

        let ended = reload(here.clone());
        assert!(ended.status.success(), "{ended:?}");
        assert_eq!(files.client().read(&handle, all, 0, 4).expect("it is back").0, b"data");
        // A reload with a fault changes nothing.
        let ended = reload(format!("{here}{}", referral("/", "x.example.org:/")));
        assert!(ended.stderr.contains("the root cannot be a referral"), "{ended:?}");
        assert_eq!(files.client().read(&handle, all, 0, 4).expect("it is still there").0, b"data");
    });
}

#[test]
fn connections_over_two_addresses_serve_one_session_and_another_server_is_refused()
// RFC 8881 sections 2.10.5.1 (session trunking) and 11.5.2 (its discovery)
{
    in_world(|world| {
        let config = export(&world.export(), "/data");
        let config = |addresses: &str| format!("addresses = [{addresses}]\n{config}");
        let (mut server, file) = configured(world, "server", &config(""));
        let second = Proxy::start(server.address(), vec![Duration::ZERO]).address();
        let (other, _) = configured(world, "other", &config(""));
        let addresses = format!("\"{}\", \"{second}\", \"{}\"", server.address(), other.address());
        fs::write(&file, config(&addresses)).expect("the folder is ours");
        server.signal(Signal::SIGHUP);
        server.wait_for_log("are in force");
        for flavor in [Flavor::Sys, Flavor::Krb5p] {
            let mut files =
                Filesystem::mount(world.options(&server, "alice", flavor), "/data").expect("exported");
            let found = files.client().locations("/data").expect("it names its addresses");
            let [location] = &found.locations[..] else { panic!("{found:?}") };
            assert_eq!((names(&found.fs_root), names(&location.rootpath)), ("/data".into(), "/data".into()));
            let named: Vec<_> = location.server.iter().map(|server| of_universal(server)).collect();
            assert_eq!(named, [server.address(), second, other.address()]);
            // An administrator may name a wrong address; clients compare the server's owner.
            let trunked: Vec<_> =
                named.iter().map(|address| files.client().trunk(*address).expect("it answers")).collect();
            assert_eq!(trunked, [true, true, false], "{flavor}");
            let before = server.counters(&["connections"]);
            for number in 0..20 {
                let name = format!("{flavor}-{number}");
                files.write_file(&name, name.as_bytes()).expect("it is her folder");
                assert_eq!(files.read_file(&name).expect("it is there"), name.as_bytes());
            }
            assert_eq!(server.counters(&["connections"]), before, "all connections serve");
            // The second address alone carries the session.
            files.client().cut_connection(0);
            files.client().cut_connection(1);
            files.write_file("after", b"x").expect("the session goes on");
            files.unmount().expect("it ends");
        }
        // A restart keeps the owner, so that clients know the server again.
        let owner = |server: &Server| {
            let client = Client::connect(world.options(server, "alice", Flavor::Sys)).expect("it is there");
            (client.session().server_major_id.clone(), client.session().server_scope.clone())
        };
        let before = owner(&server);
        server.restart();
        assert_eq!(owner(&server), before);
        assert_ne!(owner(&other), before);
    });
}

#[test]
fn a_check_needs_no_answer_of_the_servers_that_are_named() {
    let folder = empty_folder();
    let config = folder.path().join("orthrus.toml");
    let check = |lines: &str| {
        let state = folder.path().join("state");
        let text = format!("listen = \"127.0.0.1:0\"\nstate_dir = \"{}\"\n{lines}", state.display());
        fs::write(&config, text).expect("the folder is ours");
        run(orthrus(["serve", "--check", "--config"]).arg(&config))
    };
    let memory = "[[export]]\nmemory = 1048576\nsec = [\"sys\"]\n";
    let refer = |to: &str| format!("{memory}[[export]]\nrefer = {to}\npseudo = \"/r\"\nsec = [\"sys\"]\n");
    // 192.0.2.0/24 and .invalid do not exist (RFC 5737, RFC 6761).
    for lines in [
        refer("\"192.0.2.1:/x\""),
        refer("[\"nowhere.invalid:/x\", \"[2001:db8::1]:2050:/y\"]"),
        format!("addresses = [\"nowhere.invalid\"]\n{memory}locations = \"192.0.2.1:/memory\"\n"),
    ] {
        let ended = check(&lines);
        assert!(ended.status.success(), "{lines}: {ended:?}");
    }
    let place = |number: usize| format!("\"a.invalid:/{number}/{}\"", "x".repeat(240));
    let long = format!("[{}]", (0..13).map(place).collect::<Vec<_>>().join(","));
    for (lines, fault) in [
        (refer("\"192.0.2.1\""), "host:/path"),
        (refer("\"a b:/x\""), "not a server"),
        (refer("\"a:/x\"").replace("/r", "/"), "the root cannot be a referral"),
        (refer("\"a:/x\"").replace("/r", "/memory"), "two exports have the pseudo path"),
        (refer(&long), "clients read 3072"),
        (format!("{memory}pseudo = \"/r/below\"\n{}", refer("\"a:/x\"").replace(memory, "")), "below it"),
    ] {
        let ended = check(&lines);
        assert!(!ended.status.success() && ended.stderr.contains(fault), "{lines}: {ended:?}");
    }
}

#[test]
fn a_server_of_referrals_alone_needs_no_files() {
    in_world(|world| {
        let (server, _) = configured(world, "server", &referral("/there", "there.example.org:/x"));
        let mut client =
            Client::connect(world.options(&server, "alice", Flavor::Krb5p)).expect("it is there");
        assert_eq!(client.locations("/there").expect("a referral").locations.len(), 1);
        let (root, _) = client.lookup_path("/").expect("the root is there");
        let listed =
            client.readdir(&root, nfs4::Bitmap4::of(&[nfs4::FATTR4_RDATTR_ERROR])).expect("a listing");
        assert_eq!(listed.len(), 1);
    });
}

#[test]
fn explain_describes_the_keys_of_locations() {
    for key in ["export.refer", "export.locations", "addresses"] {
        let ended = run(&mut orthrus(["config", "explain", key]));
        assert!(ended.status.success() && ended.stdout.contains("allowed"), "{key}: {ended:?}");
    }
}
