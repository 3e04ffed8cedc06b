//! An export of a subdirectory reaches nothing outside.

use crate::common::{content, directory, file, folder, lookup, open};
use vfs::{Backend, Caller, VfsError};

#[test]
fn a_directory_that_was_moved_out_of_the_export_is_stale() {
    let Some((path, cluster)) = directory() else { return };
    let whole = open(cluster, &path, |_| ());
    let exported = folder(&whole, &whole.root(), "exported");
    let outside = folder(&whole, &whole.root(), "outside");
    let moved = folder(&whole, &exported, "moved");
    let below = folder(&whole, &moved, "below");
    let secret = folder(&whole, &outside, "secret");
    let kept = file(&whole, &moved, "file", b"kept");
    whole.sync_names(&moved, None).unwrap();
    let export = || open(cluster, &format!("{path}/exported"), |_| ());
    let first = export();
    assert_eq!(first.root(), exported);
    assert_eq!(first.getattr(&below).map(|_| ()), Ok(()));
    // Handles of the whole file system: the server's signature keeps clients from making them.
    assert_eq!(first.getattr(&secret).err(), Some(VfsError::Stale));
    assert_eq!(first.getattr(&whole.root()).err(), Some(VfsError::Stale));
    whole.rename(&Caller::root(), (&exported, b"moved"), (&outside, b"moved"), None).unwrap();
    whole.sync_names(&outside, None).unwrap();
    let second = export();
    for handle in [&moved, &below] {
        assert_eq!(second.getattr(handle).err(), Some(VfsError::Stale));
        assert_eq!(lookup(&second, handle, "file").err(), Some(VfsError::Stale));
    }
    assert_eq!(content(&second, &kept), Ok(b"kept".to_vec()), "a file keeps its handle");
    whole.rename(&Caller::root(), (&outside, b"moved"), (&exported, b"back"), None).unwrap();
    whole.sync_names(&exported, None).unwrap();
    assert_eq!(second.getattr(&below).map(|_| ()), Ok(()));
}

#[test]
fn the_way_up_ends_at_the_root_of_the_export() {
    let Some((path, cluster)) = directory() else { return };
    let whole = open(cluster, &path, |_| ());
    let (exported, outside) =
        (folder(&whole, &whole.root(), "exported"), folder(&whole, &whole.root(), "outside"));
    let inner = folder(&whole, &exported, "inner");
    whole.sync_names(&exported, None).unwrap();
    let export = open(cluster, &format!("{path}/exported"), |_| ());
    assert_eq!(export.lookup_parent(&Caller::root(), &inner), Ok(export.root()));
    assert_eq!(export.lookup_parent(&Caller::root(), &export.root()), Err(VfsError::Noent));
    // Moved away while the export knows it.
    whole.rename(&Caller::root(), (&exported, b"inner"), (&outside, b"inner"), None).unwrap();
    whole.sync_names(&outside, None).unwrap();
    assert_eq!(export.lookup_parent(&Caller::root(), &inner), Err(VfsError::Stale));
}
