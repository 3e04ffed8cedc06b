//! Group commit: changes of names and attributes are on stable storage before they are
//! acknowledged, and delay no other request until then.

use crate::helper::*;
use crate::waiting::{Site, commit, try_on};
use nfs4::Nfsstat4::*;
use nfs4::*;
use vfs::VfsError;

fn site() -> Site {
    let site = Site::new();
    site.disk.start_syncing_names();
    site
}

fn in_export(operations: Vec<Op>) -> Vec<Op> {
    [vec![put_root(), lookup("export")], operations].concat()
}

#[test]
fn one_sync_serves_all_changes_of_a_directory_which_is_free_meanwhile() {
    let site = site();
    let (client, _, _) = site.client();
    site.disk.take_synced();
    let renaming = in_export(vec![savefh(), rename("f", "g"), getfh()]);
    let first = try_on(&client, 2, 1, renaming).waits().execute(&client);
    let second =
        try_on(&client, 3, 1, in_export(vec![open_create("h", 3), getfh()])).waits().execute(&client);
    assert!(first.suspended.pending_sync().is_some());
    assert_eq!(first.suspended.pending_sync(), second.suspended.pending_sync());
    assert!(site.disk.take_synced().is_empty());
    site.server.nfs.sync(&first.suspended).unwrap();
    assert_eq!(site.disk.take_synced().len(), 1);
    assert_eq!(second.complete(&client, Ok(())).status, NFS4_OK);
    assert_eq!(first.complete(&client, Ok(())).status, NFS4_OK);
}

#[test]
fn an_executed_call_is_not_declined_and_waits_for_the_disk() {
    let site = site();
    let (client, _, _) = site.client();
    site.disk.take_synced();
    let renaming = in_export(vec![savefh(), rename("f", "g")]);
    let reply = try_on(&client, 1, 1, renaming).waits().execute(&client).decline(&client);
    assert_eq!((reply.status, reply.resarray.len()), (NFS4_OK, 5), "{reply:?}");
    assert_eq!(site.disk.take_synced().len(), 1);
}

#[test]
fn a_change_that_does_not_reach_the_disk_is_not_acknowledged_nor_are_later_ones() {
    let site = site();
    let (mut client, _, _) = site.client();
    client.cache_this = true;
    let opens = site.server.nfs.counts().opens;
    let operations = || in_export(vec![open_create("g", 3), getfh(), getattr(&[FATTR4_SIZE])]);
    let waiting = try_on(&client, 1, 1, operations()).waits().execute(&client);
    assert_eq!(site.server.nfs.counts().opens, opens + 1);
    let reply = waiting.complete(&client, Err(VfsError::Os(5)));
    assert_eq!((reply.status, reply.resarray.len()), (NFS4ERR_IO, 4), "{reply:?}");
    assert!(matches!(reply.resarray[3], NfsResop4::OP_OPEN(Open4Res::Default(NFS4ERR_IO))));
    assert_eq!(site.server.nfs.counts().opens, opens, "nobody could close it");
    assert_eq!(site.server.nfs.outcomes().errors(), [("OPEN", 5, 1)]);
    // The retry gets the same reply, and the slot continues.
    assert_eq!(try_on(&client, 1, 1, operations()).answered(NFS4ERR_IO), reply);
    try_on(&client, 1, 2, vec![put_root()]).answered(NFS4_OK);
}

#[test]
fn a_name_that_moves_is_on_the_disk_at_both_ends_the_new_one_first() {
    let site = site();
    let (mut client, _, _) = site.client();
    client.make_directory("export", "a");
    site.disk.take_synced();
    let operations = in_export(vec![savefh(), lookup("a"), rename("f", "g")]);
    let waiting = try_on(&client, 1, 1, operations).waits().execute(&client);
    let new = site.disk.take_synced();
    site.server.nfs.sync(&waiting.suspended).unwrap();
    assert_eq!(waiting.complete(&client, Ok(())).status, NFS4_OK);
    let old = site.disk.take_synced();
    assert_eq!((new.len(), old.len()), (1, 1));
    assert_eq!(old, [vfs::Backend::root(&*site.disk)]);
    assert_ne!(new, old);
}

