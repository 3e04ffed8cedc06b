//! Quotas that directories have.

use crate::common::{directory, folder, lookup, open, shared_native};
use ceph::fs::{NO_SNAPSHOT, XattrFlag};
use vfs::{Backend, Caller, OpenAccess, VfsError};

#[test]
fn the_nearest_quota_counts_and_is_enforced() // RFC 8881 section 5.8.2.28
{
    let Some((path, cluster)) = directory() else { return };
    let backend = open(cluster, &path, |_| ());
    let root = Caller::root();
    let limited = folder(&backend, &backend.root(), "limited");
    let below = folder(&backend, &limited, "below");
    let native = shared_native().unwrap();
    backend.sync_names(&limited, None).unwrap();
    let inode = native.mount.find(backend.getattr(&limited).unwrap().fileid, NO_SNAPSHOT).unwrap();
    let megabyte = (1 << 20).to_string();
    inode.set_xattr(c"ceph.quota.max_bytes", megabyte.as_bytes(), XattrFlag::Either, &native.user).unwrap();
    inode.sync().unwrap();
    let both = OpenAccess { read: true, write: true };
    let (handle, file) =
        backend.create_file(&root, &below, b"file", both, &crate::common::mode(0o644)).unwrap();
    for object in [&limited, &below, &handle] {
        let quota = backend.quota(&root, object).unwrap().unwrap();
        assert_eq!((quota.avail_hard, quota.used), (1 << 20, 0));
    }
    let whole = backend.quota(&root, &backend.root()).unwrap().unwrap();
    assert!(whole.avail_hard > 1 << 40, "{whole:?}");
    assert_eq!(file.write_at(&vec![1; 4 << 20], 0), Err(VfsError::Dquot));
    assert_eq!(file.write_at(&[1; 1000], 0), Ok(1000));
    assert_eq!(lookup(&backend, &below, "file"), Ok(handle));
}
