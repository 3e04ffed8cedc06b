//! File systems that are mounted below an exported folder.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::{TestDirectory, me, mode, walk};
use orthrus_vfs_local::{LocalBackend, LocalOptions, SubmountBackend, become_server};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use vfs::{Acls, Backend, Caller, FileType, ObjectHandle, OpenAccess, PosixAcl, SetAttributes, VfsError};

/// Set in the process that has mounts of its own.
const MOUNTS_ARE_OWN: &str = "ORTHRUS_TEST_MOUNTS";

#[test]
fn run_where_mounts_are_nobody_elses() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: it takes root to mount");
    }
    let mut command = Command::new("unshare");
    // One at a time: a program that another test starts has copies of all descriptors until its
    // exec, and a file system with open files cannot be unmounted.
    command.args([
        "--mount",
        "sh",
        "-c",
        "mount -t tmpfs tmpfs /mnt || exit 77; exec \"$0\" mounted --test-threads=1",
    ]);
    let output = command.arg(std::env::current_exe().unwrap()).env(MOUNTS_ARE_OWN, "1").output();
    let Ok(output) = output else { return eprintln!("skipped: there is no unshare") };
    let (text, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.code() == Some(77) || error.starts_with("unshare:") {
        return eprintln!("skipped: nothing can be mounted here: {error}");
    }
    assert!(output.status.success(), "{text}\n{error}");
    assert!(!text.contains("running 0 tests"), "{text}");
}

/// A folder with a tmpfs mounted on "inner"; nothing where mounts would be everybody's.
struct MountedFolder {
    folder: TestDirectory,
}

