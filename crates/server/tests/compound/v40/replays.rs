//! Copies of requests, detected by the sequence of their owner or by their XID.

use crate::helper::*;
use nfs4::Nfsstat4::*;
use nfs4::*;
use vfs::{Export, ExportTable, SecFlavor, Timestamp};

/// Runs operations twice, as another RPC the second time. The answer must be the same, and nothing
/// more may change.
#[track_caller]
fn twice(client: &Client40<'_>, ops: &[Op]) -> Reply {
    let first = client.run(ops.to_vec());
    let counts = client.server.nfs.counts();
    let second = client.run(ops.to_vec());
    assert_eq!(first.bytes, second.bytes, "{:?} and {:?}", first.results, second.results);
    assert_eq!(counts, client.server.nfs.counts());
    first
}

#[test]
fn the_last_request_of_an_owner_is_answered_again() // RFC 7530 section 9.1.7
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    let at = [put_root(), lookup("export")];
    let create = [&at[..], &[client.create_op("f"), getfh()]].concat();
    let reply = twice(&client, &create).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    let stateid = twice(&client, &[put(&fh), client.confirm_op(stateid)]).ok().stateid();
    let lock = twice(&client, &[put(&fh), client.first_lock_op(stateid, 0, 9)]).ok().stateid();
    let lock = twice(&client, &[put(&fh), client.lock_op(lock, 20, 9)]).ok().stateid();
    twice(&client, &[put(&fh), client.unlock_op(lock, 0, 50)]).ok();
    twice(&client, &[&at[..], &[client.open_op(NOCREATE, by_name("none"), 1, 0)]].concat())
        .expect(NFS4ERR_NOENT);
    let close = [put(&fh), client.close_op(stateid)];
    twice(&client, &close).ok();
    // The next request of the owner ends that.
    client.opened("g");
    client.run(close.to_vec()).expect(NFS4ERR_BAD_STATEID);
}

#[test]
fn another_request_with_a_number_that_was_used_is_refused() // RFC 7530 section 9.1.9
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    let (fh, stateid) = client.opened("f");
    let seqid = client.next_open();
    let open = |name: &str| client.open_as(OPEN_OWNER, seqid, NOCREATE, by_name(name), 1, 0);
    client.at("export", vec![open("f")]).ok();
    client.at("export", vec![open("g")]).expect(NFS4ERR_BAD_SEQID);
    let close = NfsArgop4::OP_CLOSE(Close4Args { seqid, open_stateid: stateid });
    client.run(vec![put(&fh), close]).expect(NFS4ERR_BAD_SEQID);
    // Nor does another user get the cached reply.
    let mine = encode(0, &[put_root(), lookup("export"), open("f")]);
    server.call_bytes(&sys(BOB), 40, client.now.get(), &mine).expect(NFS4ERR_BAD_SEQID);
}

#[test]
fn a_denied_lock_is_denied_again_with_its_reason() // RFC 7530 section 9.1.7
{
    let server = Setup::default().start();
    let (a, b) = (Client40::new(&server), Client40::with(&server, b"b", sys(ALICE), [1; 8]));
    let ((fh, held), (_, open)) = (a.opened("f"), b.opened("f"));
    let lock = a.run(vec![put(&fh), a.first_lock_op(held, 0, 9)]).ok().stateid();
    let request = [put(&fh), b.first_lock_op(open, 5, 1)];
    twice(&b, &request).expect(NFS4ERR_DENIED);
    a.run(vec![put(&fh), a.unlock_op(lock, 0, 9)]).ok();
    b.run(request.to_vec()).expect(NFS4ERR_DENIED);
    b.run(vec![put(&fh), b.first_lock_op(open, 5, 1)]).ok();
}

#[test]
fn a_copy_of_a_change_is_answered_from_memory() // RFC 7530 section 3.1.1
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    let copy = |xid: u32, ops: &[Op]| {
        server.xid.store(xid, std::sync::atomic::Ordering::Relaxed);
        client.run(ops.to_vec())
    };
    let at = |op: Op| vec![put_root(), lookup("export"), op];
    copy(10, &at(mkdir("d"))).ok();
    assert!(copy(10, &at(mkdir("d"))).ok().outcome.replayed);
    copy(11, &at(mkdir("d"))).expect(NFS4ERR_EXIST);
    copy(12, &at(remove("d"))).ok();
    copy(12, &at(remove("d"))).ok();
    // The same number does not make another request a copy.
    copy(12, &at(remove("e"))).expect(NFS4ERR_NOENT);
    client.now.set(client.now.get() + std::time::Duration::from_secs(121));
    copy(12, &at(remove("d"))).expect(NFS4ERR_NOENT);
    // An operation that only reads runs again.
    copy(13, &at(lookup("f"))).expect(NFS4ERR_NOENT);
    client.opened("f");
    copy(13, &at(lookup("f"))).ok();
}

