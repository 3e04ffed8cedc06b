//! Delegations, which others than this gateway break (RFC 8881 section 10.4).

use crate::common::{content, directory, file, open, shared_native};
use orthrus_vfs_ceph::CephBackend;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use vfs::{Backend, Broken, Caller, Lease, LeaseKind, ObjectHandle, OpenAccess, OpenFile, VfsError};

const READ: OpenAccess = OpenAccess { read: true, write: false };
const BOTH: OpenAccess = OpenAccess { read: true, write: true };
const LONG: Duration = Duration::from_secs(30);
/// Long enough for a recall that must not come, and for an open that must wait.
const SHORT: Duration = Duration::from_millis(200);

/// Takes a lease on a file, and hears of its recall.
fn lease(
    backend: &CephBackend,
    handle: &ObjectHandle,
    kind: LeaseKind,
) -> (Arc<dyn OpenFile>, Arc<dyn Lease>, mpsc::Receiver<Duration>) {
    let access = if kind == LeaseKind::Read { READ } else { BOTH };
    let opened = backend.open(&Caller::root(), handle, access).unwrap();
    let (say, hear) = mpsc::channel();
    let broken: Broken = Arc::new(move |time| say.send(time).unwrap_or(()));
    let lease = opened.lease(kind, broken).unwrap().unwrap();
    (opened, lease, hear)
}

#[test]
fn a_read_delegation_is_recalled_when_another_gateway_wants_to_write() {
    let Some((path, cluster)) = directory() else { return };
    let [first, second] = [(); 2].map(|()| open(cluster, &path, |_| ()));
    let handle = file(&first, &first.root(), "file", b"data");
    // While one gateway alone uses a file, the metadata server takes some of its capabilities back
    // for every look of another, and with them the delegation.
    let _reader = second.open(&Caller::root(), &handle, READ).unwrap();
    let (_opened, lease, recalled) = lease(&first, &handle, LeaseKind::Read);
    assert_eq!(content(&second, &handle), Ok(b"data".to_vec()));
    assert!(recalled.recv_timeout(SHORT).is_err(), "readers break nothing");
    let (say, opened) = mpsc::channel();
    thread::scope(|scope| {
        let second = &second;
        scope.spawn(move || say.send(second.open(&Caller::root(), &handle, BOTH).map(drop)).unwrap());
        assert!(recalled.recv_timeout(LONG).unwrap() > Duration::ZERO);
        assert!(lease.is_broken());
        assert!(opened.recv_timeout(SHORT).is_err(), "it waits until the delegation is returned");
        drop(lease);
        assert_eq!(opened.recv_timeout(LONG).unwrap(), Ok(()));
    });
}

#[test]
fn a_write_delegation_is_recalled_when_a_native_client_wants_to_read() {
    let Some((path, cluster)) = directory() else { return };
    let gateway = open(cluster, &path, |_| ());
    let handle = file(&gateway, &gateway.root(), "file", b"data");
    let (opened, lease, recalled) = lease(&gateway, &handle, LeaseKind::Write);
    opened.write_at(b"more", 0).unwrap();
    let native = shared_native().unwrap();
    let inode = native.mount.find(gateway.getattr(&handle).unwrap().fileid, ceph::fs::NO_SNAPSHOT).unwrap();
    let (say, read) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let program = inode.open(libc::O_RDONLY, &native.user).unwrap();
            let mut data = Vec::new();
            program.read(&mut data, 10, 0).unwrap();
            say.send(data).unwrap();
        });
        recalled.recv_timeout(LONG).unwrap();
        assert!(read.recv_timeout(SHORT).is_err());
        drop(lease);
        assert_eq!(read.recv_timeout(LONG).unwrap(), b"more");
    });
}

#[test]
fn a_file_in_use_against_it_gets_no_delegation() {
    let Some((path, cluster)) = directory() else { return };
    let [first, second] = [(); 2].map(|()| open(cluster, &path, |_| ()));
    let handle = file(&first, &first.root(), "file", b"data");
    let writer = second.open(&Caller::root(), &handle, BOTH).unwrap();
    writer.write_at(b"x", 0).unwrap();
    let quiet: Broken = Arc::new(|_| ());
    let reader = first.open(&Caller::root(), &handle, READ).unwrap();
    assert_eq!(reader.lease(LeaseKind::Read, quiet.clone()).err(), Some(VfsError::Delay));
    let (opened, _lease, _) = {
        drop((reader, writer));
        let other = file(&first, &first.root(), "other", b"data");
        lease(&first, &other, LeaseKind::Read)
    };
    assert_eq!(opened.lease(LeaseKind::Read, quiet).err(), Some(VfsError::Delay), "one for each open file");
}

#[test]
fn a_delegation_that_is_not_returned_is_taken_before_the_mount_ends() {
    let Some((path, cluster)) = directory() else { return };
    let first = open(cluster, &path, |options| options.recall_time = Duration::from_secs(1));
    let second = open(cluster, &path, |_| ());
    let handle = file(&first, &first.root(), "file", b"data");
    let (opened, _lease, recalled) = lease(&first, &handle, LeaseKind::Read);
    let writer = second.open(&Caller::root(), &handle, BOTH).unwrap();
    assert!(recalled.try_recv().is_ok());
    writer.write_at(b"more", 0).unwrap();
    let mut data = Vec::new();
    opened.read_at(&mut data, 10, 0).unwrap();
    assert_eq!(data, b"more");
    // The library would have ended the mount by now.
    thread::sleep(Duration::from_secs(1));
    assert_eq!(content(&first, &handle), Ok(b"more".to_vec()));
}