#[test]
fn a_call_that_waits_alone_syncs_alone() {
    let site = site();
    let (mut client, _, stateid) = site.client();
    site.disk.take_synced();
    let each = [mkdir("d"), open_create("g", 3), remove("g")];
    for operation in each {
        client.at("export", vec![operation]).ok();
        assert_eq!(site.disk.take_synced().len(), 1);
    }
    // One sync for several changes of one directory in a COMPOUND. A size counts as well, though it
    // is set through an open file.
    client.at("export", vec![open_create("h", 3), put_root(), lookup("export"), remove("h")]).ok();
    assert_eq!(site.disk.take_synced().len(), 1);
    let size = AttributeValues { size: Some(3), ..AttributeValues::default() };
    client.at("export/f", vec![setattr(stateid, fattr(size))]).ok();
    assert_eq!(site.disk.take_synced().len(), 1);
    client.at("export", vec![getattr(&[FATTR4_SIZE])]).ok();
    assert!(site.disk.take_synced().is_empty());
    site.disk.fail_syncs(true);
    client.at("export", vec![mkdir("e"), getfh()]).expect(NFS4ERR_IO);
}

/// Its handle is stale by then, and a file system can sync an object only if it has it.
#[test]
fn a_directory_that_a_compound_makes_and_removes_is_held_until_its_sync() {
    let site = site();
    let (mut client, ..) = site.client();
    site.disk.take_synced();
    let up = NfsArgop4::OP_LOOKUPP;
    let operations = vec![mkdir("d"), mkdir("e"), up.clone(), remove("e"), up, remove("d")];
    client.at("export", operations).ok();
    let synced = site.disk.take_synced();
    assert_eq!((synced.len(), synced[0]), (2, vfs::Backend::root(&*site.disk)));
}

#[test]
fn a_compound_that_changes_many_objects_holds_few_of_them() {
    let site = site();
    let (client, ..) = site.client();
    site.disk.take_synced();
    let waiting = try_on(&client, 1, 1, in_export(vec![mkdir("d"); 20])).waits().execute(&client);
    site.server.nfs.sync(&waiting.suspended).unwrap();
    assert_eq!(waiting.complete(&client, Ok(())).status, NFS4_OK);
    let synced = site.disk.take_synced();
    let root = vfs::Backend::root(&*site.disk);
    // The root is the first of eight objects that are held, and the others are synced at once.
    assert_eq!((synced.len(), synced.iter().position(|object| *object == root)), (20, Some(12)));
}

/// The disk may keep the name, and lose what came after it.
#[test]
fn attributes_that_a_new_object_gets_after_its_name_are_on_the_disk_before_the_name() {
    let site = site();
    let (mut client, ..) = site.client();
    let sized = fattr(AttributeValues { mode: Some(0o644), size: Some(3), ..Default::default() });
    let how = Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(sized));
    let each = [create(Createtype4::NF4DIR, "d", mode(0o2755)), open_how(how, by_name("g"), 3, 0, b"owner")];
    site.disk.take_synced();
    for operation in each {
        client.at("export", vec![operation]).ok();
        let synced = site.disk.take_synced();
        assert_eq!(synced.len(), 2);
        assert_eq!(synced[1], vfs::Backend::root(&*site.disk));
    }
}

#[test]
fn a_sync_of_attributes_that_fails_has_unstable_data_sent_again() // RFC 8881 section 18.3.3
{
    let site = site();
    let (mut client, fh, stateid) = site.client();
    let before = verifier(&mut client, &fh);
    assert_eq!(verifier(&mut client, &fh), before);
    // The kernel reports the loss to the first sync of the file, and to no later one.
    let size = AttributeValues { size: Some(3), ..AttributeValues::default() };
    let waiting =
        try_on(&client, 1, 1, vec![put(&fh), setattr(stateid, fattr(size))]).waits().execute(&client);
    site.disk.fail_syncs(true);
    site.server.nfs.sync(&waiting.suspended).unwrap_err();
    site.disk.fail_syncs(false);
    assert_ne!(verifier(&mut client, &fh), before);
}

#[test]
fn a_failed_sync_of_the_backends_own_has_unstable_data_sent_again() // RFC 8881 section 18.3.3
{
    let site = site();
    let (mut client, fh, stateid) = site.client();
    let reply = client.run(vec![put(&fh), write(stateid, 0, b"data")]).ok();
    let NfsResop4::OP_WRITE(Write4Res::NFS4_OK(written)) = reply.last() else { panic!() };
    assert_eq!(verifier(&mut client, &fh), written.writeverf);
    site.disk.fail_own_sync();
    assert_ne!(verifier(&mut client, &fh), written.writeverf);
}

