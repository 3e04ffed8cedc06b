//! The bridge's declarations against the library's behaviour: a field at a wrong place shows a
//! wrong value.

use crate::common::{native, shared_native};
use ceph::fs::{
    CephFs, CephLockRange, CephMount, CephSetTime, Credentials, LockType, MountOptions, NO_SNAPSHOT,
    NewInode, SetStat, Stat, Time, XattrFlag,
};
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[test]
fn every_attribute_is_at_its_place() {
    let Some(native) = shared_native() else { return };
    let directory = native.make_directory("layout");
    let user = &native.user;
    let (inode, made, file) = directory.create_file(c"file", 0o600, user).unwrap();
    file.write(&[7; 5000], 0).unwrap();
    inode.link(&directory, c"second", user).unwrap();
    let (atime, mtime) = (Time { seconds: 1001, nanoseconds: 11 }, Time { seconds: 2002, nanoseconds: 22 });
    // A new size or owner changes others.
    inode.set_stat(&SetStat { size: Some(4097), ..SetStat::default() }, user).unwrap();
    inode.set_stat(&SetStat { uid: Some(33), gid: Some(44), ..SetStat::default() }, user).unwrap();
    let set = SetStat {
        mode: Some(0o641),
        atime: Some(CephSetTime::At(atime)),
        mtime: Some(CephSetTime::At(mtime)),
        ..SetStat::default()
    };
    inode.set_stat(&set, user).unwrap();
    let stat = inode.stat(user).unwrap();
    let expected = Stat {
        mode: libc::S_IFREG | 0o641,
        nlink: 2,
        uid: 33,
        gid: 44,
        snapshot: NO_SNAPSHOT,
        size: 4097,
        blocks: 9,
        rdev: 0,
        atime,
        mtime,
        // Ceph's own.
        ino: made.ino,
        ctime: stat.ctime,
        btime: made.btime,
        version: stat.version,
    };
    assert_eq!(stat, expected);
    assert!(stat.version > made.version && made.ino > 1 << 40);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let is_recent =
        |time: Time| now.abs_diff(time.seconds.unsigned_abs()) < 600 && time.nanoseconds < 1_000_000_000;
    assert!(is_recent(stat.ctime) && made.btime.is_some_and(is_recent), "{stat:?}");
    assert_eq!(native.mount.find(made.ino, NO_SNAPSHOT).unwrap().stat(user), Ok(stat));
    let device = libc::makedev(5, 77);
    let (_, node) = directory.create(c"node", NewInode::Special(libc::S_IFCHR, device), 0o600, user).unwrap();
    assert_eq!((node.rdev, node.mode), (device, libc::S_IFCHR | 0o600));
}

#[test]
fn entries_have_their_names_numbers_and_positions() {
    let Some(native) = shared_native() else { return };
    let directory = native.make_directory("entries");
    let names: Vec<String> = (0..300).map(|n| format!("{n}-{}", "x".repeat(n % 200))).collect();
    let mut inos = BTreeMap::new();
    for name in &names {
        let c_name = std::ffi::CString::new(name.as_str()).unwrap();
        let (_, stat) = directory.create(&c_name, NewInode::Directory, 0o755, &native.user).unwrap();
        inos.insert(name.as_bytes().to_vec(), stat.ino);
    }
    let mut listed = BTreeMap::new();
    let mut position = 0;
    // Each entry from a stream of its own.
    loop {
        let mut stream = directory.list(&native.user).unwrap();
        stream.seek(position).unwrap();
        let Some(entry) = stream.next_entry().unwrap() else { break };
        if !matches!(entry.name, b"." | b"..") {
            assert_eq!(entry.snapshot, NO_SNAPSHOT);
            assert_eq!(listed.insert(entry.name.to_vec(), entry.ino), None);
        }
        position = entry.position;
    }
    assert_eq!(listed, inos);
}

#[test]
fn sizes_of_the_file_system_are_those_of_the_quota() {
    let (Some(native), Some(cluster)) = (shared_native(), crate::common::cluster()) else { return };
    let directory = native.make_directory("sized");
    let quota = (1_u64 << 33).to_string();
    directory.set_xattr(c"ceph.quota.max_bytes", quota.as_bytes(), XattrFlag::Either, &native.user).unwrap();
    let options = MountOptions { path: "/sized".to_owned(), ..options(cluster) };
    let mount = CephMount::open(CephFs::load().unwrap(), &options, Box::new(|_, _| ())).unwrap();
    let size = mount.root().unwrap().file_system_size().unwrap();
    assert_eq!((size.total, size.free), (1 << 33, 1 << 33));
}

