//! One cluster for all tests of a program, with a new directory for each.

use ceph::fs::{CephFs, CephInode, CephMount, Credentials, MountOptions, NewInode, XattrFlag};
use miniceph::{MiniCeph, MiniCephError, MiniCephOptions};
use orthrus_vfs_ceph::{CephBackend, CephOptions};
use std::ffi::CString;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use vfs::{Backend, Caller, NewObject, ObjectHandle, OpenAccess, SetAttributes, VfsResult};

/// Returns the cluster; `None`, with the reason, where Ceph is not installed. It ends with the
/// process.
pub(crate) fn cluster() -> Option<&'static MiniCeph> {
    static CLUSTER: OnceLock<Option<MiniCeph>> = OnceLock::new();
    let start = || {
        if let Err(error) = CephFs::load() {
            eprintln!("skipped: {error}");
            return None;
        }
        match MiniCeph::start(&MiniCephOptions {
            file_systems: vec![OTHER.to_owned()],
            ..MiniCephOptions::default()
        }) {
            Ok(cluster) => Some(cluster),
            Err(error @ MiniCephError::Missing { .. }) => {
                eprintln!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    };
    CLUSTER.get_or_init(start).as_ref()
}

/// The name of a further file system of the cluster.
pub(crate) const OTHER: &str = "other";
/// Bytes that each test's directory may hold.
pub(crate) const QUOTA: u64 = 64 << 40;

/// A native client of the cluster, as the superuser.
pub(crate) struct Native {
    pub(crate) mount: Arc<CephMount>,
    pub(crate) user: Credentials,
}

/// Mounts the root of the file system.
pub(crate) fn native(cluster: &MiniCeph) -> Native {
    let library = CephFs::load().unwrap();
    let options = MountOptions {
        configuration: cluster.configuration(),
        user: "admin".to_owned(),
        keyring: None,
        file_system: None,
        path: "/".to_owned(),
        settings: vec![("client_acl_type", "posix_acl".to_owned())],
        defaults: Vec::new(),
        identity: None,
        former: None,
    };
    let mount = CephMount::open(library, &options, Box::new(|_, _| ())).unwrap();
    let user = Credentials::new(library, 0, 0, &[].into()).unwrap();
    Native { mount, user }
}

impl Native {
    /// Makes a directory below the root.
    pub(crate) fn make_directory(&self, name: &str) -> CephInode {
        let name = CString::new(name).unwrap();
        let root = self.mount.root().unwrap();
        let made = root.create(&name, NewInode::Directory, 0o755, &self.user).unwrap().0;
        // Without a manager the cluster does not know its size, so the quota is the size.
        made.set_xattr(c"ceph.quota.max_bytes", QUOTA.to_string().as_bytes(), XattrFlag::Either, &self.user)
            .unwrap();
        made
    }
}

/// Returns a native client that all tests share.
pub(crate) fn shared_native() -> Option<&'static Native> {
    static NATIVE: OnceLock<Native> = OnceLock::new();
    let cluster = cluster()?;
    Some(NATIVE.get_or_init(|| native(cluster)))
}

/// Makes an empty directory; returns its path and the cluster.
pub(crate) fn directory() -> Option<(String, &'static MiniCeph)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (cluster, native) = (cluster()?, shared_native()?);
    let name = format!("test-{}", NEXT.fetch_add(1, Relaxed));
    native.make_directory(&name);
    Some((format!("/{name}"), cluster))
}

/// Returns attributes that set a mode.
pub(crate) fn mode(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..SetAttributes::default() }
}

/// Makes a file with contents, as the superuser.
pub(crate) fn file(backend: &CephBackend, directory: &ObjectHandle, name: &str, data: &[u8]) -> ObjectHandle {
    let (root, both) = (Caller::root(), OpenAccess { read: true, write: true });
    let (handle, file) = backend.create_file(&root, directory, name.as_bytes(), both, &mode(0o644)).unwrap();
    file.write_at(data, 0).unwrap();
    file.sync().unwrap();
    handle
}

/// Makes a directory, as the superuser.
pub(crate) fn folder(backend: &CephBackend, directory: &ObjectHandle, name: &str) -> ObjectHandle {
    let new = NewObject::Directory;
    backend.create(&Caller::root(), directory, name.as_bytes(), new, &mode(0o755)).unwrap()
}

/// Finds a name, as the superuser.
pub(crate) fn lookup(backend: &CephBackend, directory: &ObjectHandle, name: &str) -> VfsResult<ObjectHandle> {
    backend.lookup(&Caller::root(), directory, name.as_bytes())
}

/// Reads a whole file, as the superuser.
pub(crate) fn content(backend: &CephBackend, file: &ObjectHandle) -> VfsResult<Vec<u8>> {
    let read = OpenAccess { read: true, write: false };
    let opened = backend.open(&Caller::root(), file, read)?;
    let mut data = Vec::new();
    opened.read_at(&mut data, 1 << 20, 0)?;
    Ok(data)
}

/// Opens a directory of the cluster as the administrator of Ceph.
pub(crate) fn open(cluster: &MiniCeph, path: &str, change: impl FnOnce(&mut CephOptions)) -> CephBackend {
    let mut options = CephOptions::new(path);
    options.configuration = cluster.configuration();
    options.user = "admin".to_owned();
    change(&mut options);
    CephBackend::open(&options).unwrap_or_else(|error| panic!("{error}"))
}

/// Makes a snapshot of a directory of a test, as a native client does.
pub(crate) fn snapshot(path: &str, name: &str) {
    let native = shared_native().expect("the cluster runs");
    let root = native.mount.root().unwrap();
    let path = CString::new(path.trim_start_matches('/')).unwrap();
    let (directory, _) = root.lookup(&path, &native.user).unwrap();
    let (all, _) = directory.lookup(c".snap", &native.user).unwrap();
    all.create(&CString::new(name).unwrap(), NewInode::Directory, 0o755, &native.user).unwrap();
}
