//! The suite of all backends, and what is the memory backend's own: its limits.

use super::*;
use crate::conformance::Fixture;

fn fixture() -> Option<Fixture> {
    let backend = Arc::new(MemoryBackend::new(MemoryLimits::default()).unwrap());
    Some(Fixture { backend, owner: Caller::root(), identities: true, keep: Box::new(()) })
}

crate::backend_conformance!(fixture);

fn limited(bytes_max: u64, objects_max: u64) -> Fixture {
    let backend = Arc::new(MemoryBackend::new(MemoryLimits { bytes_max, objects_max }).unwrap());
    Fixture { backend, owner: Caller::root(), identities: true, keep: Box::new(()) }
}

#[test]
fn more_objects_than_the_limit_are_nospc_and_removal_makes_room() {
    let t = limited(1 << 20, 4);
    for name in ["a", "b", "c"] {
        t.file(&t.root(), name);
    }
    let make = || t.backend.create(&t.owner, &t.root(), b"d", NewObject::Fifo, &SetAttributes::default());
    assert_eq!(make(), Err(VfsError::Nospc));
    t.remove(&t.root(), "a").unwrap();
    assert!(make().is_ok());
}

#[test]
fn all_bytes_return_when_everything_is_removed() {
    let t = limited(1 << 22, 100);
    let free = || t.backend.statfs(&t.root()).unwrap();
    let before = free();
    let (_, file) = t.file(&t.root(), "file");
    file.write_at(&[1; 300_000], 5).unwrap();
    let directory = t.directory(&t.root(), "directory");
    let kind = NewObject::Symlink(b"a long target");
    t.backend.create(&t.owner, &directory, b"link", kind, &SetAttributes::default()).unwrap();
    assert!(free().space_free < before.space_free - 300_000);
    t.remove(&directory, "link").unwrap();
    t.remove(&t.root(), "directory").unwrap();
    t.remove(&t.root(), "file").unwrap();
    assert!(free().space_free < before.space_free, "the open file still holds its bytes");
    drop(file);
    assert_eq!(free(), before);
}

#[test]
fn a_handle_of_another_instance_is_stale() {
    let (one, two) = (limited(1 << 20, 9), limited(1 << 20, 9));
    let (object, _) = one.file(&one.root(), "file");
    two.file(&two.root(), "file");
    assert_eq!(two.backend.getattr(&object), Err(VfsError::Stale));
}
