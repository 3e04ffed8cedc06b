//! NFSv4.2 and access control lists, from the client library to the disk and back.

use client::{CallbackAnswer, Client, Create, FilePosition, Flavor, OpenHow};
use e2e::{World, account, in_world, is_root, pattern, status};
use nfs4::Nfsstat4::*;
use nfs4::{DataContent4, NfsCbArgop4, Nfsace4, OffloadInfo4, ReadPlusContent, SetxattrOption4, Stateid4};
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time limit for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client of minor version 2 and the handle of the export.
fn client(world: &World, server: &e2e::Server, user: &str, flavor: Flavor) -> (Client, client::Handle) {
    let mut options = world.options(server, user, flavor);
    options.minor_version = 2;
    let mut client = Client::connect(options).expect("the server speaks 4.2");
    let root = client.lookup_path("/export").expect("it is exported").0;
    (client, root)
}

fn create(client: &mut Client, root: &[u8], name: &str) -> client::OpenFile {
    let mode = nfs4::AttributeValues { mode: Some(0o600), ..Default::default() };
    let how = OpenHow { access: 3, deny: 0, create: Create::Guarded(Box::new(mode)), owner: None };
    client.open(root, name.as_bytes(), &how).expect("a new file")
}

fn at(file: &client::OpenFile, offset: u64) -> FilePosition<'_> {
    FilePosition { handle: &file.handle, stateid: file.stateid, offset }
}

const MEGA: u64 = 1 << 20;

#[test]
fn holes_and_copies_are_on_the_disk_as_the_client_has_made_them() {
    // RFC 7862 sections 15.1, 15.2, 15.4, 15.10 and 15.11
    in_world(|world| {
        let server = world.server().start();
        for flavor in Flavor::ALL {
            let (mut client, root) = client(world, &server, "alice", flavor);
            let (name, other) = (format!("sparse-{flavor}"), format!("copy-{flavor}"));
            let (file, copy) = (create(&mut client, &root, &name), create(&mut client, &root, &other));
            let data = pattern(5, 128 << 10);
            let stable = nfs4::StableHow4::FILE_SYNC4;
            client.write(&file.handle, file.stateid, 4 * MEGA, stable, &data).expect("room");
            let found = client.seek(at(&file, 0), DataContent4::NFS4_CONTENT_DATA).expect("data");
            assert_eq!((found.sr_eof, found.sr_offset), (false, 4 * MEGA));
            assert_eq!(
                status(client.seek(at(&file, 9 * MEGA), DataContent4::NFS4_CONTENT_HOLE)),
                NFS4ERR_NXIO
            );
            let read = client.read_plus(at(&file, 4 * MEGA - 8), 64 << 10).expect("hole and data");
            let [ReadPlusContent::NFS4_CONTENT_HOLE(hole), ReadPlusContent::NFS4_CONTENT_DATA(bytes)] =
                &read.rpr_contents[..]
            else {
                panic!("{flavor}: {read:?}")
            };
            assert_eq!((hole.di_length, &bytes.d_data[..100]), (8, &data[..100]));
            let copied =
                client.copy(at(&file, 4 * MEGA), at(&copy, 100), 0).expect("a copy").cr_response.wr_count;
            assert_eq!(copied, 128 << 10);
            let disk = fs::read(world.export().join(&other)).expect("on disk");
            assert!(disk[..100].iter().all(|byte| *byte == 0) && disk[100..] == data);
            client.deallocate(at(&file, 4 * MEGA), 64 << 10).expect("a hole");
            let disk = fs::read(world.export().join(&name)).expect("on disk");
            assert!(disk[..(4 << 20) + (64 << 10)].iter().all(|byte| *byte == 0));
            assert!(disk[(4 << 20) + (64 << 10)..] == data[64 << 10..]);
            client.allocate(at(&file, 8 * MEGA), MEGA).expect("room");
            assert_eq!(fs::metadata(world.export().join(&name)).expect("on disk").len(), 9 * MEGA);
            // ext4 shares no blocks, xfs and btrfs do.
            match client.clone_range(at(&file, 0), at(&copy, 0), 0) {
                Ok(()) => {
                    let disk = |name: &str| fs::read(world.export().join(name)).expect("on disk");
                    assert!(disk(&other) == disk(&name));
                }
                Err(error) => assert!(error.is(NFS4ERR_NOTSUPP), "{error}"),
            }
        }
    });
}

