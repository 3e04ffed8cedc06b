//! Owners that are not in a cache (RFC 8881 section 5.9): a thread that must not block queries no
//! directory of users.

use crate::helper::*;
use crate::local::{Folder, folder};
use crate::waiting::{Tried, try_bytes, try_on};
use identity::{Identity, IdentitySource, SourceError};
use nfs4::Nfsstat4::*;
use nfs4::*;
use orthrus_server::engine::WaitsFor;
use std::sync::{Arc, Condvar, Mutex};
use vfs::VfsError;

/// The lane of COMPOUNDs that wait for names.
const NAMES: u32 = u32::MAX;

/// A directory of users that answers for alice once its gate is open.
#[derive(Clone, Default)]
struct UserDirectory(Arc<(Mutex<bool>, Condvar)>);

impl UserDirectory {
    fn set(&self, open: bool) {
        *self.0.0.lock().unwrap() = open;
        self.0.1.notify_all();
    }

    fn pass<T>(&self, answer: T) -> Result<T, SourceError> {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |open| !*open));
        Ok(answer)
    }
}

impl IdentitySource for UserDirectory {
    fn identity(&self, _: &str) -> Result<Option<Identity>, SourceError> {
        self.pass(None)
    }
    fn uid(&self, user: &str) -> Result<Option<u32>, SourceError> {
        self.pass((user == "alice").then_some(ALICE))
    }
    fn gid(&self, group: &str) -> Result<Option<u32>, SourceError> {
        self.pass((group == "alice").then_some(ALICE))
    }
    fn user(&self, uid: u32) -> Result<Option<String>, SourceError> {
        self.pass((uid == ALICE).then(|| "alice".to_owned()))
    }
    fn group(&self, gid: u32) -> Result<Option<String>, SourceError> {
        self.pass((gid == ALICE).then(|| "alice".to_owned()))
    }
}

fn owned_by(owner: &[u8]) -> Fattr4<'static> {
    fattr(AttributeValues { owner: Some(bytes(owner)), mode: Some(0o644), ..AttributeValues::default() })
}

fn grouped_by(group: &[u8]) -> Fattr4<'static> {
    fattr(AttributeValues { owner_group: Some(bytes(group)), ..AttributeValues::default() })
}

fn create_owned(name: &str, owner: &[u8]) -> Op {
    open_how(Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(owned_by(owner))), by_name(name), 3, 0, b"owner")
}

fn readdir(attributes: &[u32]) -> Op {
    NfsArgop4::OP_READDIR(Readdir4Args {
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 0,
        maxcount: 4096,
        attr_request: Bitmap4::of(attributes),
    })
}

/// Every operation that looks up a name.
fn asking(stateid: Stateid4) -> Vec<Op> {
    let (alice, set) = (b"alice@example.org", |values| setattr(stateid, values));
    vec![
        getattr(&[FATTR4_OWNER]),
        getattr(&[FATTR4_SIZE, FATTR4_OWNER_GROUP]),
        NfsArgop4::OP_VERIFY(Verify4Args { obj_attributes: grouped_by(alice) }),
        NfsArgop4::OP_NVERIFY(Nverify4Args { obj_attributes: grouped_by(b"bob@example.org") }),
        set(owned_by(alice)),
        set(grouped_by(alice)),
    ]
}

