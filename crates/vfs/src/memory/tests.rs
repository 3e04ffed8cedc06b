//! The suite of all backends, and tests of the memory backend's limits.

use super::*;
use crate::conformance::Fixture;

fn fixture() -> Option<Fixture> {
    let backend = Arc::new(MemoryBackend::new(MemoryLimits::default(), [7; 16]).unwrap());
    Some(Fixture { backend, owner: Caller::root(), identities: true, holes: true, keep: Box::new(()) })
}

crate::backend_conformance!(fixture);

fn limited(bytes_max: u64, objects_max: u64) -> Fixture {
    let backend = Arc::new(MemoryBackend::new(MemoryLimits { bytes_max, objects_max }, [7; 16]).unwrap());
    Fixture { backend, owner: Caller::root(), identities: true, holes: true, keep: Box::new(()) }
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
    let instance = |handle_key| {
        let backend = Arc::new(MemoryBackend::new(MemoryLimits::default(), handle_key).unwrap());
        Fixture { backend, owner: Caller::root(), identities: true, holes: true, keep: Box::new(()) }
    };
    let (one, two) = (instance([1; 16]), instance([2; 16]));
    let (object, _) = one.file(&one.root(), "file");
    two.file(&two.root(), "file");
    assert_eq!(two.backend.getattr(&object), Err(VfsError::Stale));
}

#[test]
fn a_name_is_put_back_with_its_object_or_its_absence() {
    let files = Arc::new(MemoryBackend::new(MemoryLimits::default(), [7; 16]).unwrap());
    let t = Fixture {
        backend: files.clone(),
        owner: Caller::root(),
        identities: true,
        holes: true,
        keep: Box::new(()),
    };
    let (object, file) = t.file(&t.root(), "file");
    file.write_at(b"data", 0).unwrap();
    drop(file);
    let directory = t.directory(&t.root(), "directory");
    let [kept, kept_directory] = [&object, &directory].map(|object| files.keep(object).unwrap());
    t.remove(&t.root(), "file").unwrap();
    t.remove(&t.root(), "directory").unwrap();
    let (other, _) = t.file(&t.root(), "file");
    files.put_back(&t.root(), b"file", Some(&kept)).unwrap();
    files.put_back(&t.root(), b"directory", Some(&kept_directory)).unwrap();
    assert_eq!(t.backend.lookup(&t.owner, &t.root(), b"file"), Ok(object));
    assert_eq!(t.backend.getattr(&other), Err(VfsError::Stale));
    let attributes = t.backend.getattr(&object).unwrap();
    assert_eq!((attributes.nlink, attributes.size), (1, 4));
    assert_eq!(t.backend.getattr(&directory).unwrap().nlink, 2);
    assert_eq!(t.backend.getattr(&t.root()).unwrap().nlink, 3);
    files.put_back(&t.root(), b"file", None).unwrap();
    files.put_back(&t.root(), b"directory", None).unwrap();
    assert_eq!(t.backend.lookup(&t.owner, &t.root(), b"file"), Err(VfsError::Noent));
    assert_eq!(t.backend.getattr(&t.root()).unwrap().nlink, 2);
}
