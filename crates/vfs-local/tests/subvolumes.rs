//! Subvolumes and snapshots of btrfs are folders of one export, with fileids of their own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::{TestDirectory, me, mode, open, run_as_nobody, walk};
use orthrus_vfs_local::{LocalBackend, ServesAs, become_server, prepare_process};
use std::{collections::HashSet, fs, ops::ControlFlow, path::Path, process::Command};
use vfs::{Backend, NewObject, ObjectHandle, OpenAccess, VfsError};

#[test]
fn subvolumes_of_btrfs_have_numbers_of_their_own() {
    common::run_on("btrfs", "of_this_folder::");
}

/// Returns whether a subcommand of btrfs-progs succeeds.
fn subvolume(arguments: &[&str], at: &[&Path]) -> bool {
    let done = Command::new("btrfs").arg("subvolume").args(arguments).args(at).output();
    done.is_ok_and(|output| output.status.success())
}

/// Makes a tree with its own snapshot and another subvolume in it.
fn tree() -> Option<(TestDirectory, LocalBackend)> {
    prepare_process(true);
    let directory = TestDirectory::new_in(&std::env::temp_dir()).unwrap();
    let export = directory.path().join("export");
    if !subvolume(&["create"], &[&export]) {
        eprintln!("skipped: no subvolumes here");
        return None;
    }
    fs::create_dir(export.join("d")).unwrap();
    for file in ["f", "d/g"] {
        fs::write(export.join(file), "before").unwrap();
    }
    let own = export.join("own");
    assert!(subvolume(&["create"], &[&own]));
    fs::write(own.join("f"), "own").unwrap();
    assert!(subvolume(&["snapshot"], &[&export, &export.join("snap")]));
    fs::write(export.join("f"), "after").unwrap();
    let backend = open(&export)?;
    Some((directory, backend))
}

const ALL: [&str; 9] = ["f", "d", "d/g", "own", "own/f", "snap", "snap/f", "snap/d", "snap/d/g"];

fn fileid(backend: &LocalBackend, object: &ObjectHandle) -> u64 {
    backend.getattr(object).unwrap().fileid
}

mod of_this_folder {
    use super::*;

    #[test]
    fn objects_have_different_numbers_by_all_ways() // RFC 8881 section 5.8.2.7
    {
        let Some((_directory, backend)) = tree() else { return };
        let mut numbers = HashSet::from([fileid(&backend, &backend.root())]);
        for path in ALL {
            let object = walk(&backend, path).unwrap();
            let number = fileid(&backend, &object);
            assert!(numbers.insert(number), "{path} has the number of another: {number:#x}");
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            let parent = if parent.is_empty() { backend.root() } else { walk(&backend, parent).unwrap() };
            let (_, looked_up) = backend.lookup_attributes(&me(), &parent, name.as_bytes()).unwrap();
            assert_eq!(looked_up.fileid, number, "{path}");
            let read = OpenAccess { read: true, write: false };
            if let Ok(file) = backend.open(&me(), &object, read) {
                assert_eq!(file.getattr().unwrap().fileid, number, "{path}");
            }
            assert_eq!((backend.part(&object), backend.mounted_on(&object)), (0, None));
        }
    }

    #[test]
    fn directories_list_the_numbers_of_their_entries() // RFC 8881 section 5.8.2.23
    {
        let Some((_directory, backend)) = tree() else { return };
        let (mut pending, mut seen) = (vec![(String::new(), backend.root())], 0);
        while let Some((above, directory)) = pending.pop() {
            let mut entries = Vec::new();
            backend
                .readdir(&me(), &directory, 0, &mut |entry| {
                    entries.push((entry.name.to_owned(), entry.fileid));
                    ControlFlow::Continue(())
                })
                .unwrap();
            for (name, number) in entries {
                let (object, found) = backend.lookup_attributes(&me(), &directory, &name).unwrap();
                let path = format!("{above}/{}", str::from_utf8(&name).unwrap());
                let path = path.trim_start_matches('/').to_owned();
                assert_eq!(found.fileid, number, "{path}");
                // Snapshots have an empty folder in place of a subvolume; it has no handle that
                // the kernel opens.
                if found.file_type == vfs::FileType::Directory && ALL.contains(&&*path) {
                    pending.push((path, object));
                }
                seen += 1;
            }
        }
        assert_eq!(seen, ALL.len() + 1);
    }

    #[test]
    fn originals_and_copies_are_found_again_with_their_numbers() // RFC 8881 section 4.2.1
    {
        let Some((directory, before)) = tree() else { return };
        let object = |path: &str| walk(&before, path).map(|found| (found, fileid(&before, &found))).unwrap();
        let all = ALL.map(object);
        drop(before);
        become_server();
        let after = open(&directory.path().join("export")).unwrap();
        let again = all.map(|(object, _)| (object, fileid(&after, &object)));
        assert_eq!(again, all);
    }

    #[test]
    fn a_subvolume_that_leaves_the_export_is_stale_at_any_depth() {
        let Some((directory, before)) = tree() else { return };
        let (name, mut at) = ("n".repeat(250), walk(&before, "own").unwrap());
        // The path is longer than any that the kernel prints.
        for _ in 0..25 {
            at = before.create(&me(), &at, name.as_bytes(), NewObject::Directory, &mode(0o755)).unwrap();
        }
        become_server();
        let export = directory.path().join("export");
        let inside = open(&export).unwrap();
        // Without root a search follows no path of that length.
        assert_eq!(inside.getattr(&at).is_ok(), inside.serves_as() == ServesAs::Callers);
        become_server();
        fs::rename(export.join("own"), directory.path().join("own")).unwrap();
        assert_eq!(open(&export).unwrap().getattr(&at), Err(VfsError::Stale));
    }

    #[test]
    fn all_of_this_holds_without_root() {
        if rustix::process::geteuid().is_root() {
            run_as_nobody("of_this_folder::");
        }
    }
}