/// Tries a COMPOUND while the directory hangs, and resumes it when the directory answers.
fn tried(directory: &UserDirectory, client: &Client<'_>, tried: Tried) -> Compound4Res<'static> {
    let waiting = tried.waits();
    assert_eq!(waiting.suspended.lane(), NAMES, "it holds up nobody who waits for a disk");
    directory.set(true);
    let reply = waiting.resume(client);
    directory.set(false);
    client.server.mapper.forget();
    reply
}

#[test]
fn an_operation_that_needs_a_name_waits_in_a_lane_of_its_own() {
    let (directory, memory) = (UserDirectory::default(), memory());
    let server = Setup::with_exports(vec![export("/export", &memory)]).names(directory.clone());
    let server = server.start();
    let mut client = Client::new(&server);
    let reply = client.at("export", vec![open_create("f", 3), getfh()]).ok();
    let (fh, stateid) = (reply.fh(0), reply.opened().stateid);
    let mut sequence = 0;
    let mut on_slot = |operations: Vec<Op>| {
        sequence += 1;
        try_on(&client, 1, sequence, operations)
    };
    for operation in asking(stateid) {
        let reply = tried(&directory, &client, on_slot(vec![put(&fh), operation.clone()]));
        assert_eq!(reply.status, NFS4_OK, "{operation:?}");
        on_slot(vec![put(&fh), getattr(&[FATTR4_SIZE, FATTR4_MODE])]).answered(NFS4_OK);
    }
    let root = || vec![put_root(), lookup("export")];
    let attributes = [FATTR4_RDATTR_ERROR, FATTR4_OWNER];
    for operation in [
        readdir(&attributes),
        readdir(&[FATTR4_OWNER_GROUP]),
        create(Createtype4::NF4DIR, "d", owned_by(b"alice@example.org")),
        create_owned("g", b"alice@example.org"),
    ] {
        let reply = tried(&directory, &client, on_slot([root(), vec![operation.clone()]].concat()));
        assert_eq!(reply.status, NFS4_OK, "{operation:?}");
    }
    on_slot([root(), vec![readdir(&[FATTR4_RDATTR_ERROR, FATTR4_FILEID])]].concat()).answered(NFS4_OK);
    on_slot(vec![put(&fh), setattr(stateid, owned_by(b"1000"))]).answered(NFS4_OK);
    directory.set(true);
}

#[test]
fn a_create_that_waits_for_a_name_has_created_nothing() {
    let (directory, memory) = (UserDirectory::default(), memory());
    let server = Setup::with_exports(vec![export("/export", &memory)]);
    let server = server.names(directory.clone()).start();
    let client = Client::new(&server);
    let (caller, root) = (vfs::Caller::root(), vfs::Backend::root(&*memory));
    for (sequence, operation) in [
        create(Createtype4::NF4DIR, "x", owned_by(b"bob@example.org")),
        create_owned("x", b"bob@example.org"),
    ]
    .into_iter()
    .enumerate()
    {
        let sequence = u32::try_from(sequence).unwrap() + 1;
        let operations = vec![put_root(), lookup("export"), operation];
        let waiting = try_on(&client, 1, sequence, operations).waits();
        assert_eq!(vfs::Backend::lookup(&*memory, &caller, &root, b"x"), Err(VfsError::Noent));
        directory.set(true);
        assert_eq!(waiting.resume(&client).status, NFS4ERR_BADOWNER);
        assert_eq!(vfs::Backend::lookup(&*memory, &caller, &root, b"x"), Err(VfsError::Noent));
        directory.set(false);
        server.mapper.forget();
    }
    directory.set(true);
}

#[test]
fn an_open_of_nfsv40_waits_for_a_name_and_keeps_its_sequence() // RFC 7530 section 9.1.7
{
    let directory = UserDirectory::default();
    let server = Setup::default().names(directory.clone()).start();
    let (client, old) = (Client::new(&server), Client40::new(&server));
    let how = Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(owned_by(b"alice@example.org")));
    let open = old.open_op(how, by_name("f"), 3, 0);
    let args = encode(0, &[put_root(), lookup("export"), open, getfh()]);
    let reply = tried(&directory, &client, try_bytes(&client, args));
    let NfsResop4::OP_OPEN(Open4Res::NFS4_OK(opened)) = &reply.resarray[2] else { panic!("{reply:?}") };
    let NfsResop4::OP_GETFH(Getfh4Res::NFS4_OK(fh)) = &reply.resarray[3] else { panic!("{reply:?}") };
    old.run(vec![put(&fh.object), old.confirm_op(opened.stateid)]).ok();
    let set = setattr(Stateid4::ANONYMOUS, owned_by(b"alice@example.org"));
    let args = encode(0, &[put(&fh.object), set]);
    assert_eq!(tried(&directory, &client, try_bytes(&client, args)).status, NFS4_OK);
    directory.set(true);
}

#[test]
fn the_names_in_a_list_are_waited_for_as_well() // RFC 8881 section 6.2.1
{
    let (place, directory) = (Folder::new(), UserDirectory::default());
    let export = folder("/export", place.path());
    if !export.backend.features().acls {
        eprintln!("skipped: no access control lists here");
        return;
    }
    let server = Setup::with_exports(vec![export]).names(directory.clone()).start();
    let mut client = Client::new(&server);
    let fh = client.at("export", vec![open_create("f", 3), getfh()]).ok().fh(0);
    let ace = |who: &[u8], flag, access_mask| Nfsace4 { r#type: 0, flag, access_mask, who: bytes(who) };
    let read = ACE4_READ_DATA;
    let list = vec![
        ace(b"OWNER@", 0, read | ACE4_WRITE_DATA | ACE4_APPEND_DATA),
        ace(b"alice@example.org", 0, read),
        ace(b"GROUP@", ACE4_IDENTIFIER_GROUP, read),
        ace(b"alice@example.org", ACE4_IDENTIFIER_GROUP, read),
        ace(b"EVERYONE@", 0, read),
    ];
    let acl = fattr(AttributeValues { acl: Some(list), ..AttributeValues::default() });
    for (sequence, operation) in
        [setattr(Stateid4::ANONYMOUS, acl), getattr(&[FATTR4_ACL])].into_iter().enumerate()
    {
        let sequence = u32::try_from(sequence).unwrap() + 1;
        let waiting = try_on(&client, 1, sequence, vec![put(&fh), operation]).waits();
        directory.set(true);
        let reply = waiting.resume(&client);
        assert_eq!(reply.status, NFS4_OK, "{reply:?}");
        directory.set(false);
        server.mapper.forget();
    }
    directory.set(true);
}