impl MountedFolder {
    fn new() -> Option<Self> {
        std::env::var_os(MOUNTS_ARE_OWN)?;
        let folder = TestDirectory::new_in(&std::env::temp_dir()).unwrap();
        let place = Self { folder };
        place.mount("inner");
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn mount(&self, name: &str) {
        become_server();
        let path = self.path(name);
        let _ = fs::create_dir(&path);
        run("mount", &["-t", "tmpfs", "tmpfs", path.to_str().unwrap()]);
    }

    /// Mounts an overlay, which counts as foreign, on "over"; false if that cannot be.
    fn mount_overlay(&self) -> bool {
        become_server();
        let path = |name: &str| self.path(name).to_str().unwrap().to_owned();
        for name in ["inner/lower", "inner/upper", "inner/work", "over"] {
            fs::create_dir(self.path(name)).unwrap();
        }
        let (lower, upper, work) = (path("inner/lower"), path("inner/upper"), path("inner/work"));
        let folders = format!("lowerdir={lower},upperdir={upper},workdir={work},index=on,nfs_export=on");
        let command =
            Command::new("mount").args(["-t", "overlay", "-o", &folders, "none", &path("over")]).output();
        let done = command.unwrap().status.success();
        if !done {
            eprintln!("skipped: there are no overlays");
        }
        done
    }

    fn unmount(&self, name: &str, how: &[&str]) -> bool {
        become_server();
        let path = self.path(name);
        let done = Command::new("umount").args(how).arg(path).output().unwrap();
        done.status.success()
    }

    fn show(&self) -> SubmountBackend {
        SubmountBackend::open(self.folder.path(), &LocalOptions::default()).unwrap()
    }
}

impl Drop for MountedFolder {
    fn drop(&mut self) {
        for name in ["over", "inner/deep", "inner", "hanging", "late"] {
            self.unmount(name, &["-l"]);
        }
    }
}

/// A FUSE file system that answers nothing, until it is dropped: then its calls fail.
struct HangingMount(#[expect(dead_code, reason = "dropping it ends the calls")] fs::File);

impl HangingMount {
    /// Mounts one, or says why that cannot be.
    fn new(path: &Path) -> Option<Self> {
        use std::os::fd::AsRawFd;
        become_server();
        let Ok(device) = fs::File::options().read(true).write(true).open("/dev/fuse") else {
            eprintln!("skipped: there is no FUSE");
            return None;
        };
        let keep = |flags| rustix::io::fcntl_setfd(&device, flags).unwrap();
        keep(rustix::io::FdFlags::empty());
        let options = format!("fd={},rootmode=040000,user_id=0,group_id=0", device.as_raw_fd());
        fs::create_dir(path).unwrap();
        run("mount", &["-i", "-t", "fuse", "-o", &options, "none", path.to_str().unwrap()]);
        keep(rustix::io::FdFlags::CLOEXEC);
        Some(Self(device))
    }
}

/// Runs a call on another thread; `None` if it hangs.
fn in_time<R: Send + 'static>(call: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(call()));
    receiver.recv_timeout(std::time::Duration::from_secs(20)).ok()
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn make(backend: &dyn Backend, directory: &ObjectHandle, name: &[u8], data: &[u8]) -> ObjectHandle {
    let access = OpenAccess { read: true, write: true };
    let (handle, file) = backend.create_file(&me(), directory, name, access, &mode(0o644)).unwrap();
    file.write_at(data, 0).unwrap();
    handle
}

fn read(backend: &dyn Backend, handle: &ObjectHandle) -> Vec<u8> {
    let file = backend.open(&me(), handle, OpenAccess { read: true, write: false }).unwrap();
    let mut data = Vec::new();
    file.read_at(&mut data, 100, 0).unwrap();
    data
}

fn names(backend: &dyn Backend, directory: &ObjectHandle) -> Vec<(Vec<u8>, u64)> {
    let mut names = Vec::new();
    let mut note = |entry: vfs::DirEntry<'_>| {
        names.push((entry.name.to_vec(), entry.fileid));
        std::ops::ControlFlow::Continue(())
    };
    assert_eq!(backend.readdir(&me(), directory, 0, &mut note), Ok(vfs::Eof::Reached));
    names
}

#[test]
fn mounted_file_systems_do_not_exist_unless_shown() {
    let Some(place) = MountedFolder::new() else { return };
    let backend = LocalBackend::open(place.folder.path(), &LocalOptions::default()).unwrap();
    assert_eq!(backend.lookup(&me(), &backend.root(), b"inner"), Err(VfsError::Noent));
    assert!(backend.has_mounts(&backend.root()), "so that the name is not listed either");
    let access = OpenAccess { read: true, write: true };
    let exclusive =
        vfs::SetAttributes { atime: Some(vfs::SetTime::Now), mtime: Some(vfs::SetTime::Now), ..mode(0o644) };
    for set in [mode(0o644), exclusive] {
        let made = backend.create_file(&me(), &backend.root(), b"inner", access, &set);
        assert_eq!(made.err(), Some(VfsError::Access), "Exist would be a reason to look again");
    }
    assert!(place.unmount("inner", &[]), "nothing of it is in use");
    assert!(!backend.has_mounts(&backend.root()));
    backend.lookup(&me(), &backend.root(), b"inner").unwrap();
}

#[test]
// RFC 8881 sections 5.8.1.9 and 5.8.2.23
fn mounted_file_systems_are_others_of_the_same_export() {
    let Some(place) = MountedFolder::new() else { return };
    let backend = place.show();
    let root = backend.root();
    let inner = backend.lookup(&me(), &root, b"inner").unwrap();
    let attributes = backend.getattr(&inner).unwrap();
    assert_eq!(attributes.file_type, FileType::Directory);
    assert_eq!(backend.part(&root), 0);
    assert_ne!(backend.part(&inner), 0);
    assert!(backend.has_mounts(&root) && !backend.has_mounts(&inner));
    let listed = names(&backend, &root);
    let covered = listed.iter().find(|(name, _)| name == b"inner").unwrap().1;
    assert_eq!(backend.mounted_on(&inner), Some(covered));
    assert_eq!(backend.mounted_on(&root), None);

    let file = make(&backend, &inner, b"f", b"inside");
    assert_eq!(fs::read(place.path("inner/f")).unwrap(), b"inside");
    assert_eq!((backend.part(&file), backend.mounted_on(&file)), (backend.part(&inner), None));
    assert_eq!(names(&backend, &inner).len(), 1);
    assert_eq!(backend.lookup_parent(&me(), &inner), Ok(root));
    assert_eq!(backend.lookup_parent(&me(), &root), Err(VfsError::Noent));
    let folder = backend.create(&me(), &inner, b"d", vfs::NewObject::Directory, &mode(0o755)).unwrap();
    assert_eq!(backend.lookup_parent(&me(), &folder), Ok(inner));
    assert_eq!(walk(&backend, "inner/f"), Ok(file));
    assert!(!backend.features_of(&inner).quotas);
}

#[test]
fn mounted_a_file_is_known_by_whichever_export_it_is_reached() // RFC 8881 section 9.1
{
    let Some(place) = MountedFolder::new() else { return };
    let backend = place.show();
    let file = make(&backend, &backend.lookup(&me(), &backend.root(), b"inner").unwrap(), b"f", b"");
    let direct = LocalBackend::open(&place.path("inner"), &LocalOptions::default()).unwrap();
    let by_itself = direct.lookup(&me(), &direct.root(), b"f").unwrap();
    let (one, other) = (backend.identity(&file).unwrap(), direct.identity(&by_itself).unwrap());
    assert_eq!(one.device, other.device);
    assert_eq!(file.as_bytes()[one.skip..], by_itself.as_bytes()[other.skip..]);
    let outside = make(&backend, &backend.root(), b"f", b"");
    assert_ne!(backend.identity(&outside).unwrap().device, one.device);
}

#[test]
fn mounted_handles_survive_a_restart() // RFC 8881 section 4.2.3
{
    let Some(place) = MountedFolder::new() else { return };
    place.mount("inner/deep");
    let backend = place.show();
    let inner = make(&backend, &walk(&backend, "inner").unwrap(), b"f", b"inner");
    let deep = make(&backend, &walk(&backend, "inner/deep").unwrap(), b"f", b"deep");
    let (part, deeper) = (backend.part(&inner), backend.part(&deep));
    assert!(part != 0 && deeper != 0 && part != deeper);
    drop(backend);
    let backend = place.show();
    assert_eq!(read(&backend, &deep), b"deep");
    assert_eq!(read(&backend, &inner), b"inner");
    assert_eq!((backend.part(&inner), backend.part(&deep)), (part, deeper));
    let folder = walk(&backend, "inner/deep").unwrap();
    assert_eq!(backend.lookup_parent(&me(), &folder), walk(&backend, "inner"));
}

#[test]
// RFC 8881 section 15.1.2.9
fn mounted_file_systems_are_stale_once_unmounted_and_others_in_their_place() {
    let Some(place) = MountedFolder::new() else { return };
    let backend = place.show();
    let file = make(&backend, &walk(&backend, "inner").unwrap(), b"f", b"first");
    let part = backend.part(&file);
    let opened = backend.open(&me(), &file, OpenAccess { read: true, write: false }).unwrap();
    assert!(place.unmount("inner", &["-l"]));
    assert_eq!(backend.getattr(&file), Err(VfsError::Stale));
    let covered = walk(&backend, "inner").unwrap();
    assert_eq!(backend.part(&covered), 0, "the covered folder is seen again");
    let mut data = Vec::new();
    opened.read_at(&mut data, 10, 0).unwrap();
    assert_eq!(data, b"first", "what is open stays open");
    place.mount("inner");
    assert_eq!(backend.getattr(&file), Err(VfsError::Stale));
    let second = make(&backend, &walk(&backend, "inner").unwrap(), b"f", b"second");
    assert_ne!(backend.part(&second), part);
    assert_eq!(read(&backend, &second), b"second");
    assert_eq!(backend.getattr(&file), Err(VfsError::Stale));
}

#[test]
fn mounted_objects_are_not_at_hand_until_a_change_of_mounts_is_handled() {
    let Some(place) = MountedFolder::new() else { return };
    let backend = place.show();
    let file = make(&backend, &walk(&backend, "inner").unwrap(), b"f", b"data");
    assert!(backend.is_cached(&file));
    let identity = backend.identity(&file).map(|identity| identity.device);
    place.mount("late");
    assert!(!backend.is_cached(&file), "its mount may be gone");
    assert!(!backend.is_cached(&file), "asking handles nothing");
    backend.getattr(&file).unwrap();
    assert!(backend.is_cached(&file));
    assert!(place.unmount("inner", &["-l"]));
    assert!(identity.is_some() && backend.identity(&file).map(|identity| identity.device) == identity);
    assert_eq!(backend.getattr(&file), Err(VfsError::Stale));
}

#[test]
fn mounted_file_systems_can_be_unmounted_when_unused() {
    let Some(place) = MountedFolder::new() else { return };
    let backend = place.show();
    let file = make(&backend, &walk(&backend, "inner").unwrap(), b"f", b"data");
    assert!(!place.unmount("inner", &[]), "it is in use");
    backend.trim();
    assert_eq!(read(&backend, &file), b"data");
    backend.trim();
    backend.trim();
    assert!(place.unmount("inner", &[]));
}

#[test]
// RFC 8881 sections 18.26.3 and 18.9.3
fn mounted_names_do_not_move_from_one_file_system_to_another() {
    let Some(place) = MountedFolder::new() else { return };
    let backend = place.show();
    let (root, inner) = (backend.root(), walk(&backend, "inner").unwrap());
    let file = make(&backend, &inner, b"f", b"");
    let outside = make(&backend, &root, b"o", b"");
    assert_eq!(backend.rename(&me(), (&inner, b"f"), (&root, b"g"), None), Err(VfsError::Xdev));
    assert_eq!(backend.rename(&me(), (&root, b"o"), (&inner, b"g"), None), Err(VfsError::Xdev));
    assert_eq!(backend.link(&me(), &file, &root, b"g"), Err(VfsError::Xdev));
    assert_eq!(backend.link(&me(), &outside, &inner, b"g"), Err(VfsError::Xdev));
    backend.rename(&me(), (&inner, b"f"), (&inner, b"g"), None).unwrap();
    assert_eq!(backend.remove(&me(), &root, b"inner", None), Err(VfsError::Access));
    let moved = backend.rename(&me(), (&root, b"inner"), (&root, b"elsewhere"), None);
    assert_eq!(moved, Err(VfsError::Access), "a mount stays where it is");
}

#[test]
fn mounted_nothing_leads_out_of_the_export() // RFC 8881 section 7.3
{
    let Some(place) = MountedFolder::new() else { return };
    // The exported folder is mounted once more, from above, below itself.
    let above = place.path("inner/above");
    fs::create_dir(&above).unwrap();
    fs::create_dir_all(place.path("exported")).unwrap();
    run(
        "mount",
        &["--bind", place.folder.path().parent().unwrap().to_str().unwrap(), above.to_str().unwrap()],
    );
    std::os::unix::fs::symlink("/", place.path("inner/link")).unwrap();
    let backend = SubmountBackend::open(&place.path("inner"), &LocalOptions::default()).unwrap();
    let bound = walk(&backend, "above").unwrap();
    assert_eq!(
        backend.lookup_parent(&me(), &bound),
        Ok(backend.root()),
        "and not what is above it elsewhere"
    );
    let link = walk(&backend, "link").unwrap();
    assert_eq!(backend.lookup(&me(), &link, b"etc"), Err(VfsError::Symlink));
    let mut forged = bound.as_bytes().to_vec();
    forged[5] ^= 1;
    let forged = ObjectHandle::new(&forged).unwrap();
    assert_eq!(backend.getattr(&forged), Err(VfsError::Stale), "no such file system");
    become_server();
    run("umount", &["-l", above.to_str().unwrap()]);
}

#[test]
fn mounted_file_systems_without_handles_are_hidden() {
    let Some(place) = MountedFolder::new() else { return };
    let proc = place.path("proc");
    fs::create_dir(&proc).unwrap();
    run("mount", &["-t", "proc", "proc", proc.to_str().unwrap()]);
    let file = place.path("file");
    fs::write(&file, b"").unwrap();
    run("mount", &["--bind", Path::new("/etc/passwd").to_str().unwrap(), file.to_str().unwrap()]);
    let backend = place.show();
    for name in [&b"proc"[..], b"file"] {
        assert_eq!(backend.lookup(&me(), &backend.root(), name), Err(VfsError::Noent));
    }
    become_server();
    run("umount", &[proc.to_str().unwrap(), file.to_str().unwrap()]);
}

#[test]
fn mounted_file_systems_that_hang_do_not_hide_others() // RFC 8881 section 4.2.3
{
    let Some(place) = MountedFolder::new() else { return };
    let Some(hanging) = HangingMount::new(&place.path("hanging")) else { return };
    // The table of mounts has the one that hangs first.
    place.mount("late");
    let backend = place.show();
    let mut files = vec![make(&backend, &walk(&backend, "late").unwrap(), b"f", b"late")];
    if place.mount_overlay() {
        files.push(make(&backend, &walk(&backend, "over").unwrap(), b"f", b"over"));
    }
    drop(backend);
    let backend = Arc::new(place.show());
    let forged = ObjectHandle::new(&[2, 0, 0, 0, 0, 0, 0, 0, 1, 1]).unwrap();
    assert_eq!(backend.part(&forged), 1, "the handle tells it");
    let ask = |object: ObjectHandle| {
        let backend = Arc::clone(&backend);
        in_time(move || (backend.identity(&object).is_some(), backend.getattr(&object).map(drop)))
    };
    let found: Vec<_> = files.iter().map(|file| ask(*file)).collect();
    let unknown = ask(forged);
    let start = std::time::Instant::now();
    let again = ask(forged);
    let took = start.elapsed();
    drop(hanging);
    assert!(found.iter().all(|found| *found == Some((true, Ok(())))), "{found:?}");
    assert_eq!((unknown, again), (Some((false, Err(VfsError::Delay))), Some((false, Err(VfsError::Delay)))));
    assert!(took < std::time::Duration::from_secs(1), "{took:?}");
    let ended = || ask(forged) == Some((false, Err(VfsError::Stale)));
    let deadline = start + std::time::Duration::from_secs(30);
    while !ended() {
        assert!(std::time::Instant::now() < deadline, "it may be none that hangs any more");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn mounted_a_name_of_a_file_system_that_hangs_is_answered() // RFC 8881 section 15.1.1.3
{
    let Some(place) = MountedFolder::new() else { return };
    let Some(hanging) = HangingMount::new(&place.path("hanging")) else { return };
    let backend = Arc::new(place.show());
    let ask = |name: &'static [u8]| {
        let backend = Arc::clone(&backend);
        in_time(move || {
            let found = backend.lookup(&me(), &backend.root(), name).map(drop);
            (found, backend.lookup_attributes(&me(), &backend.root(), name).map(drop))
        })
    };
    let answers = [ask(b"hanging"), ask(b"inner"), ask(b"missing")];
    let start = std::time::Instant::now();
    let again = ask(b"hanging");
    let took = start.elapsed();
    drop(hanging);
    let (delay, missing) = (Err(VfsError::Delay), Err(VfsError::Noent));
    assert_eq!(answers, [Some((delay, delay)), Some((Ok(()), Ok(()))), Some((missing, missing))]);
    assert_eq!(again, Some((delay, delay)));
    assert!(took < std::time::Duration::from_secs(1), "{took:?}");
}

#[test]
fn mounted_a_disk_is_the_same_when_it_is_mounted_again() // RFC 8881 section 4.2.3
{
    let Some(place) = MountedFolder::new() else { return };
    if Command::new("mkfs.ext4").arg("-V").output().is_err() {
        return eprintln!("skipped: there is no mkfs.ext4");
    }
    let (image, disk) = (place.path("image"), place.path("disk"));
    fs::File::create(&image).and_then(|file| file.set_len(8 << 20)).unwrap();
    fs::create_dir(&disk).unwrap();
    let (image, disk) = (image.to_str().unwrap(), disk.to_str().unwrap());
    run("mkfs.ext4", &["-q", "-F", image]);
    run("mount", &["-o", "loop", image, disk]);
    let backend = place.show();
    let file = make(&backend, &walk(&backend, "disk").unwrap(), b"f", b"kept");
    backend.trim();
    backend.trim();
    become_server();
    run("umount", &[disk]);
    assert_eq!(backend.getattr(&file), Err(VfsError::Stale));
    become_server();
    run("mount", &["-o", "loop", image, disk]);
    assert_eq!(read(&backend, &file), b"kept");
    drop(backend);
    become_server();
    run("umount", &[disk]);
}

#[test]
fn mounted_without_execution_programs_stay_programs_for_clients() // RFC 8881 section 18.1
{
    let Some(place) = MountedFolder::new() else { return };
    let path = place.path("inner");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    for bits in [0o755, 0o711, 0o710, 0o700, 0o644] {
        let file = path.join(format!("{bits:o}"));
        fs::write(&file, "#!/bin/sh").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(bits)).unwrap();
    }
    let backend = LocalBackend::open(&path, &LocalOptions::default()).unwrap();
    let caller = |uid, gid| Caller { uid, gid, groups: [].into() };
    let listed = walk(&backend, "700").unwrap();
    let list = PosixAcl { users: [(1002, 1)].into(), mask: Some(1), ..PosixAcl::of_mode(0o700) };
    let acls = Some(Acls { access: Some(list), default: None });
    let listed_set = SetAttributes { acls, ..SetAttributes::default() };
    backend.setattr(&me(), &listed, &listed_set).unwrap();
    let read = OpenAccess { read: true, write: false };
    let rights = || {
        let of = |name: &str| {
            let file = walk(&backend, name).unwrap();
            [caller(0, 0), caller(1001, 0), caller(1002, 1002)].map(|caller| {
                let opened = backend.open(&caller, &file, read).is_ok();
                (backend.access(&caller, &file).unwrap(), opened)
            })
        };
        ["755", "711", "710", "700", "644"].map(of)
    };
    let before = rights();
    let executes = before.map(|callers| callers.map(|(rights, _)| rights.execute));
    let expected = [[true; 3], [true; 3], [true, true, false], [true, false, true], [false, false, false]];
    assert_eq!(executes, expected);
    become_server();
    run("mount", &["-o", "remount,noexec", path.to_str().unwrap()]);
    assert_eq!(rights(), before);
    become_server();
}

#[test]
fn mounted_btrfs_is_told_from_another_whose_handles_are_the_same() // RFC 8881 section 4.2.2
{
    let Some(place) = MountedFolder::new() else { return };
    let mount = |name: &str| {
        let (image, path) = (place.path(&format!("{name}.image")), place.path(name));
        fs::create_dir_all(&path).unwrap();
        if !image.exists() {
            fs::File::create(&image).and_then(|file| file.set_len(256 << 20)).unwrap();
            let made = Command::new("mkfs.btrfs").arg("-q").arg(&image).output();
            if !made.is_ok_and(|made| made.status.success()) {
                return None;
            }
        }
        let mounted = Command::new("mount").args(["-o", "loop"]).args([&image, &path]).output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then_some(path)
    };
    let (Some(one), Some(other)) = (mount("one"), mount("other")) else {
        return eprintln!("skipped: no btrfs can be made and mounted here");
    };
    for path in [&one, &other] {
        fs::create_dir(path.join("folder")).unwrap();
    }
    let open = |path: &Path| LocalBackend::open(path, &LocalOptions::default()).unwrap();
    let id = |path: &Path| open(path).folder().id;
    assert_eq!(open(&one).root(), open(&other).root(), "so that a handle does not tell");
    assert_ne!(id(&one), id(&other));
    assert!(!open(&other).holds(&id(&one)) && !open(&other).holds(&id(&one.join("folder"))));
    assert!(open(&one).holds(&id(&one.join("folder"))) && !open(&one.join("folder")).holds(&id(&one)));
    run("btrfs", &["-q", "subvolume", "create", one.join("subvolume").to_str().unwrap()]);
    assert!(open(&one).holds(&id(&one.join("subvolume"))), "it is the same file system");
    let before = id(&one);
    assert!(place.unmount("one", &[]) && mount("one").is_some());
    assert_eq!(id(&one), before);
    assert!(place.unmount("one", &[]) && place.unmount("other", &[]));
}

#[test]
fn mounted_over_a_folder_or_renamed_it_is_not_at_its_path_any_more() {
    let Some(place) = MountedFolder::new() else { return };
    let path = place.path("folder");
    fs::create_dir(&path).unwrap();
    let options = LocalOptions::default();
    let folder = LocalBackend::open(&path, &options).unwrap().folder();
    assert!(folder.is_at(&path, &options.clients_folders));
    place.mount("folder");
    assert!(!folder.is_at(&path, &options.clients_folders));
    assert!(place.unmount("folder", &[]));
    fs::rename(&path, place.path("renamed")).unwrap();
    assert!(folder.is_at(&path, &options.clients_folders), "a path that leads nowhere tells nothing");
    fs::create_dir(&path).unwrap();
    assert!(
        !folder.is_at(&path, &options.clients_folders)
            && folder.is_at(&place.path("renamed"), &options.clients_folders)
    );
}
