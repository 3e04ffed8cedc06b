//! Handles across restarts, and objects that change behind the server's back.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::{TestDirectory, export, me, mode, open, run_as_nobody, walk};
use orthrus_vfs_local::{
    LocalBackend, LocalError, LocalOptions, ServesAs, become_server, path_of, prepare_process,
};
use std::{fs, process::Command};
use vfs::{Backend, NewObject, ObjectHandle, OpenAccess, SetAttributes, SetTime, VfsError};

const READ: OpenAccess = OpenAccess { read: true, write: false };

fn text(backend: &dyn Backend, object: &ObjectHandle) -> String {
    let file = backend.open(&me(), object, READ).unwrap();
    let mut data = Vec::new();
    file.read_at(&mut data, 100, 0).unwrap();
    String::from_utf8(data).unwrap()
}

#[test]
fn an_open_file_has_the_path_by_which_it_is_found_now() {
    let Some((directory, backend)) = export() else { return };
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: handles are opened with CAP_DAC_READ_SEARCH alone");
        return;
    }
    let root = backend.root();
    let exclusive = SetAttributes { atime: Some(SetTime::Now), mtime: Some(SetTime::Now), ..mode(0o644) };
    for set in [mode(0o644), exclusive] {
        let (object, file) = backend.create_file(&me(), &root, b"first", READ, &set).unwrap();
        let path = || {
            become_server();
            path_of(&*file).unwrap()
        };
        assert_eq!(path(), directory.path().join("first"));
        backend.rename(&me(), (&root, b"first"), (&root, b"moved"), None).unwrap();
        assert_eq!(path(), directory.path().join("moved"));
        backend.link(&me(), &object, &root, b"second").unwrap();
        backend.remove(&me(), &root, b"moved", None).unwrap();
        assert_eq!(path(), directory.path().join("second"));
        backend.remove(&me(), &root, b"second", None).unwrap();
        assert!(path().to_str().unwrap().ends_with(" (deleted)"));
    }
}

mod restart {
    use super::*;

    #[test]
    fn handles_survive_a_restart() /* RFC 8881 section 4.2.1: persistent filehandles */
    {
        let Some((directory, before)) = export() else { return };
        let path = directory.path();
        fs::create_dir_all(path.join("a/b/c")).unwrap();
        fs::write(path.join("a/b/c/file"), "deep").unwrap();
        fs::write(path.join("moved"), "moved").unwrap();
        let deep = walk(&before, "a/b/c/file").unwrap();
        let parent = walk(&before, "a/b").unwrap();
        let moved = walk(&before, "moved").unwrap();
        drop(before);
        become_server();
        fs::rename(path.join("moved"), path.join("a/elsewhere")).unwrap();
        let after = open(path).unwrap();
        assert_eq!(text(&after, &deep), "deep");
        assert_eq!(text(&after, &moved), "moved");
        assert!(after.lookup(&me(), &parent, b"c").is_ok());
        assert_eq!(after.root(), open(path).unwrap().root());
    }

    #[test]
    fn a_handle_of_a_removed_object_is_stale_after_a_restart() {
        let Some((directory, before)) = export() else { return };
        fs::write(directory.path().join("file"), "x").unwrap();
        let file = walk(&before, "file").unwrap();
        drop(before);
        fs::remove_file(directory.path().join("file")).unwrap();
        for n in 0..100 {
            fs::write(directory.path().join(format!("other{n}")), "y").unwrap();
        }
        let after = open(directory.path()).unwrap();
        assert_eq!(after.getattr(&file), Err(VfsError::Stale));
        assert_eq!(after.getattr(&file), Err(VfsError::Stale));
    }

    #[test]
    fn names_changed_on_the_server_s_machine_are_seen() {
        let Some((directory, backend)) = export() else { return };
        let path = directory.path();
        fs::write(path.join("one"), "1").unwrap();
        let one = walk(&backend, "one").unwrap();
        become_server();
        fs::rename(path.join("one"), path.join("two")).unwrap();
        assert_eq!(walk(&backend, "one"), Err(VfsError::Noent));
        assert_eq!(walk(&backend, "two"), Ok(one));
        assert_eq!(text(&backend, &one), "1");
        fs::remove_file(path.join("two")).unwrap();
        assert_eq!(backend.getattr(&one), Err(VfsError::Stale));
    }

