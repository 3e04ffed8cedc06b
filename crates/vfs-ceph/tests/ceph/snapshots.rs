//! Snapshots, read-only and on request.

use crate::common::{content, directory, file, folder, lookup, mode, open};
use std::ops::ControlFlow;
use vfs::{Backend, Caller, NewObject, OpenAccess, VfsError};

#[test]
fn snapshots_show_the_past_and_cannot_be_changed() {
    let Some((path, cluster)) = directory() else { return };
    let present = open(cluster, &path, |options| options.snapshots = true);
    let root = Caller::root();
    let inner = folder(&present, &present.root(), "inner");
    let handle = file(&present, &inner, "file", b"before");
    present.sync_names(&inner, None).unwrap();
    crate::common::snapshot(&path, "first");
    // With this reply the gateway knows of the snapshot.
    let all = lookup(&present, &present.root(), ".snap").unwrap();
    let first = lookup(&present, &all, "first").unwrap();
    let writer = present.open(&root, &handle, OpenAccess { read: true, write: true }).unwrap();
    writer.write_at(b"after!", 0).unwrap();
    writer.sync().unwrap();

    let past_inner = lookup(&present, &first, "inner").unwrap();
    let past = lookup(&present, &past_inner, "file").unwrap();
    assert_eq!(content(&present, &past), Ok(b"before".to_vec()));
    assert_eq!(content(&present, &handle), Ok(b"after!".to_vec()));
    let fileid = |handle| present.getattr(handle).unwrap().fileid;
    assert_ne!(fileid(&past), fileid(&handle));
    let mut listed = Vec::new();
    present
        .readdir(&root, &all, 0, &mut |entry| {
            listed.push((entry.name.to_vec(), entry.fileid));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(listed, [(b"first".to_vec(), fileid(&first))]);
    // The way back up.
    assert_eq!(present.lookup_parent(&root, &past_inner), Ok(first));
    assert_eq!(present.lookup_parent(&root, &first), Ok(all));
    assert_eq!(present.lookup_parent(&root, &all), Ok(present.root()));

    let refused = VfsError::Rofs;
    let both = OpenAccess { read: true, write: true };
    assert_eq!(present.open(&root, &past, both).err(), Some(refused));
    assert_eq!(present.setattr(&root, &past, &mode(0o600)).err(), Some(refused));
    for directory in [&all, &first, &past_inner] {
        let made = present.create(&root, directory, b"new", NewObject::Directory, &mode(0o755));
        assert_eq!(made.err(), Some(refused));
        assert_eq!(present.remove(&root, directory, b"first", None).err(), Some(refused));
        assert_eq!(present.link(&root, &handle, directory, b"link").err(), Some(refused));
    }
    let named = present.rename(&root, (&past_inner, b"file"), (&present.root(), b"file"), None);
    assert_eq!(named.err(), Some(refused));
    assert_eq!(present.set_xattr(&root, &past, b"a", b"1", vfs::XattrHow::Either).err(), Some(refused));
    assert!(!present.access(&root, &past).unwrap().write);

    // Handles of a snapshot outlast a restart, and count only where snapshots are shown.
    drop(writer);
    let restarted = open(cluster, &path, |options| options.snapshots = true);
    assert_eq!(content(&restarted, &past), Ok(b"before".to_vec()));
    assert_eq!(restarted.lookup_parent(&root, &past_inner), Ok(first));
    let without = open(cluster, &path, |_| ());
    assert_eq!(without.getattr(&past).err(), Some(VfsError::Stale));
}

#[test]
fn an_export_without_snapshots_has_no_name_for_them() {
    let Some((path, cluster)) = directory() else { return };
    let backend = open(cluster, &path, |_| ());
    let (root, caller) = (backend.root(), Caller::root());
    folder(&backend, &root, "d");
    assert_eq!(lookup(&backend, &root, ".snap"), Err(VfsError::Noent));
    let made = backend.create(&caller, &root, b".snap", NewObject::Directory, &mode(0o755));
    assert_eq!(made.err(), Some(VfsError::Badname));
    let renamed = backend.rename(&caller, (&root, b"d"), (&root, b".snap"), None);
    assert_eq!(renamed.err(), Some(VfsError::Badname));
    assert_eq!(backend.remove(&caller, &root, b".snap", None).err(), Some(VfsError::Noent));
}
