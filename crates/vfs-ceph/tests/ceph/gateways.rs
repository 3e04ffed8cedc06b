//! Two gateways, and a native client beside them.

use crate::common::{OTHER, content, directory, file, folder, lookup, open, shared_native};
use miniceph::{MiniCeph, MiniCephOptions};
use orthrus_vfs_ceph::{CephBackend, CephSession, wait_for_unmounts};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};
use std::time::{Duration, Instant};
use vfs::{Backend, Caller, LockKind, LockOutcome, OpenAccess, RangeLocks};

/// Appends beside reads, each of which takes milliseconds.
const APPENDS: u64 = 200;

const BOTH: OpenAccess = OpenAccess { read: true, write: true };

#[test]
fn a_handle_is_good_on_every_gateway_and_after_a_restart() // RFC 8881 section 4.2.2
{
    let Some((path, cluster)) = directory() else { return };
    let first = open(cluster, &path, |_| ());
    let deep = folder(&first, &folder(&first, &first.root(), "a"), "b");
    let handle = file(&first, &deep, "file", b"contents");
    let (root, key) = (first.root(), first.handle_key());
    assert!(key.is_some());
    first.sync_names(&deep, None).unwrap();
    let second = open(cluster, &path, |options| options.mounts = 2);
    assert_eq!((second.root(), second.handle_key()), (root, key));
    assert_eq!(content(&second, &handle), Ok(b"contents".to_vec()));
    assert_eq!(lookup(&second, &deep, "file"), Ok(handle));
    drop((first, second));
    let restarted = open(cluster, &path, |_| ());
    assert_eq!(restarted.handle_key(), key);
    assert_eq!(content(&restarted, &handle), Ok(b"contents".to_vec()));
}

#[test]
fn one_gateway_shows_the_acknowledged_changes_of_another() {
    let Some((path, cluster)) = directory() else { return };
    let gateways = [(); 2].map(|()| open(cluster, &path, |_| ()));
    let [first, second] = &gateways;
    let handle = file(first, &first.root(), "file", b"one");
    first.sync_names(&first.root(), None).unwrap();
    assert_eq!(lookup(second, &second.root(), "file"), Ok(handle));
    let before = second.getattr(&handle).unwrap();
    // Neither is synchronised: the data is in the memory of the first gateway.
    let writer = first.open(&Caller::root(), &handle, BOTH).unwrap();
    writer.write_at(b"three", 0).unwrap();
    assert_eq!(content(second, &handle), Ok(b"three".to_vec()));
    let after = second.getattr(&handle).unwrap();
    assert!(after.change > before.change && after.size == 5, "{before:?} {after:?}");
    let reader = second.open(&Caller::root(), &handle, BOTH).unwrap();
    for round in 0..5_u8 {
        let (from, to) = if round % 2 == 0 { (&writer, &reader) } else { (&reader, &writer) };
        from.write_at(&[round; 10], 100).unwrap();
        let mut data = Vec::new();
        to.read_at(&mut data, 10, 100).unwrap();
        assert_eq!(data, [round; 10]);
    }
    let gone = first.remove(&Caller::root(), &first.root(), b"file", None);
    assert_eq!(gone, Ok(()));
    first.sync_names(&first.root(), None).unwrap();
    assert_eq!(lookup(second, &second.root(), "file"), Err(vfs::VfsError::Noent));
}

#[test]
fn a_read_beside_appends_through_another_gateway_has_each_byte_in_its_place() {
    let Some((path, cluster)) = directory() else { return };
    let gateways = [(); 2].map(|()| open(cluster, &path, |_| ()));
    let [first, second] = &gateways;
    let handle = file(first, &first.root(), "file", b"");
    first.sync_names(&first.root(), None).unwrap();
    let appended = AtomicU64::new(0);
    let append = || {
        let writer = first.open(&Caller::root(), &handle, BOTH).unwrap();
        for number in 0..APPENDS {
            writer.write_at(&number.to_be_bytes(), number * 8).unwrap();
            writer.sync().unwrap();
            appended.store(number + 1, Release);
        }
    };
    std::thread::scope(|scope| {
        let appends = scope.spawn(append);
        while !appends.is_finished() {
            let least = appended.load(Acquire) as usize;
            let data = content(second, &handle).unwrap();
            let numbers = data.as_chunks::<8>().0.iter().map(|bytes| u64::from_be_bytes(*bytes));
            let numbers: Vec<u64> = numbers.collect();
            assert!(numbers.len() >= least, "{} of {least}", numbers.len());
            assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
        }
    });
}

