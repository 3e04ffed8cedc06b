//! A local program that swaps folders for symbolic links while the server works on them: nothing
//! outside is touched or disclosed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::{TestDirectory, me, mode};
use orthrus_vfs_local::{
    ClientsFolders, LocalBackend, LocalOptions, SubmountBackend, become_server, prepare_process,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use vfs::{
    Backend, FileType, NewObject, ObjectHandle, OpenAccess, SetAttributes, SetTime, Timestamp, VfsError,
    VfsResult, XattrHow,
};

/// How often everything is tried.
const ROUNDS: usize = 400;
const BOTH: OpenAccess = OpenAccess { read: true, write: true };

/// Returns the state of a folder that must not change.
fn look(path: &Path) -> (Vec<String>, Vec<u8>, [i64; 4], u32) {
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    let (folder, file) = (fs::metadata(path).unwrap(), fs::metadata(path.join("f")).unwrap());
    let times = [folder.ctime(), folder.ctime_nsec(), file.ctime(), file.ctime_nsec()];
    (names, fs::read(path.join("f")).unwrap(), times, folder.permissions().mode())
}

/// Accepts the results that a name may give that is a folder at one moment and a link at the next.
fn fair<T>(result: VfsResult<T>) -> Option<T> {
    use VfsError::{Delay, Exist, Isdir, Noent, Notdir, Notsupp, Perm, Stale, Symlink, WrongType};
    match result {
        Ok(value) => Some(value),
        Err(Delay | Exist | Isdir | Noent | Notdir | Notsupp | Perm | Stale | Symlink | WrongType) => None,
        Err(error) => panic!("{error:?}"),
    }
}

/// Runs every operation with a directory and a name in the current "swap". Returns whether it was a
/// folder.
fn use_names(backend: &dyn Backend, root: &ObjectHandle) -> bool {
    let Some(found) = fair(backend.lookup(&me(), root, b"swap")) else { return false };
    if let Some((handle, attributes)) = fair(backend.lookup_attributes(&me(), root, b"swap")) {
        let again = fair(backend.getattr(&handle));
        assert!(again.is_none_or(|again| again.file_type == attributes.file_type));
    }
    if let Some(file) = fair(backend.lookup(&me(), &found, b"f")) {
        let opened = fair(backend.open(&me(), &file, BOTH));
        let mut data = Vec::new();
        if let Some(opened) = opened {
            opened.read_at(&mut data, 100, 0).unwrap();
            assert_eq!(data, b"inside");
        }
        fair(backend.link(&me(), &file, &found, b"linked"));
        fair(backend.set_xattr(&me(), &file, b"name", b"value", XattrHow::Either));
    }
    if let Some((_, file)) = fair(backend.create_file(&me(), &found, b"made", BOTH, &mode(0o600))) {
        file.write_at(b"made", 0).unwrap();
    }
    fair(backend.create(&me(), &found, b"folder", NewObject::Directory, &mode(0o700)));
    fair(backend.create(&me(), &found, b"link", NewObject::Symlink(b"/"), &mode(0o777)));
    fair(backend.rename(&me(), (&found, b"made"), (&found, b"moved"), None));
    fair(backend.rename(&me(), (root, b"mine"), (&found, b"mine"), None));
    fair(backend.rename(&me(), (&found, b"mine"), (root, b"mine"), None));
    fair(backend.readdir(&me(), &found, 0, &mut |entry| {
        assert_ne!(entry.name, b"secret");
        std::ops::ControlFlow::Continue(())
    }));
    for name in [&b"linked"[..], b"moved", b"made", b"folder", b"link"] {
        fair(backend.remove(&me(), &found, name, None));
    }
    fair(backend.lookup_parent(&me(), &found));
    fair(backend.getattr(&found)).is_some_and(|found| found.file_type == FileType::Directory)
}

/// Everything that has an object alone.
fn use_object(backend: &dyn Backend, root: &ObjectHandle) {
    let Some(found) = fair(backend.lookup(&me(), root, b"swap")) else { return };
    let time = Some(SetTime::At(Timestamp { seconds: 1, nanoseconds: 0 }));
    fair(backend.setattr(&me(), &found, &SetAttributes { mtime: time, atime: time, ..Default::default() }));
    fair(backend.setattr(&me(), &found, &mode(0o755)));
    fair(backend.setattr(&me(), &found, &SetAttributes { uid: Some(me().uid), ..Default::default() }));
    fair(backend.access(&me(), &found));
    fair(backend.open(&me(), &found, BOTH).map(drop));
    fair(backend.set_xattr(&me(), &found, b"name", b"value", XattrHow::Either));
    fair(backend.get_xattr(&me(), &found, b"name").or(Ok(Vec::new())));
    fair(backend.remove_xattr(&me(), &found, b"name").or(Ok(())));
    fair(backend.acls(&found).map(drop));
    fair(backend.readlink(&me(), &found).map(drop));
    fair(backend.commit(&found));
    fair(backend.statfs(&found));
}

/// Like [`use_object`], with a file that is swapped for a link to one. Returns whether it was the
/// file.
fn use_file(backend: &dyn Backend, root: &ObjectHandle) -> bool {
    let Some(found) = fair(backend.lookup(&me(), root, b"file")) else { return false };
    let opened = fair(backend.open(&me(), &found, BOTH));
    if let Some(file) = &opened {
        let mut data = Vec::new();
        file.read_at(&mut data, 100, 0).unwrap();
        assert_eq!(data, b"inside");
        file.write_at(b"inside", 0).unwrap();
    }
    let size = SetAttributes { size: Some(6), ..Default::default() };
    // A link has no size to be set.
    assert!(!matches!(
        backend.setattr(&me(), &found, &size),
        Err(VfsError::Access | VfsError::Io | VfsError::Os(_))
    ));
    fair(backend.link(&me(), &found, root, b"another"));
    fair(backend.remove(&me(), root, b"another", None));
    opened.is_some()
}

/// Says that it is over, however that comes.
struct Ends<'d>(&'d AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn hold_out(open: impl Fn(&Path) -> Box<dyn Backend>) {
    prepare_process(true);
    let place = TestDirectory::new_in(&std::env::temp_dir()).unwrap();
    let (export, outside) = (place.path().join("export"), place.path().join("outside"));
    for path in [&export, &outside, &export.join("swap")] {
        fs::create_dir(path).unwrap();
    }
    fs::write(export.join("swap/f"), b"inside").unwrap();
    fs::write(export.join("mine"), b"mine").unwrap();
    fs::write(outside.join("f"), b"outside").unwrap();
    fs::write(outside.join("secret"), b"secret").unwrap();
    symlink("../outside", export.join("other")).unwrap();
    fs::write(export.join("file"), b"inside").unwrap();
    symlink("../outside/f", export.join("link")).unwrap();
    let before = look(&outside);
    let backend = open(&export);
    let root = backend.root();
    let (done, folders, links) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let swap = |one: &str, other: &str| {
                let (one, other) = (export.join(one), export.join(other));
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            };
            while !done.load(Relaxed) {
                swap("swap", "other");
                swap("file", "link");
            }
        });
        // A test that fails ends that thread, too.
        let _ends = Ends(&done);
        for _ in 0..ROUNDS {
            let folder = use_names(&*backend, &root);
            if folder { &folders } else { &links }.fetch_add(1, Relaxed);
            use_object(&*backend, &root);
            let file = use_file(&*backend, &root);
            if file { &folders } else { &links }.fetch_add(1, Relaxed);
        }
    });
    become_server();
    assert_eq!(look(&outside), before);
    assert!(folders.load(Relaxed) > 0 && links.load(Relaxed) > 0, "{folders:?} and {links:?}");
}