    #[test]
    fn a_removed_file_gives_its_space_back_after_two_trims() {
        let Some((directory, backend)) = export() else { return };
        fs::write(directory.path().join("file"), "x").unwrap();
        let file = walk(&backend, "file").unwrap();
        become_server();
        fs::remove_file(directory.path().join("file")).unwrap();
        let held = || {
            let fds = fs::read_dir("/proc/self/fd").unwrap();
            let links = fds.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
            let name = format!("{}/file (deleted)", directory.path().display());
            links.filter(|link| link.as_os_str() == name.as_str()).count()
        };
        assert_eq!(held(), 1);
        backend.trim();
        backend.trim();
        assert_eq!(held(), 0);
        assert_eq!(backend.getattr(&file), Err(VfsError::Stale));
    }
}

#[test]
fn handles_survive_a_restart_without_root() {
    run_as_nobody("restart::");
}

#[test]
fn a_directory_moved_out_of_the_export_is_stale_once_it_is_opened_again() {
    let Some((directory, _)) = export() else { return };
    let (inside, outside) = (directory.path().join("export"), directory.path().join("export-not"));
    fs::create_dir_all(inside.join("d/e")).unwrap();
    fs::create_dir(&outside).unwrap();
    let before = open(&inside).unwrap();
    let (d, e) = (walk(&before, "d").unwrap(), walk(&before, "d/e").unwrap());
    become_server();
    fs::rename(inside.join("d"), outside.join("d")).unwrap();
    assert_eq!(before.lookup_parent(&me(), &d), Err(VfsError::Stale), "its parent lies outside");
    let after = open(&inside).unwrap();
    assert_eq!(after.getattr(&d), Err(VfsError::Stale));
    assert_eq!(after.getattr(&e), Err(VfsError::Stale));
    assert_eq!(after.lookup(&me(), &d, b"e"), Err(VfsError::Stale));
}

#[test]
fn the_export_may_be_renamed_while_it_is_served() {
    let Some((directory, _)) = export() else { return };
    let (old, new) = (directory.path().join("old"), directory.path().join("new"));
    fs::create_dir_all(old.join("d/e")).unwrap();
    let backend = open(&old).unwrap();
    become_server();
    fs::rename(&old, &new).unwrap();
    let e = walk(&backend, "d/e").unwrap();
    assert_eq!(backend.lookup_parent(&me(), &e), walk(&backend, "d"));
}

/// Makes directories below one another, deeper than any path leads, and returns their handles.
fn deep(backend: &LocalBackend, name: &str) -> Vec<ObjectHandle> {
    let mut all = vec![backend.root()];
    for _ in 0..25 {
        let above = all.last().unwrap();
        let below = backend.create(&me(), above, name.as_bytes(), NewObject::Directory, &mode(0o755));
        all.push(below.unwrap());
    }
    all
}

/// Removes the directories of [`deep`], which few programs can.
fn remove_deep(backend: &LocalBackend, name: &str, all: &[ObjectHandle]) {
    for at in all.iter().rev().skip(1) {
        backend.remove(&me(), at, name.as_bytes(), None).unwrap();
    }
}

#[test]
fn a_place_longer_than_any_path_is_still_inside() {
    let Some((_directory, backend)) = export() else { return };
    let name = "n".repeat(250);
    let all = deep(&backend, &name);
    backend.trim();
    backend.trim();
    for pair in all.windows(2) {
        assert_eq!(backend.lookup_parent(&me(), &pair[1]), Ok(pair[0]));
    }
    remove_deep(&backend, &name, &all);
}

/// The look at the place needs more rights than the caller has, which keeps its own afterwards.
#[test]
fn a_closed_directory_is_found_where_no_path_leads() {
    let Some((_directory, backend)) = export() else { return };
    if backend.serves_as() != ServesAs::Callers {
        eprintln!("skipped: identities cannot be taken here");
        return;
    }
    let name = "n".repeat(250);
    let all = deep(&backend, &name);
    let (last, caller) = (all.last().unwrap(), vfs::Caller { uid: 1234, gid: 1234, groups: [].into() });
    let closed = backend.create(&me(), last, b"closed", NewObject::Directory, &mode(0o700)).unwrap();
    backend.trim();
    backend.trim();
    assert_eq!(backend.lookup(&caller, last, b"closed"), Ok(closed));
    backend.setattr(&me(), last, &mode(0o777)).unwrap();
    let given = SetAttributes { uid: Some(4321), ..mode(0o700) };
    let refused = backend.create(&caller, last, b"given", NewObject::Directory, &given);
    assert_eq!(refused, Err(VfsError::Perm));
    backend.remove(&me(), last, b"closed", None).unwrap();
    remove_deep(&backend, &name, &all);
}

/// Objects that are not open: only their handles are known.
mod found_by_handle {
    use super::*;
    use vfs::{FoundObject, RenamedObjects};

    fn find(backend: &LocalBackend, name: &str) -> FoundObject {
        backend.trim();
        backend.trim();
        backend.lookup_to_change(&me(), &backend.root(), name.as_bytes()).unwrap()
    }