#[test]
fn the_end_of_a_long_copy_is_announced_and_a_cancelled_copy_stops() {
    // RFC 7862 sections 15.2.3, 15.8.3, 15.9.3 and 16.1.3
    in_world(|world| {
        let server = world.server().start();
        let mut options = world.options(&server, "alice", Flavor::Krb5i);
        (options.minor_version, options.backchannel) = (2, true);
        let mut client = Client::connect(options).expect("the server speaks 4.2");
        let root = client.lookup_path("/export").expect("it is exported").0;
        let (file, copy) = (create(&mut client, &root, "long"), create(&mut client, &root, "its-copy"));
        let (data, size) = (pattern(3, 1 << 20), 40 * MEGA);
        for offset in (0..size).step_by(data.len()) {
            let unstable = nfs4::StableHow4::UNSTABLE4;
            client.write(&file.handle, file.stateid, offset, unstable, &data).expect("room");
        }
        let ends = Arc::new(Mutex::new(Vec::new()));
        let heard = ends.clone();
        client.on_callback(move |operation| {
            if let NfsCbArgop4::OP_CB_OFFLOAD(args) = operation {
                heard.lock().expect("no panic").push(args.clone().into_owned());
            }
            CallbackAnswer::Status(NFS4_OK)
        });
        let begun = client.begin_copy(at(&file, 0), at(&copy, 0), 0).expect("a copy");
        assert_eq!(
            (begun.cr_requirements.cr_consecutive, begun.cr_requirements.cr_synchronous),
            (true, false)
        );
        let [stateid] = begun.cr_response.wr_callback_id[..] else { panic!("{begun:?}") };
        let until = Instant::now() + PATIENCE;
        while ends.lock().expect("no panic").is_empty() && Instant::now() < until {
            if let Ok(told) = client.copy_status(&copy.handle, stateid) {
                assert!(told.osr_count <= size, "{told:?}");
            }
            client.serve_callbacks(Duration::from_millis(5)).expect("the system helps");
        }
        let told = ends.lock().expect("no panic").pop().expect("CB_OFFLOAD");
        assert_eq!((told.coa_stateid, &*told.coa_fh), (stateid, &*copy.handle));
        let OffloadInfo4::NFS4_OK(response) = told.coa_offload_info else { panic!("{told:?}") };
        assert_eq!(response.wr_count, size);
        let verifier = client.commit(&copy.handle, 0, 0).expect("it is there");
        assert_eq!(verifier, response.wr_writeverf);
        let disk = |name: &str| fs::read(world.export().join(name)).expect("on disk");
        assert!(disk("its-copy") == disk("long"));
        assert_eq!(server.counter("offloads_answered"), 1);
        assert_eq!(status(client.copy_status(&copy.handle, stateid)), NFS4ERR_BAD_STATEID);

        // Cancelled at once: it may have ended before, with or without its CB_OFFLOAD.
        let begun = client.begin_copy(at(&file, 0), at(&copy, size), 0).expect("a copy");
        let [stateid] = begun.cr_response.wr_callback_id[..] else { panic!("{begun:?}") };
        match client.cancel_copy(&copy.handle, stateid) {
            Ok(()) => assert_eq!(status(client.copy_status(&copy.handle, stateid)), NFS4ERR_BAD_STATEID),
            Err(error) => {
                let was_told = !ends.lock().expect("no panic").is_empty();
                let over = if was_told { NFS4ERR_BAD_STATEID } else { NFS4ERR_COMPLETE_ALREADY };
                assert!(error.is(over) || error.is(NFS4ERR_COMPLETE_ALREADY), "{error}, told of: {was_told}");
            }
        }
        // A server that was started anew knows no copies (section 4.8).
        let begun = client.begin_copy(at(&file, 0), at(&copy, size), 0).expect("a copy");
        let [stateid] = begun.cr_response.wr_callback_id[..] else { panic!("{begun:?}") };
        let server = server.restarted();
        let mut options = world.options(&server, "alice", Flavor::Krb5i);
        options.minor_version = 2;
        let mut client = Client::connect(options).expect("it is there again");
        assert_eq!(status(client.copy_status(&copy.handle, stateid)), NFS4ERR_BAD_STATEID);
    });
}

