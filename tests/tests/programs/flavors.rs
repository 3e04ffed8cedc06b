//! Every flavor, minor version, number of connections and encryption type moves files as they are.

use client::{Client, Filesystem, Flavor, OpenHow};
use e2e::{World, account, in_world, in_world_with, pattern};
use nfs4::{Bitmap4, FATTR4_SIZE, Getattr4Resok, NfsOpnum4, Read4Resok, StableHow4};
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
fn a_file_of_odd_size_goes_through_in_io_of_odd_sizes() {
    // RFC 8881 sections 18.22 and 18.32: READ and WRITE at any offset with any count. Long READs
    // with sys and krb5 take the pages of the file, the others copy.
    in_world(|world| {
        let server = world.server().start();
        let data = pattern(7, 3_000_001);
        for (flavor, io_size) in [
            (Flavor::Krb5p, 1_000),
            (Flavor::Krb5p, 65_537),
            (Flavor::Krb5p, 1_048_575),
            (Flavor::Krb5, 200_001),
            (Flavor::Krb5, 1_048_575),
            (Flavor::Sys, 1_048_576),
            (Flavor::Sys, 524_289),
        ] {
            let mut options = world.options(&server, "alice", flavor).connections(3);
            options.io_size_max = io_size;
            let mut files = Filesystem::mount(options, "/export").expect("the export can be mounted");
            files.write_file("odd", &data).expect("it can be written");
            assert!(std::fs::read(world.export().join("odd")).expect("on disk") == data, "{io_size}");
            assert!(files.read_file("odd").expect("it can be read") == data, "{io_size}");
            files.unmount().expect("the session ends");
        }
    });
}

#[test]
fn results_around_a_long_read_of_pages_are_in_their_places() {
    // RFC 8881 section 16.2: the results of a COMPOUND follow each other
    in_world(|world| {
        let server = world.server().start();
        let data = pattern(3, 700_001);
        for flavor in [Flavor::Sys, Flavor::Krb5, Flavor::Krb5i] {
            let mut client = Client::connect(world.options(&server, "alice", flavor)).expect("it is there");
            let path = format!("/export/results-{}", flavor);
            let file = client.open_path(&path, &OpenHow::create(0o644)).expect("a new name");
            for (number, piece) in data.chunks(100_000).enumerate() {
                let offset = 100_000 * number as u64;
                client
                    .write(&file.handle, file.stateid, offset, StableHow4::UNSTABLE4, piece)
                    .expect("written");
            }
            let size = || Bitmap4::from_iter([FATTR4_SIZE]);
            // The first READ takes pages, the second copies; their padding is 3 bytes and none.
            let (first, second, attributes) = client
                .perform(
                    |compound| {
                        let compound = compound.putfh(&file.handle).getattr(size());
                        compound
                            .read(file.stateid, 1, 300_001)
                            .read(file.stateid, 400_001, 300_100)
                            .getattr(size())
                    },
                    |reply| {
                        let mut results = reply.results();
                        results
                            .done(NfsOpnum4::OP_PUTFH)?
                            .take::<Getattr4Resok<'_>>(NfsOpnum4::OP_GETATTR)?;
                        let first = results.take::<Read4Resok<'_>>(NfsOpnum4::OP_READ)?.into_owned();
                        let second = results.take::<Read4Resok<'_>>(NfsOpnum4::OP_READ)?.into_owned();
                        let last = results.take::<Getattr4Resok<'_>>(NfsOpnum4::OP_GETATTR)?.into_owned();
                        Ok((first, second, last.obj_attributes.attrmask))
                    },
                )
                .expect("all fit into the reply");
            assert!(*first.data == data[1..300_002] && !first.eof, "{flavor:?}");
            assert!(*second.data == data[400_001..] && second.eof, "{flavor:?}");
            assert_eq!(attributes, size(), "{flavor:?}");
        }
    });
}

fn move_with(enctype: RealmEnctype) -> impl FnOnce(&World) {
    move |world| {
        let server = world.server().start();
        let mut files = world.mount(&server, "alice", Flavor::Krb5p);
        let context = files.client().context().expect("a context");
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
