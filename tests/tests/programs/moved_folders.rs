//! Exports whose path leads to another folder than before.

use client::{Attributes, Client, OpenHow, Options, Security};
use e2e::{Serve, empty_folder, orthrus, run, status};
use nfs4::Nfsstat4::*;
use nfs4::Stateid4;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const ANONYMOUS: Stateid4 = Stateid4 { seqid: 0, other: [0; 12] };

fn options(port: u16) -> Options {
    Options::new("127.0.0.1", Security::sys()).port(port)
}

/// Writes a configuration with one export, at /data.
fn configure(folder: &Path, path: &Path) {
    let path = path.display();
    let text =
        format!("[[export]]\npath = \"{path}\"\npseudo = \"/data\"\nsec = [\"sys\"]\nsecure = false\n");
    fs::write(folder.join("orthrus.toml"), text).expect("the folder is ours");
}

fn serve(folder: &Path) -> e2e::Server {
    Serve::new(folder.join("state")).arg("--config").arg(folder.join("orthrus.toml")).start()
}

fn reload(folder: &Path) -> String {
    let ended = run(orthrus(["reload", "--state-dir"]).arg(folder.join("state")));
    assert!(ended.status.success(), "{ended:?}");
    ended.stdout
}

fn make(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("it has one")).expect("the folder is ours");
    fs::write(&path, text).expect("the folder is ours");
    path
}

#[test]
fn a_narrower_path_takes_the_files_outside_of_it_away() // RFC 8881 section 4.2.2
{
    let folder = empty_folder();
    let folder = folder.path();
    make(folder, "srv/secret/file", "secret");
    make(folder, "srv/public/file", "public");
    configure(folder, &folder.join("srv"));
    let server = serve(folder);
    let mut client = Client::connect(options(server.port())).expect("the server is there");
    let opened = client.open_path("/data/secret/file", &OpenHow::read()).expect("it is there");
    let (secret, _) = client.lookup_path("/data/secret/file").expect("it is there");

    configure(folder, &folder.join("srv/public"));
    let said = reload(folder);
    assert!(said.contains("revoked, as their export is gone: 1 opens"), "{said}");
    assert_eq!(status(client.read(&secret, ANONYMOUS, 0, 10)), NFS4ERR_STALE);
    assert!(client.close_file(&opened).is_err());
    let (public, _) = client.lookup_path("/data/file").expect("it is there");
    server.wait_for_log("not the folder of before");
    drop((client, server));

    let server = serve(folder);
    let mut client = Client::connect(options(server.port())).expect("the server is there");
    // Its grace period keeps READ waiting.
    let mut look = |handle: &[u8]| client.getattr(handle, Attributes::STAT);
    assert_eq!(status(look(&secret)), NFS4ERR_STALE);
    look(&public).expect("it is in the export");

    configure(folder, &folder.join("srv"));
    reload(folder);
    look(&secret).expect("it is in the export again");
}

#[test]
fn an_upgrade_to_a_narrower_path_revokes_the_opens_outside_of_it() // docs/upgrade.md
{
    let folder = empty_folder();
    let folder = folder.path();
    make(folder, "srv/secret/file", "secret");
    make(folder, "srv/public/file", "public");
    configure(folder, &folder.join("srv"));
    let mut server = serve(folder);
    let mut client = Client::connect(options(server.port())).expect("the server is there");
    client.open_path("/data/secret/file", &OpenHow::read()).expect("it is there");
    let opens = || {
        let ended = run(orthrus(["opens", "--state-dir"]).arg(folder.join("state")));
        assert!(ended.status.success(), "{ended:?}");
        ended.stdout
    };
    server.upgrade(None);
    assert!(opens().contains("srv/secret/file"), "the path is as before: {}", opens());

    configure(folder, &folder.join("srv/public"));
    server.upgrade(None);
    server.wait_for_log("revoked, as their export is gone");
    assert!(!opens().contains("srv/secret/file"), "{}", opens());
}

#[test]
fn a_reload_serves_the_folder_that_is_at_the_path_now() {
    let folder = empty_folder();
    let folder = folder.path();
    make(folder, "data/file", "old");
    configure(folder, &folder.join("data"));
    let server = serve(folder);
    let mut client = Client::connect(options(server.port())).expect("the server is there");
    let (old, _) = client.lookup_path("/data/file").expect("it is there");
    reload(folder);
    client.read(&old, ANONYMOUS, 0, 10).expect("nothing has changed");

    fs::rename(folder.join("data"), folder.join("former")).expect("the folder is ours");
    make(folder, "data/new", "new");
    reload(folder);
    client.lookup_path("/data/new").expect("it is there now");
    assert_eq!(status(client.lookup_path("/data/file")), NFS4ERR_NOENT);
    assert_eq!(status(client.read(&old, ANONYMOUS, 0, 10)), NFS4ERR_STALE);

    fs::rename(folder.join("data"), folder.join("other")).expect("the folder is ours");
    fs::rename(folder.join("former"), folder.join("data")).expect("the folder is ours");
    reload(folder);
    client.read(&old, ANONYMOUS, 0, 10).expect("it is there again");
}

#[test]
fn a_link_that_clients_can_make_becomes_no_export() {
    let folder = empty_folder();
    let folder = folder.path();
    make(folder, "srv/file", "shared");
    make(folder, "outside/file", "secret");
    symlink(folder.join("outside"), folder.join("srv/b")).expect("the folder is ours");
    let export = |path: &str, pseudo: &str| {
        let path = folder.join(path);
        let path = path.display();
        format!("[[export]]\npath = \"{path}\"\npseudo = \"{pseudo}\"\nsec = [\"sys\"]\nsecure = false\n")
    };
    let text = [export("srv", "/a"), export("srv/b", "/b")].concat();
    fs::write(folder.join("orthrus.toml"), text).expect("the folder is ours");
    let ended = run(orthrus(["serve", "--check", "--config"]).arg(folder.join("orthrus.toml")));
    assert!(!ended.status.success(), "{ended:?}");
    let said = [ended.stdout, ended.stderr].concat();
    assert!(said.contains("srv/b is a symbolic link in another export"), "{said}");
}