#[test]
fn a_lock_of_one_gateway_stands_against_the_other_and_native_clients() // RFC 8881 section 9.1
{
    let Some((path, cluster)) = directory() else { return };
    let gateways = [(); 2].map(|()| open(cluster, &path, |_| ()));
    let [first, second] = &gateways;
    let handle = file(first, &first.root(), "file", b"data");
    let locks = |gateway: &orthrus_vfs_ceph::CephBackend| -> Arc<dyn RangeLocks> {
        let opened = gateway.open(&Caller::root(), &handle, BOTH).unwrap();
        opened.range_locks(LockKind::Write).unwrap().unwrap().into()
    };
    let (ours, theirs) = (locks(first), locks(second));
    assert_eq!(ours.set(10, 19, Some(LockKind::Write)), Ok(LockOutcome::Done));
    assert_eq!(theirs.set(15, 30, Some(LockKind::Read)), Ok(LockOutcome::Conflict));
    let found = theirs.find(0, u64::MAX, LockKind::Read).unwrap().unwrap();
    assert_eq!((found.first, found.last, found.kind), (10, 19, LockKind::Write));
    assert_eq!(theirs.set(20, u64::MAX, Some(LockKind::Write)), Ok(LockOutcome::Done));
    // A downgrade lets readers in, native ones too.
    assert_eq!(ours.set(10, 19, Some(LockKind::Read)), Ok(LockOutcome::Done));
    assert_eq!(theirs.set(15, 15, Some(LockKind::Read)), Ok(LockOutcome::Done));
    let native = shared_native().unwrap();
    let inode = native.mount.find(first.getattr(&handle).unwrap().fileid, ceph::fs::NO_SNAPSHOT).unwrap();
    let program = inode.open(libc::O_RDWR, &native.user).unwrap();
    let range = ceph::fs::CephLockRange { first: 12, last: 12 };
    let lock = |kind| program.set_lock(range, kind, 1).map_err(|error| error.number());
    assert_eq!(lock(ceph::fs::LockType::Write), Err(libc::EAGAIN));
    assert_eq!(lock(ceph::fs::LockType::Read), Ok(()));
    assert_eq!(ours.set(0, u64::MAX, None), Ok(LockOutcome::Done));
    assert_eq!(lock(ceph::fs::LockType::Write), Ok(()));
    // Locks end with the file.
    drop(theirs);
    drop(program);
    let again = locks(first);
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while again.set(0, u64::MAX, Some(LockKind::Write)) != Ok(LockOutcome::Done) {
        assert!(std::time::Instant::now() < end, "a lock outlives its file");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn exports_of_several_file_systems_and_clusters_are_told_apart() {
    let Some((path, cluster)) = directory() else { return };
    let backend = open(cluster, &path, |_| ());
    let beside = open(cluster, &path, |options| options.path = "/".to_owned());
    let other = open(cluster, "/", |options| options.file_system = Some(OTHER.to_owned()));
    let second_cluster = MiniCeph::start(&MiniCephOptions::default()).unwrap();
    let far = open(&second_cluster, "/", |_| ());
    let device = |backend: &dyn Backend| backend.identity(&backend.root()).unwrap().device;
    assert_eq!(device(&backend), device(&beside), "one file system");
    assert_ne!(device(&backend), device(&other));
    assert_ne!(device(&backend), device(&far));
    let handles = [&other, &far].map(|backend| file(backend, &backend.root(), "file", b"there"));
    assert!(
        [&other, &far]
            .iter()
            .zip(&handles)
            .all(|(backend, handle)| { content(backend, handle) == Ok(b"there".to_vec()) })
    );
    assert_eq!(lookup(&beside, &beside.root(), "file"), Err(vfs::VfsError::Noent));
    drop(far);
    assert!(wait_for_unmounts(Duration::from_secs(30)));
}

#[test]
fn gateways_that_open_a_file_at_once_all_go_on() {
    let Some((path, cluster)) = directory() else { return };
    let gateways = [(); 2].map(|()| open(cluster, &path, |_| ()));
    let [first, _] = &gateways;
    let longest = (0..20).map(|number| {
        let name = format!("file-{number}");
        let handle = file(first, &first.root(), &name, b"shared");
        first.sync_names(&first.root(), None).unwrap();
        let opens = |gateway: &CephBackend| {
            let rounds = (0..10).map(|_| {
                let start = Instant::now();
                assert_eq!(lookup(gateway, &gateway.root(), &name), Ok(handle));
                drop(gateway.open(&Caller::root(), &handle, BOTH).unwrap());
                start.elapsed()
            });
            rounds.max().unwrap()
        };
        let longest = std::thread::scope(|scope| {
            let [first, second] = &gateways;
            let threads = [first, second, first, second].map(|gateway| scope.spawn(|| opens(gateway)));
            threads.map(|thread| thread.join().unwrap()).into_iter().max()
        });
        longest.unwrap()
    });
    // Without the thread that asks for the journal it is five seconds now and then.
    println!("the longest lookup and open: {:?}", longest.max().unwrap());
    let last = lookup(first, &first.root(), "file-19").unwrap();
    assert_eq!(content(first, &last), Ok(b"shared".to_vec()));
}

#[test]
fn the_answer_to_a_change_of_names_brings_the_change_attribute() // RFC 8881 section 3.3.5
{
    let Some((path, cluster)) = directory() else { return };
    let gateways = [(); 2].map(|()| open(cluster, &path, |_| ()));
    for (number, gateway) in gateways.iter().cycle().take(6).enumerate() {
        let (root, name) = (gateway.root(), format!("file-{number}"));
        let before = gateway.change_before(&root).unwrap();
        file(gateway, &root, &name, b"");
        let after = gateway.change_after(&root, before).unwrap();
        assert!(before < after, "{before} {after}");
        assert_eq!(after, gateway.getattr(&root).unwrap().change);
        gateway.remove(&Caller::root(), &root, name.as_bytes(), None).unwrap();
        let removed = gateway.change_after(&root, after).unwrap();
        assert_eq!(removed, gateway.getattr(&root).unwrap().change);
        assert!(after < removed, "{after} {removed}");
    }
}

#[test]
fn open_files_keep_the_session_of_a_backend_that_is_dropped() {
    let Some((path, cluster)) = directory() else { return };
    let backend = open(cluster, &path, |_| ());
    let handle = file(&backend, &backend.root(), "file", b"data");
    let opened = backend.open(&Caller::root(), &handle, BOTH).unwrap();
    let sessions = backend.sessions();
    drop(backend);
    std::thread::sleep(Duration::from_secs(1));
    assert!(!sessions.iter().any(CephSession::has_ended), "its locks and its data are there");
    drop(opened);
    assert!(wait_for_unmounts(Duration::from_secs(30)));
    assert!(sessions.iter().all(CephSession::has_ended));
}
