//! One cluster for all tests of a program, with a new directory for each.

#![allow(dead_code, reason = "each test program uses a part")]

use ceph::fs::{CephFs, Credentials, Inode, Mount, MountOptions, NewObject, XattrFlag};
use miniceph::{MiniCeph, MiniCephError, MiniCephOptions};
use orthrus_vfs_ceph::{CephBackend, CephOptions};
use std::ffi::CString;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Returns the cluster; `None`, with the reason, where Ceph is not installed. It ends with the
/// process.
pub fn cluster() -> Option<&'static MiniCeph> {
    static CLUSTER: OnceLock<Option<MiniCeph>> = OnceLock::new();
    let start = || {
        if let Err(error) = CephFs::load() {
            eprintln!("skipped: {error}");
            return None;
        }
        match MiniCeph::start(&MiniCephOptions::default()) {
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

/// Bytes that each test's directory may hold.
pub const QUOTA: u64 = 64 << 40;

/// A native client of the cluster, as the superuser.
pub struct Native {
    pub mount: Arc<Mount>,
    pub user: Credentials,
}

/// Mounts the root of the file system.
pub fn native(cluster: &MiniCeph) -> Native {
    let library = CephFs::load().unwrap();
    let options = MountOptions {
        configuration: cluster.configuration(),
        user: "admin".to_owned(),
        keyring: None,
        file_system: None,
        path: "/".to_owned(),
        settings: vec![("client_acl_type", "posix_acl".to_owned())],
        identity: None,
    };
    let mount = Mount::open(library, &options, Box::new(|_, _| ())).unwrap();
    let user = Credentials::new(library, 0, 0, &[].into()).unwrap();
    Native { mount, user }
}

impl Native {
    /// Makes a directory below the root.
    pub fn make_directory(&self, name: &str) -> Inode {
        let name = CString::new(name).unwrap();
        let root = self.mount.root().unwrap();
        let made = root.create(&name, NewObject::Directory, 0o755, &self.user).unwrap().0;
        // Without a manager the cluster does not know its size, so the quota is the size.
        made.set_xattr(c"ceph.quota.max_bytes", QUOTA.to_string().as_bytes(), XattrFlag::Either, &self.user)
            .unwrap();
        made
    }
}

/// Makes an empty directory; returns its path and the cluster.
pub fn directory() -> Option<(String, &'static MiniCeph)> {
    static NATIVE: OnceLock<Native> = OnceLock::new();
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let cluster = cluster()?;
    let name = format!("test-{}", NEXT.fetch_add(1, Relaxed));
    NATIVE.get_or_init(|| native(cluster)).make_directory(&name);
    Some((format!("/{name}"), cluster))
}

/// Opens a directory of the cluster as the administrator of Ceph.
pub fn open(cluster: &MiniCeph, path: &str, change: impl FnOnce(&mut CephOptions)) -> CephBackend {
    let mut options = CephOptions::new(path);
    options.configuration = cluster.configuration();
    options.user = "admin".to_owned();
    change(&mut options);
    CephBackend::open(&options).unwrap_or_else(|error| panic!("{error}"))
}