#[test]
fn extended_attributes_are_those_of_the_disk() {
    // RFC 8276 section 8.4
    in_world(|world| {
        let server = world.server().start();
        let (mut client, root) = client(world, &server, "alice", Flavor::Krb5p);
        let file = create(&mut client, &root, "file");
        let value = pattern(7, 1000);
        let either = SetxattrOption4::SETXATTR4_EITHER;
        client.set_xattr(&file.handle, either, b"colour", &value).expect("an attribute");
        assert_eq!(client.get_xattr(&file.handle, b"colour").expect("it is there"), value);
        assert_eq!(client.list_xattrs(&file.handle).expect("a list"), [b"colour".to_vec()]);
        assert_eq!(status(client.get_xattr(&file.handle, b"taste")), NFS4ERR_NOXATTR);
        client.remove_xattr(&file.handle, b"colour").expect("it was there");
        assert!(client.list_xattrs(&file.handle).expect("a list").is_empty());
    });
}

fn ace(flag: u32, access_mask: u32, who: &str) -> Nfsace4<'static> {
    Nfsace4 { r#type: 0, flag, access_mask, who: who.as_bytes().to_vec().into() }
}

#[test]
fn a_list_of_two_hundred_entries_is_kept_and_enforced_over_every_flavor() {
    // RFC 8881 section 6.2.1, the kernel deciding
    in_world(|world| {
        let server = world.server().start();
        let (read, write) = (nfs4::ACE4_READ_DATA, nfs4::ACE4_WRITE_DATA | nfs4::ACE4_APPEND_DATA);
        // By Kerberos the number of an account that has a name is no owner.
        let bob = format!("{}@{}", account("bob").name, world.realm.name().to_lowercase());
        for flavor in Flavor::ALL {
            let (mut alice, root) = client(world, &server, "alice", flavor);
            let file = create(&mut alice, &root, &format!("file-{flavor}"));
            let stable = nfs4::StableHow4::FILE_SYNC4;
            alice.write(&file.handle, file.stateid, 0, stable, b"for some").expect("it is hers");
            let mut list = vec![ace(0, read | write, "OWNER@")];
            list.extend((50_000..50_200).map(|uid| ace(0, read, &uid.to_string())));
            list.extend([ace(0, 0, "GROUP@"), ace(0, 0, "EVERYONE@")]);
            alice.set_acl(&file.handle, list.clone()).expect("it is hers");
            let told = alice.acl(&file.handle).expect("a list");
            let named = told.iter().filter(|ace| ace.r#type == 0 && ace.who.starts_with(b"50"));
            assert!(named.clone().all(|ace| ace.access_mask & (read | write) == read));
            assert_eq!(named.count(), 200, "{flavor}");
            if is_root() {
                let (mut other, _) = client(world, &server, "bob", flavor);
                assert_eq!(status(other.read(&file.handle, Stateid4::ANONYMOUS, 0, 9)), NFS4ERR_ACCESS);
                list.insert(0, ace(0, read, &bob));
                alice.set_acl(&file.handle, list).expect("it is hers");
                let (data, _) = other.read(&file.handle, Stateid4::ANONYMOUS, 0, 9).expect("bob may now");
                assert_eq!(data, b"for some");
                let refused = other.write(&file.handle, Stateid4::ANONYMOUS, 0, stable, b"x");
                assert_eq!(status(refused), NFS4ERR_ACCESS);
                assert_eq!(status(other.set_acl(&file.handle, vec![ace(0, read, "OWNER@")])), NFS4ERR_PERM);
            }
        }
    });
}
