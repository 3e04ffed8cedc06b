//! Every flavor, minor version, number of connections and encryption type moves files as they are.

use client::{Filesystem, Flavor};
use e2e::{World, account, in_world, in_world_with, pattern};
use realm::{Enctypes, RealmEnctype, RealmOptions};
use std::os::unix::fs::MetadataExt;

/// Sizes around the borders of cipher blocks, pages and requests.
const SIZES: [usize; 6] = [0, 1, 15, 4097, 1 << 20, (1 << 20) + 333];

#[test]
fn files_move_with_every_flavor_minor_version_and_number_of_connections() {
    // RFC 8881 sections 2.10.3 (connections of a session) and 18; RFC 7862 section 1; RFC 2203
    // section 5.3.1
    in_world(|world| {
        let server = world.server().start();
        for flavor in Flavor::ALL {
            for (minor_version, connections) in [(1, 1), (1, 8), (2, 1), (2, 8)] {
                let mut options = world.options(&server, "alice", flavor).connections(connections);
                options.minor_version = minor_version;
                let mut files = Filesystem::mount(options, "/export").expect("the export can be mounted");
                move_files(world, &mut files, &format!("{flavor}-{minor_version}-{connections}"));
                let statistics = files.client().statistics();
                assert_eq!((statistics.reconnects, statistics.calls_repeated), (0, 0), "{flavor}");
                files.unmount().expect("the session ends");
            }
        }
        assert_eq!(server.complaints(), [""; 0]);
    });
}

fn move_files(world: &World, files: &mut Filesystem, folder: &str) {
    files.mkdir(folder).expect("a new folder");
    let mut names = Vec::new();
    for (number, size) in SIZES.into_iter().enumerate() {
        let data = pattern(size as u32, size);
        let (name, path) = (format!("file-{number}"), format!("{folder}/new-{number}"));
        files.write_file(&path, &data).expect("it can be written");
        let disk = world.export().join(&path);
        assert!(std::fs::read(&disk).expect("on disk") == data, "{path} differs on disk");
        let owner = account("alice");
        let found = disk.metadata().expect("on disk");
        assert_eq!((found.uid(), found.gid()), (owner.uid.as_raw(), owner.gid.as_raw()), "{path}");
        files.rename(&path, &format!("{folder}/{name}")).expect("a free name");
        assert!(!disk.exists());
        let read = files.read_file(&format!("{folder}/{name}")).expect("it can be read");
        assert!(read == data, "{folder}/{name} came back different");
        names.push(name);
    }
    assert_eq!(files.list(folder).expect("it can be listed"), names);
    for name in names {
        files.remove(&format!("{folder}/{name}")).expect("it is hers");
    }
    files.remove(folder).expect("it is empty");
    assert!(!world.export().join(folder).exists());
}

#[test]
fn a_file_of_odd_size_goes_through_krb5p_in_io_of_odd_sizes() {
    // RFC 8881 sections 18.22 and 18.32: READ and WRITE at any offset with any count
    in_world(|world| {
        let server = world.server().start();
        let data = pattern(7, 3_000_001);
        for io_size in [1_000, 65_537, 1_048_575] {
            let mut options = world.options(&server, "alice", Flavor::Krb5p).connections(3);
            options.io_size_max = io_size;
            let mut files = Filesystem::mount(options, "/export").expect("the export can be mounted");
            files.write_file("odd", &data).expect("it can be written");
            assert!(std::fs::read(world.export().join("odd")).expect("on disk") == data, "{io_size}");
            assert!(files.read_file("odd").expect("it can be read") == data, "{io_size}");
            files.unmount().expect("the session ends");
        }
    });
}

fn move_with(enctype: RealmEnctype) -> impl FnOnce(&World) {
    move |world| {
        let server = world.server().start();
        let mut files = world.mount(&server, "alice", Flavor::Krb5p);
        let context = files.client().context(client::IdentityId::USER).expect("a context");
        assert_eq!(context.keys().enctype().etype(), enctype.number());
        move_files(world, &mut files, enctype.name());
        files.unmount().expect("the session ends");
    }
}

fn only(enctype: RealmEnctype) -> RealmOptions {
    RealmOptions { enctypes: Enctypes::only(enctype), ..RealmOptions::default() }
}

#[test]
fn files_move_with_enctype_17() {
    // RFC 3962
    in_world_with(&only(RealmEnctype::Aes128Sha1), |world| move_with(RealmEnctype::Aes128Sha1)(world));
}

#[test]
fn files_move_with_enctype_18() {
    // RFC 3962
    in_world_with(&only(RealmEnctype::Aes256Sha1), |world| move_with(RealmEnctype::Aes256Sha1)(world));
}

#[test]
fn files_move_with_enctype_19() {
    // RFC 8009
    in_world_with(&only(RealmEnctype::Aes128Sha2), |world| move_with(RealmEnctype::Aes128Sha2)(world));
}

#[test]
fn files_move_with_enctype_20() {
    // RFC 8009
    in_world_with(&only(RealmEnctype::Aes256Sha2), |world| move_with(RealmEnctype::Aes256Sha2)(world));
}