#[test]
fn a_lock_of_another_client_is_found_with_its_bytes() {
    let (Some(native), Some(cluster)) = (shared_native(), crate::common::cluster()) else { return };
    let directory = native.make_directory("locked");
    let (inode, stat, file) = directory.create_file(c"file", 0o600, &native.user).unwrap();
    let other = crate::common::native(cluster);
    inode.sync().unwrap();
    let found = other.mount.find(stat.ino, NO_SNAPSHOT).unwrap();
    let beside = found.open(libc::O_RDWR, &other.user).unwrap();
    let (range, rest) =
        (CephLockRange { first: 1000, last: 1999 }, CephLockRange { first: 5000, last: u64::MAX });
    file.set_lock(range, LockType::Write, 1).unwrap();
    file.set_lock(rest, LockType::Read, 1).unwrap();
    let whole = CephLockRange { first: 0, last: u64::MAX };
    let held = |range, kind| beside.find_lock(range, kind, 1).unwrap().map(|held| (held.range, held.kind));
    assert_eq!(held(whole, LockType::Write), Some((range, LockType::Write)));
    assert_eq!(held(CephLockRange { first: 2000, ..whole }, LockType::Write), Some((rest, LockType::Read)));
    assert_eq!(held(CephLockRange { first: 2000, ..whole }, LockType::Read), None);
    let refused = beside.set_lock(CephLockRange { first: 1999, last: 1999 }, LockType::Read, 1);
    assert_eq!(refused.map_err(|error| error.number()), Err(libc::EAGAIN));
    file.set_lock(whole, LockType::Unlock, 1).unwrap();
    assert_eq!(held(whole, LockType::Write), None);
}

#[test]
fn groups_of_credentials_count() {
    let Some(native) = shared_native() else { return };
    let directory = native.make_directory("grouped");
    let (inode, ..) = directory.create_file(c"file", 0o640, &native.user).unwrap();
    inode.set_stat(&SetStat { gid: Some(77), ..SetStat::default() }, &native.user).unwrap();
    let library = CephFs::load().unwrap();
    let open = |gid: u32, groups: &[u32]| {
        let user = Credentials::new(library, 4001, gid, &groups.into()).unwrap();
        inode.open(libc::O_RDONLY, &user).map(drop).map_err(|error| error.number())
    };
    assert_eq!(open(77, &[]), Ok(()));
    assert_eq!(open(1, &[2, 3, 77]), Ok(()));
    assert_eq!(open(1, &[2, 3, 78]), Err(libc::EACCES));
}

#[test]
fn a_metadata_server_asks_for_the_objects_that_a_client_keeps() {
    let Some(cluster) = crate::common::cluster() else { return };
    let (say, hear) = mpsc::channel();
    let release = Box::new(move |ino, snapshot| say.send((ino, snapshot)).unwrap_or(()));
    let mount = CephMount::open(CephFs::load().unwrap(), &options(cluster), release).unwrap();
    let user = Credentials::new(CephFs::load().unwrap(), 0, 0, &[].into()).unwrap();
    let directory = native(cluster).make_directory("kept").stat(&user).unwrap();
    let directory = mount.find(directory.ino, NO_SNAPSHOT).unwrap();
    let kept: Vec<_> = (0..100)
        .map(|n| {
            let name = std::ffi::CString::new(n.to_string()).unwrap();
            directory.create(&name, NewInode::Directory, 0o755, &user).unwrap()
        })
        .collect();
    let asked = std::process::Command::new("ceph")
        .args(["daemon", &cluster.socket("mds.cephfs").display().to_string(), "cache", "drop", "1"])
        .output()
        .unwrap();
    assert!(asked.status.success(), "{asked:?}");
    let (ino, snapshot) = hear.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(snapshot, NO_SNAPSHOT);
    assert!(
        ino == 1 || kept.iter().any(|(_, stat)| stat.ino == ino) || directory.stat(&user).unwrap().ino == ino
    );
}

fn options(cluster: &miniceph::MiniCeph) -> MountOptions {
    MountOptions {
        configuration: cluster.configuration(),
        user: "admin".to_owned(),
        keyring: None,
        file_system: None,
        path: "/".to_owned(),
        settings: vec![
            ("client_acl_type", "posix_acl".to_owned()),
            ("fuse_default_permissions", "false".to_owned()),
        ],
        defaults: Vec::new(),
        identity: None,
        former: None,
    }
}