#[test]
fn links_that_come_and_go_are_never_followed() {
    if common::export().is_some() {
        hold_out(|path| Box::new(LocalBackend::open(path, &LocalOptions::default()).unwrap()));
    }
}

#[test]
fn links_that_come_and_go_are_never_followed_where_mounts_are_shown() {
    if common::export().is_some() {
        hold_out(|path| Box::new(SubmountBackend::open(path, &LocalOptions::default()).unwrap()));
    }
}

#[test]
fn links_that_come_and_go_are_never_followed_without_root() {
    common::run_as_nobody("come_and_go_are_never_followed_where");
}

#[test]
fn an_object_that_takes_the_name_of_a_new_directory_stays_as_it_is() {
    prepare_process(true);
    let directory = TestDirectory::new_in(&std::env::temp_dir()).unwrap();
    let backend = LocalBackend::open(directory.path(), &LocalOptions::default()).unwrap();
    let (made, old) = (directory.path().join("made"), directory.path().join("old"));
    fs::create_dir(&old).unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o700)).unwrap();
    let inode = fs::metadata(&old).unwrap().ino();
    // The kernel stamps births by the tick: objects made in the tick of the new directory look
    // alike.
    std::thread::sleep(std::time::Duration::from_millis(100));
    let time = SetTime::At(Timestamp { seconds: 1, nanoseconds: 0 });
    let set = SetAttributes { mtime: Some(time), ..mode(0o2755) };
    for _ in 0..ROUNDS {
        let (ready, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let created = std::thread::scope(|scope| {
            scope.spawn(|| {
                become_server();
                while !done.load(Relaxed) {
                    let _ = renameat_with(CWD, &made, CWD, &old, RenameFlags::EXCHANGE);
                    ready.store(true, Relaxed);
                }
            });
            let _ends = Ends(&done);
            while !ready.load(Relaxed) {
                std::thread::yield_now();
            }
            fair(backend.create(&me(), &backend.root(), b"made", NewObject::Directory, &set))
        });
        become_server();
        let attributes = created.and_then(|created| fair(backend.getattr(&created)));
        assert!(attributes.is_none_or(|attributes| attributes.fileid != inode), "it is not what was made");
        let swapped = fs::metadata(&made).is_ok_and(|found| found.ino() == inode);
        let found = fs::metadata(if swapped { &made } else { &old }).unwrap();
        assert_eq!((found.ino(), found.permissions().mode() & 0o7777), (inode, 0o700));
        assert_ne!(found.mtime(), 1);
        if swapped {
            renameat_with(CWD, &made, CWD, &old, RenameFlags::EXCHANGE).unwrap();
        }
        fs::remove_dir(&made).unwrap();
    }
}