/// Starts a server with "/p" for these flavors and "/export" for all, and returns a function that
/// makes these exports with other flavors.
fn protected(flavors: &[SecFlavor]) -> (Server, impl Fn(&[SecFlavor]) -> Vec<Export>) {
    let backend = memory();
    let exports = move |flavors: &[SecFlavor]| {
        vec![for_flavors(export("/p", &backend), flavors), export("/export", &memory())]
    };
    (Setup::with_exports(exports(flavors)).start(), exports)
}

#[test]
fn a_reply_is_for_the_flavor_service_and_principal_of_its_request()
// RFC 7530 section 9.1.9, RFC 8881 section 2.10.6.1.3.1
{
    use SecFlavor::*;
    let (server, _) = protected(&[Krb5p]);
    let strong = Client40::with(&server, b"c", krb5(Krb5p, "alice", ALICE), [1; 8]);
    let create = Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(mode(0o666)));
    let reply = strong.at("p", vec![strong.open_op(create, by_name("f"), 3, 0), getfh()]).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    strong.run(vec![put(&fh), strong.confirm_op(stateid)]).ok();
    let directory = strong.at("p", vec![getfh()]).ok().fh(0);
    let again = vec![put(&directory), strong.open_op(NOCREATE, by_name("f"), 1, 0)];
    strong.run(again.clone()).ok();
    let alice = |flavor| krb5(flavor, "alice", ALICE);
    let others = [alice(Krb5), alice(Krb5i), krb5(Krb5p, "bob", BOB), sys(ALICE), sys(0)];
    for security in &others {
        let run = |ops: &[Op]| server.call(security, 40, strong.now.get(), 0, ops);
        let read = read(Stateid4::ANONYMOUS, 0, 4);
        run(&[&again[..], &[getfh(), read.clone()]].concat()).expect(NFS4ERR_BAD_SEQID);
        run(&[put_root(), again[1].clone(), read]).expect(NFS4ERR_BAD_SEQID);
    }
    strong.run(again).ok();
}

#[test]
fn a_copy_of_an_open_obeys_the_policy_that_is_in_force_now() // RFC 7530 section 3.3.3
{
    use SecFlavor::*;
    let (server, exports) = protected(&[Krb5p, Sys]);
    let client = Client40::new(&server);
    let create = Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(mode(0o666)));
    let reply = client.at("p", vec![client.open_op(create, by_name("f"), 3, 0), getfh()]).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    client.run(vec![put(&fh), client.confirm_op(stateid)]).ok();
    let directory = client.at("p", vec![getfh()]).ok().fh(0);
    let again = vec![put(&directory), client.open_op(NOCREATE, by_name("f"), 3, 0)];
    let stateid = client.run(again.clone()).ok().stateid();
    client.run(again.clone()).ok();
    let table = ExportTable::new(exports(&[Krb5p]), Timestamp { seconds: 1000, nanoseconds: 0 }).unwrap();
    server.exports.replace(table);
    client.run([&again[..], &[write(stateid, 0, b"x")]].concat()).expect(NFS4ERR_WRONGSEC);
    let closed: Export = for_network(exports(&[Sys]).remove(0), "198.51.100.0/24");
    let table = ExportTable::new(vec![closed], Timestamp { seconds: 1000, nanoseconds: 0 }).unwrap();
    server.exports.replace(table);
    client.run(again).expect(NFS4ERR_STALE);
}

#[test]
fn the_same_number_in_another_directory_is_no_copy() // RFC 7530 sections 9.1.9 and 16.18.5
{
    let server = Setup::default().start();
    let client = Client40::new(&server);
    client.at("export", vec![mkdir("a")]).ok();
    client.at("export", vec![mkdir("b")]).ok();
    client.at("export/b", vec![client.create_op("f"), getfh()]).ok();
    let open = |owner: &[u8], seqid| client.open_as(owner, seqid, NOCREATE, by_name("f"), 1, 0);
    // An owner whose first OPEN has failed begins anew, with the same or another OPEN.
    client.at("export/a", vec![open(b"new", 1)]).expect(NFS4ERR_NOENT);
    client.at("export/b", vec![open(b"new", 1)]).ok();
    client.at("export/a", vec![open(b"other", 1)]).expect(NFS4ERR_NOENT);
    client.at("export/a", vec![client.create_op("f")]).ok();
    client.at("export/a", vec![open(b"other", 1)]).ok();
    client.at("export/a", vec![remove("f")]).ok();
    // A confirmed owner has to continue its sequence.
    client.open_seqid.set(1);
    client.opened("x");
    let seqid = client.next_open();
    client
        .at("export/a", vec![client.open_as(OPEN_OWNER, seqid, NOCREATE, by_name("f"), 1, 0)])
        .expect(NFS4ERR_NOENT);
    client
        .at("export/b", vec![client.open_as(OPEN_OWNER, seqid, NOCREATE, by_name("f"), 1, 0)])
        .expect(NFS4ERR_BAD_SEQID);
    client
        .at("export/a", vec![client.open_as(OPEN_OWNER, seqid, NOCREATE, by_name("f"), 1, 0)])
        .expect(NFS4ERR_NOENT);
}
