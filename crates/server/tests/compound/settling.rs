//! Group commit: changes of names and attributes are on stable storage before they are
//! acknowledged, and delay no other request until then.

use crate::helper::*;
use crate::waiting::{Site, try_on};
use nfs4::Nfsstat4::*;
use nfs4::*;
use vfs::VfsError;

fn site() -> Site {
    let site = Site::new();
    site.disk.start_settling();
    site
}

fn in_export(operations: Vec<Op>) -> Vec<Op> {
    [vec![put_root(), lookup("export")], operations].concat()
}

#[test]
fn a_directory_is_free_while_its_names_are_on_their_way_to_the_disk_and_one_way_does_for_all() {
    let site = site();
    let (client, _, _) = site.client();
    site.disk.take_settled();
    let renaming = in_export(vec![savefh(), rename("f", "g"), getfh()]);
    let first = try_on(&client, 2, 1, renaming).waits().go_on(&client);
    let second = try_on(&client, 3, 1, in_export(vec![open_create("h", 3), getfh()])).waits().go_on(&client);
    assert!(first.suspended.unsettled().is_some());
    assert_eq!(first.suspended.unsettled(), second.suspended.unsettled());
    assert!(site.disk.take_settled().is_empty());
    first.suspended.settle().unwrap();
    assert_eq!(site.disk.take_settled().len(), 1);
    assert_eq!(second.settled(&client, Ok(())).status, NFS4_OK);
    assert_eq!(first.settled(&client, Ok(())).status, NFS4_OK);
}

#[test]
fn what_has_been_run_is_not_given_up_it_waits_for_the_disk_instead() {
    let site = site();
    let (client, _, _) = site.client();
    site.disk.take_settled();
    let renaming = in_export(vec![savefh(), rename("f", "g")]);
    let reply = try_on(&client, 1, 1, renaming).waits().go_on(&client).give_up(&client);
    assert_eq!((reply.status, reply.resarray.len()), (NFS4_OK, 5), "{reply:?}");
    assert_eq!(site.disk.take_settled().len(), 1);
}

#[test]
fn what_does_not_get_to_the_disk_is_not_acknowledged_nor_what_was_done_after_it() {
    let site = site();
    let (mut client, _, _) = site.client();
    client.cache_this = true;
    let opens = site.server.nfs.counts().opens;
    let operations = || in_export(vec![open_create("g", 3), getfh(), getattr(&[FATTR4_SIZE])]);
    let waiting = try_on(&client, 1, 1, operations()).waits().go_on(&client);
    assert_eq!(site.server.nfs.counts().opens, opens + 1);
    let reply = waiting.settled(&client, Err(VfsError::Os(5)));
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
    site.disk.take_settled();
    let operations = in_export(vec![savefh(), lookup("a"), rename("f", "g")]);
    let waiting = try_on(&client, 1, 1, operations).waits().go_on(&client);
    let new = site.disk.take_settled();
    waiting.suspended.settle().unwrap();
    assert_eq!(waiting.settled(&client, Ok(())).status, NFS4_OK);
    let old = site.disk.take_settled();
    assert_eq!((new.len(), old.len()), (1, 1));
    assert_eq!(old, [vfs::Backend::root(&*site.disk)]);
    assert_ne!(new, old);
}

#[test]
fn who_waits_by_itself_settles_by_itself() {
    let site = site();
    let (mut client, _, stateid) = site.client();
    site.disk.take_settled();
    let each = [mkdir("d"), open_create("g", 3), remove("g")];
    for operation in each {
        client.at("export", vec![operation]).ok();
        assert_eq!(site.disk.take_settled().len(), 1);
    }
    // One sync for several changes of one directory in a COMPOUND. A size counts as well, though it
    // is set through an open file.
    client.at("export", vec![open_create("h", 3), put_root(), lookup("export"), remove("h")]).ok();
    assert_eq!(site.disk.take_settled().len(), 1);
    let size = AttributeValues { size: Some(3), ..AttributeValues::default() };
    client.at("export/f", vec![setattr(stateid, fattr(size))]).ok();
    assert_eq!(site.disk.take_settled().len(), 1);
    client.at("export", vec![getattr(&[FATTR4_SIZE])]).ok();
    assert!(site.disk.take_settled().is_empty());
    site.disk.fall_sick();
    client.at("export", vec![mkdir("e"), getfh()]).expect(NFS4ERR_IO);
}

#[test]
fn in_minor_version_0_an_operation_settles_before_its_reply_is_kept() // RFC 7530 section 9.1.7
{
    let site = site();
    let client = Client40::new(&site.server);
    client.at("export", vec![client.create_op("f")]).ok();
    assert_eq!(site.disk.take_settled().len(), 1);
    site.disk.fall_sick();
    client.at("export", vec![client.create_op("g"), getfh()]).expect(NFS4ERR_IO);
    // The first one was not confirmed.
    assert_eq!(site.server.nfs.counts().opens, 0);
    client.at("export", vec![remove("f")]).expect(NFS4ERR_IO);
}