#[test]
fn a_link_in_an_exported_folder_leads_to_no_other_export() {
    prepare_process(true);
    let directory = TestDirectory::new_in(&std::env::temp_dir()).unwrap();
    let (shared, secret) = (directory.path().join("shared"), directory.path().join("secret"));
    fs::create_dir_all(shared.join("inner/deep")).unwrap();
    fs::create_dir_all(secret.join("deep")).unwrap();
    symlink(&shared, directory.path().join("to-shared")).unwrap();
    let open = |path: &str| {
        let path = directory.path().join(path);
        let folders = ClientsFolders::new(vec![directory.path().join("to-shared"), path.clone()]);
        let options = LocalOptions { clients_folders: folders.into(), ..LocalOptions::default() };
        LocalBackend::open(&path, &options).map(|backend| backend.root())
    };
    let inner = open("shared/inner/deep").unwrap();
    assert_eq!(open("to-shared/inner/deep").unwrap(), inner, "the link is the administrator's");
    fs::rename(shared.join("inner"), shared.join("moved")).unwrap();
    symlink("../secret", shared.join("inner")).unwrap();
    for path in ["shared/inner/deep", "to-shared/inner/deep", "shared/inner"] {
        let error = open(path).unwrap_err().to_string();
        assert!(error.contains("shared/inner is a symbolic link in another export"), "{error}");
    }
    assert!(open("secret/deep").is_ok() && open("shared/none").is_err());
}