#[test]
fn a_commit_asks_the_open_file_which_learns_of_every_loss() // RFC 8881 section 18.3.3
{
    let site = site();
    let (mut client, fh, _) = site.client();
    let before = verifier(&mut client, &fh);
    // The file system itself would not fail: another program has seen the loss.
    site.disk.fail_syncs(true);
    client.run(vec![put(&fh), commit()]).expect(NFS4ERR_IO);
    site.disk.fail_syncs(false);
    assert_ne!(verifier(&mut client, &fh), before);
}

#[test]
fn a_commit_asks_each_open_of_the_client() // RFC 8881 section 18.3.3
{
    let site = site();
    let (mut client, fh, first) = site.client();
    client.run(vec![put(&fh), close(first)]).ok();
    let owners: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    let open = |client: &mut Client<'_>, name, owner| {
        let opened = client.at("export", vec![open_how(NOCREATE, by_name(name), 3, 0, owner)]).ok();
        opened.opened().stateid
    };
    // The owners keep their order, since another file keeps them alive.
    client.make_file("export", "g", b"");
    owners.iter().for_each(|owner| _ = open(&mut client, "g", owner));
    for oldest in 0..owners.len() {
        let mut opens = owners.map(|owner| open(&mut client, "f", owner));
        let before = verifier(&mut client, &fh);
        site.disk.lose_data();
        for other in (0..owners.len()).filter(|other| *other != oldest) {
            client.run(vec![put(&fh), close(opens[other])]).ok();
            opens[other] = open(&mut client, "f", owners[other]);
        }
        client.run(vec![put(&fh), commit()]).expect(NFS4ERR_IO);
        assert_ne!(verifier(&mut client, &fh), before);
        opens.iter().for_each(|open| drop(client.run(vec![put(&fh), close(*open)]).ok()));
    }
}

/// Commits a file, and returns the write verifier.
fn verifier(client: &mut Client<'_>, fh: &[u8]) -> Verifier4 {
    let reply = client.run(vec![put(fh), commit()]).ok();
    let NfsResop4::OP_COMMIT(Commit4Res::NFS4_OK(ok)) = reply.last() else { panic!() };
    ok.writeverf
}

#[test]
fn an_open_that_a_client_had_before_outlives_a_sync_that_fails() {
    let site = site();
    let (mut client, fh, stateid) = site.client();
    let empty = fattr(AttributeValues { size: Some(0), ..AttributeValues::default() });
    let how = Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(empty));
    let operations = in_export(vec![open_how(how, by_name("f"), 3, 0, b"owner")]);
    let waiting = try_on(&client, 1, 1, operations).waits().execute(&client);
    let reply = waiting.complete(&client, Err(VfsError::Os(5)));
    assert_eq!(reply.status, NFS4ERR_IO);
    // As Linux does, with the sequence number 0 for the current one.
    let current = Stateid4 { seqid: 0, ..stateid };
    client.run(vec![put(&fh), write(current, 0, b"still open")]).ok();
}

#[test]
// RFC 7862 sections 15.1, 15.4 and 15.13
fn space_and_shared_blocks_are_on_stable_storage_before_the_reply() {
    let site = Site::new();
    let (mut client, fh, stateid) = site.client();
    client.minor = 2;
    let reply = client.at("export", vec![open_create("other", 3), getfh()]).ok();
    let (other, source) = (reply.fh(0), reply.opened().stateid);
    client.run(vec![put(&other), write(source, 0, &[1; 8192])]).ok();
    let cloning = vec![put(&other), savefh(), put(&fh), clone((source, stateid), 0, 0, 4096)];
    let each =
        [vec![put(&fh), allocate(stateid, 0, 4096)], vec![put(&fh), deallocate(stateid, 0, 4096)], cloning];
    for operations in each {
        client.run(operations.clone()).ok();
        site.disk.fail_syncs(true);
        client.run(operations).expect(NFS4ERR_IO);
        site.disk.fail_syncs(false);
    }
}

#[test]
fn in_minor_version_0_an_operation_syncs_before_its_reply_is_kept() // RFC 7530 section 9.1.7
{
    let site = site();
    let client = Client40::new(&site.server);
    client.at("export", vec![client.create_op("f")]).ok();
    assert_eq!(site.disk.take_synced().len(), 1);
    site.disk.fail_syncs(true);
    client.at("export", vec![client.create_op("g"), getfh()]).expect(NFS4ERR_IO);
    // The first one was not confirmed.
    assert_eq!(site.server.nfs.counts().opens, 0);
    client.at("export", vec![remove("f")]).expect(NFS4ERR_IO);
}