    fn remove(backend: &LocalBackend, name: &str) -> Result<(), VfsError> {
        let found = find(backend, name);
        backend.remove(&me(), &backend.root(), name.as_bytes(), Some(&found))
    }

    #[test]
    fn a_name_is_removed_whatever_its_type() {
        let Some((directory, backend)) = export() else { return };
        fs::create_dir_all(directory.path().join("folder/inner")).unwrap();
        fs::write(directory.path().join("file"), "x").unwrap();
        std::os::unix::fs::symlink("file", directory.path().join("link")).unwrap();
        assert_eq!(remove(&backend, "folder"), Err(VfsError::Notempty));
        fs::remove_dir(directory.path().join("folder/inner")).unwrap();
        for name in ["folder", "file", "link"] {
            assert_eq!(remove(&backend, name), Ok(()), "{name}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_loses_one_of_two_names_is_still_found() {
        let Some((directory, backend)) = export() else { return };
        fs::write(directory.path().join("one"), "x").unwrap();
        fs::hard_link(directory.path().join("one"), directory.path().join("two")).unwrap();
        let file = walk(&backend, "one").unwrap();
        let found = backend.lookup_to_change(&me(), &backend.root(), b"one").unwrap();
        assert_eq!(found.handle, file);
        backend.remove(&me(), &backend.root(), b"one", Some(&found)).unwrap();
        assert_eq!(backend.getattr(&file).map(|attributes| attributes.nlink), Ok(1));
        assert_eq!(remove(&backend, "two"), Ok(()));
        assert_eq!(backend.getattr(&file), Err(VfsError::Stale));
    }

    #[test]
    fn a_file_does_not_replace_a_directory_with_names() // RFC 8881 section 18.26.3
    {
        let Some((directory, backend)) = export() else { return };
        fs::create_dir_all(directory.path().join("folder/inner")).unwrap();
        fs::create_dir(directory.path().join("other")).unwrap();
        fs::write(directory.path().join("folder/file"), "x").unwrap();
        let (root, folder) = (backend.root(), walk(&backend, "folder").unwrap());
        let rename = |from: (&ObjectHandle, &[u8]), to: (&ObjectHandle, &[u8])| {
            backend.trim();
            backend.trim();
            let find = |of: (&ObjectHandle, &[u8])| backend.lookup_to_change(&me(), of.0, of.1);
            let source = find(from).unwrap();
            assert_eq!(backend.rename_new(&me(), from, to, &source), Ok(false));
            let found = RenamedObjects { source, target: find(to).ok() };
            backend.rename(&me(), from, to, Some(&found))
        };
        assert_eq!(rename((&folder, b"file"), (&root, b"folder")), Err(VfsError::Exist));
        assert_eq!(rename((&root, b"other"), (&root, b"folder")), Err(VfsError::Notempty));
        assert_eq!(walk(&backend, "folder"), Ok(folder));
    }
}

#[test]
fn a_mount_point_below_the_export_does_not_exist_for_clients() {
    // Before the capability for it is given up; the mounts are this thread's alone.
    if nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).is_err() {
        eprintln!("skipped: this user may not mount");
        return;
    }
    let Some((directory, _)) = export() else { return };
    let (point, bind) = (directory.path().join("point"), directory.path().join("bind"));
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    fs::create_dir_all(point.join("under")).unwrap();
    fs::create_dir(&bind).unwrap();
    let mount = |arguments: &[&str]| Command::new("mount").args(arguments).status().unwrap().success();
    if !mount(&["--make-rprivate", "/"])
        || !mount(&["-t", "tmpfs", "none", &path(&point)])
        || !mount(&["--bind", "/dev", &path(&bind)])
    {
        eprintln!("skipped: mounting is not possible here");
        return;
    }
    let backend = open(directory.path()).unwrap();
    for name in [&b"point"[..], b"bind"] {
        assert_eq!(backend.lookup(&me(), &backend.root(), name), Err(VfsError::Noent));
        assert_eq!(backend.lookup_attributes(&me(), &backend.root(), name).err(), Some(VfsError::Noent));
        assert_eq!(backend.lookup_to_change(&me(), &backend.root(), name).err(), Some(VfsError::Noent));
        assert!(backend.remove(&me(), &backend.root(), name, None).is_err());
    }
    let inner = open(&point).unwrap();
    assert_eq!(inner.lookup_parent(&me(), &inner.root()), Err(VfsError::Noent));
    drop((inner, backend));
    become_server();
    for point in [point, bind] {
        assert!(Command::new("umount").arg(point).status().unwrap().success());
    }
}

#[test]
fn an_impossible_export_is_refused_with_the_remedy() {
    prepare_process(true);
    let refused = |path: &str| LocalBackend::open(path.as_ref(), &LocalOptions::default()).unwrap_err();
    assert!(matches!(refused("/does/not/exist"), LocalError::Open { .. }));
    assert!(matches!(refused("/etc/passwd"), LocalError::Open { .. }));
    let proc = refused("/proc");
    assert!(matches!(proc, LocalError::NoHandles { .. }), "{proc}");
    assert!(proc.to_string().contains("ext4"));
}

#[test]
fn the_start_line_says_whose_rights_count() {
    let line = ServesAs::OneUser { uid: 1000, name: "alice".to_owned() }.to_string();
    assert!(line.starts_with(
        "orthrus serves as user alice (uid 1000): the kernel cannot enforce other callers' identities; "
    ));
}

#[test]
fn as_root_no_capability_is_left_that_bends_quotas_or_set_id_bits() {
    let prepared = prepare_process(true);
    if prepared.serves_as == ServesAs::Callers {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let permitted = status.lines().find_map(|line| line.strip_prefix("CapPrm:\t")).unwrap();
        let permitted = u64::from_str_radix(permitted, 16).unwrap();
        const CAP_FSETID: u64 = 1 << 4;
        const CAP_SYS_ADMIN: u64 = 1 << 21;
        const CAP_SYS_RESOURCE: u64 = 1 << 24;
        assert_eq!(permitted & (CAP_FSETID | CAP_SYS_ADMIN | CAP_SYS_RESOURCE), 0);
    }
    assert!(prepared.descriptors_max > 100);
}

#[test]
fn a_new_owner_keeps_a_set_group_id_bit_that_grants_nothing() {
    let Some((_directory, backend)) = common::export() else { return };
    if backend.serves_as() != ServesAs::Callers {
        eprintln!("skipped: identities cannot be taken here");
        return;
    }
    let owner = |uid, gid| vfs::SetAttributes { uid: Some(uid), gid, ..vfs::SetAttributes::default() };
    let file = backend.create_file(&me(), &backend.root(), b"f", READ, &mode(0o600)).unwrap().0;
    for new_group in [None, Some(4321)] {
        backend.setattr(&me(), &file, &owner(1234, Some(1234))).unwrap();
        backend.setattr(&me(), &file, &mode(0o6744)).unwrap();
        let given = backend.setattr(&me(), &file, &owner(0, new_group)).unwrap();
        assert_eq!((given.mode, given.gid), (0o2744, new_group.unwrap_or(1234)));
        // With permission to execute for the group it is a right, which the owner loses.
        backend.setattr(&me(), &file, &mode(0o2755)).unwrap();
        assert_eq!(backend.setattr(&me(), &file, &owner(1234, new_group)).unwrap().mode, 0o755);
    }
    become_server();
}

#[test]
fn few_descriptors_suffice_for_many_objects() {
    prepare_process(true);
    let directory = TestDirectory::new_in(&std::env::temp_dir()).unwrap();
    let options = LocalOptions { object_cache_max: 32, ..LocalOptions::default() };
    let Ok(backend) = LocalBackend::open(directory.path(), &options) else { return };
    let open_files = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open_files();
    let names: Vec<String> = (0..500).map(|n| format!("file{n}")).collect();
    let handles: Vec<ObjectHandle> = names
        .iter()
        .map(|name| {
            backend.create_file(&me(), &backend.root(), name.as_bytes(), READ, &mode(0o644)).unwrap().0
        })
        .collect();
    assert!(handles.iter().all(|handle| backend.getattr(handle).is_ok()));
    become_server();
    // Other tests run meanwhile, so the count is not exact.
    assert!(open_files() < before + 300);
}

#[test]
fn data_is_written_as_the_user_who_opened_the_file() {
    prepare_process(true);
    let directory = TestDirectory::new_in(&std::env::temp_dir()).unwrap();
    let Some(backend) = common::open(directory.path()) else { return };
    if backend.serves_as() != ServesAs::Callers {
        eprintln!("skipped: identities cannot be taken here");
        return;
    }
    let user = || {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let uids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap().to_owned();
        uids.split_whitespace().last().unwrap().parse::<u32>().unwrap()
    };
    backend.setattr(&me(), &backend.root(), &mode(0o777)).unwrap();
    let caller = vfs::Caller { uid: 1234, gid: 1234, groups: [].into() };
    let access = vfs::OpenAccess { read: true, write: true };
    let made = backend.create_file(&caller, &backend.root(), b"f", access, &mode(0o600)).unwrap();
    become_server();
    assert_eq!(user(), 0);
    assert_eq!(made.1.write_at(b"data", 0), Ok(4));
    assert_eq!(user(), 1234, "blocks that are reserved for root stay so");
    become_server();
}
