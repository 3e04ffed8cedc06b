//! A call's permissions on folders of this machine, and the set-id bits that a change of data
//! clears.

use crate::helper::*;
use crate::local::{Folder, folder};
use nfs4::Nfsstat4::*;
use nfs4::*;
use nix::unistd::{chown, geteuid};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use vfs::Caller;
use vfs_local::become_server;

/// A name, and operations on a file (first argument) with another one (second argument).
type NameChange = (&'static str, fn(&[u8], &[u8]) -> Vec<Op>);

const ANONYMOUS: Stateid4 = Stateid4::ANONYMOUS;

fn size(size: u64) -> Fattr4<'static> {
    fattr(AttributeValues { size: Some(size), ..Default::default() })
}

/// Each operation that changes the data of `fh`, with other data in `from`.
const CHANGES: [NameChange; 7] = [
    ("WRITE", |fh, _| vec![put(fh), write(ANONYMOUS, 0, b"evil")]),
    ("WRITE behind the end", |fh, _| vec![put(fh), write(ANONYMOUS, 1 << 20, b"evil")]),
    ("SETATTR of the size", |fh, _| vec![put(fh), setattr(ANONYMOUS, size(3))]),
    ("SETATTR to a larger size", |fh, _| vec![put(fh), setattr(ANONYMOUS, size(1 << 16))]),
    ("ALLOCATE", |fh, _| vec![put(fh), allocate(ANONYMOUS, 0, 1 << 16)]),
    ("DEALLOCATE", |fh, _| vec![put(fh), deallocate(ANONYMOUS, 0, 4096)]),
    ("COPY", |fh, from| {
        let args = Copy4Args { ca_synchronous: true, ..copy_args((ANONYMOUS, ANONYMOUS), 0, 0, 4) };
        vec![put(from), savefh(), put(fh), NfsArgop4::OP_COPY(args)]
    }),
];

#[test]
fn set_id_bits_go_with_every_change_of_the_data() // RFC 8881 section 6.2.4, write(2)
{
    if !geteuid().is_root() {
        return eprintln!("skipped: only root makes files of several users");
    }
    let place = Folder::new();
    let server = Setup::with_exports(vec![folder("/export", place.path())]).start();
    let mut owner = Client::with(&server, b"owner", sys(ALICE), FORE);
    let mut other = Client::with(&server, b"other", sys(BOB), FORE);
    (owner.minor, other.minor) = (2, 2);
    owner.make_file("export", "from", b"data");
    let mut cases = 0;
    for (who, client) in [("the owner", &mut owner), ("another", &mut other)] {
        let from = client.fh_of("export/from");
        let truncating: NameChange = ("OPEN that truncates", |_, _| Vec::new());
        for (what, change) in CHANGES.into_iter().chain([truncating]) {
            become_server();
            let path = place.join("program");
            fs::write(&path, vec![1; 8192]).unwrap();
            chown(&path, Some(ALICE.into()), Some(ALICE.into())).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
            let fh = client.fh_of("export/program");
            let ops = change(&fh, &from);
            if ops.is_empty() {
                let how = Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(size(0)));
                let reply = client.at("export", vec![open_how(how, by_name("program"), 3, 0, b"o")]).ok();
                client.run(vec![put(&fh), close(reply.opened().stateid)]).ok();
            } else {
                client.run(ops).ok();
            }
            become_server();
            let mode = fs::metadata(&path).unwrap().mode() & 0o7777;
            assert_eq!(mode & 0o6000, 0, "{what} by {who} leaves {mode:o}");
            fs::remove_file(&path).unwrap();
            cases += 1;
        }
    }
    assert_eq!(cases, 16);
}

#[test]
fn a_write_by_another_user_than_the_opener_is_made_as_that_user() // RFC 8881 section 10.4
{
    if !geteuid().is_root() {
        return eprintln!("skipped: only root makes files of several users");
    }
    let place = Folder::new();
    let server = Setup::with_exports(vec![folder("/export", place.path())]).start();
    let mut client = Client::with(&server, b"client", sys(ALICE), FORE);
    client.minor = 2;
    let fh = client.make_file("export", "file", b"data");
    let open = client.at("export", vec![open("file", 3)]).ok().opened().stateid;
    let path = place.join("file");
    let changes: [(&str, Op); 4] = [
        ("WRITE", write(open, 0, b"more")),
        ("SETATTR of the size", setattr(open, size(8192))),
        ("ALLOCATE", allocate(open, 0, 1 << 16)),
        ("DEALLOCATE", deallocate(open, 0, 4096)),
    ];
    for (name, change) in changes {
        // The bit means nothing here, and a member of the group keeps it.
        become_server();
        fs::set_permissions(&path, Permissions::from_mode(0o2666)).unwrap();
        for (user, left) in [(ALICE, 0o2666), (BOB, 0o666)] {
            client.security = sys(user);
            client.run(vec![put(&fh), change.clone()]).ok();
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, left, "{name} by {user}");
        }
    }
}

#[test]
fn a_user_or_group_number_of_minus_one_has_no_rights() // setfsuid(2): -1 changes nothing and asks
{
    if !geteuid().is_root() {
        return eprintln!("skipped: only root acts as several users");
    }
    let place = Folder::new();
    fs::set_permissions(place.path(), Permissions::from_mode(0o777)).unwrap();
    let server = Setup::with_exports(vec![folder("/export", place.path())]).start();
    let mut alice = Client::new(&server);
    alice.make_file("export", "hers", b"data");
    alice.at("export/hers", vec![setattr(ANONYMOUS, mode(0o600))]).ok();
    for (number, (uid, gid, groups)) in
        [(u32::MAX, 1, vec![]), (1, u32::MAX, vec![]), (1, 1, vec![u32::MAX]), (u32::MAX, u32::MAX, vec![0])]
            .into_iter()
            .enumerate()
    {
        let caller = Caller { uid, gid, groups: groups.into() };
        let security = orthrus_server::security::Security::sys(caller);
        let name = format!("client {number}");
        let mut client = Client::with(&server, name.as_bytes(), security, FORE);
        for round in 0..3 {
            // The thread has just acted as Alice.
            alice.at("export/hers", vec![read(ANONYMOUS, 0, 4)]).ok();
            client.at("export/hers", vec![read(ANONYMOUS, 0, 4)]).expect(NFS4ERR_ACCESS);
            client.at("export", vec![open_create(&name, 3)]).expect(NFS4ERR_ACCESS);
            client.at("export", vec![mkdir(&name)]).expect(NFS4ERR_ACCESS);
            become_server();
            assert!(!place.join(&name).exists(), "round {round} as {uid}, {gid}");
        }
    }
}
