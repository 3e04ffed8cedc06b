//! Attributes and their changes.

use super::{Fixture, READ, assert_refused, mode, user};
use crate::{Attributes, FileType, NewObject, SetAttributes, SetTime, Timestamp, VfsError, VfsResult};

/// Type, mode, links, size and times.
pub fn a_new_file_has_sensible_attributes(t: &Fixture) {
    let (object, _) = t.file_of(&t.owner, &t.root(), "file", 0o640);
    let attributes = t.attributes(&object);
    assert_eq!(attributes.file_type, FileType::Regular);
    assert_eq!((attributes.mode, attributes.nlink, attributes.size), (0o640, 1, 0));
    assert_eq!((attributes.uid, attributes.gid), (t.owner.uid, t.owner.gid));
    assert_eq!(attributes.fsid, t.attributes(&t.root()).fsid);
    assert_ne!(attributes.fileid, t.attributes(&t.root()).fileid);
    assert!(attributes.mtime.seconds > 1_600_000_000);
}

/// Runs an action and asserts that the object's change attribute grew.
fn grows(t: &Fixture, object: &crate::ObjectHandle, what: &str, action: impl FnOnce()) {
    let before = t.attributes(object).change;
    action();
    let after = t.attributes(object).change;
    assert!(after > before, "{what}: {before} then {after}");
}

/// RFC 8881 section 5.8.1.4.
pub fn the_change_attribute_moves_on_each_change(t: &Fixture) {
    let (object, file) = t.file(&t.root(), "file");
    for _ in 0..20 {
        grows(t, &object, "write", || assert_eq!(file.write_at(b"x", 0), Ok(1)));
        grows(t, &object, "mode", || assert_eq!(t.set(&object, &mode(0o600)).unwrap().mode, 0o600));
        grows(t, &object, "size", || file.set_size(9).unwrap());
        grows(t, &object, "times", || {
            let now = Some(SetTime::Now);
            t.set(&object, &SetAttributes { atime: now, mtime: now, ..SetAttributes::default() }).unwrap();
        });
        grows(t, &object, "link", || t.backend.link(&t.owner, &object, &t.root(), b"two").unwrap());
        grows(t, &object, "unlink", || t.remove(&t.root(), "two").unwrap());
    }
}

/// Each way to change them.
pub fn a_directory_changes_with_its_entries(t: &Fixture) {
    let root = t.directory(&t.root(), "d");
    for _ in 0..20 {
        grows(t, &root, "create", || drop(t.file(&root, "a")));
        grows(t, &root, "rename", || t.rename((&root, "a"), (&root, "b")).unwrap());
        grows(t, &root, "mkdir", || assert_ne!(t.directory(&root, "c"), root));
        grows(t, &root, "rmdir", || t.remove(&root, "c").unwrap());
        grows(t, &root, "symlink", || {
            t.backend.create(&t.owner, &root, b"s", NewObject::Symlink(b"x"), &mode(0o777)).unwrap();
        });
        grows(t, &root, "remove", || t.remove(&root, "s").unwrap());
        grows(t, &root, "remove", || t.remove(&root, "b").unwrap());
    }
}

/// Else clients would drop their caches.
pub fn reading_does_not_move_the_change_attribute(t: &Fixture) {
    let (object, file) = t.file(&t.root(), "file");
    file.write_at(b"data", 0).unwrap();
    let before = (t.attributes(&object).change, t.attributes(&t.root()).change);
    t.content(&object);
    t.list(&t.root());
    t.lookup(&t.root(), "file").unwrap();
    assert_eq!((t.attributes(&object).change, t.attributes(&t.root()).change), before);
}

fn times(atime: Option<SetTime>, mtime: Option<SetTime>) -> SetAttributes {
    SetAttributes { atime, mtime, ..SetAttributes::default() }
}

/// To the nanosecond, also before 1970 where the file system can, for files, directories and
/// symbolic links.
pub fn times_are_set_to_a_given_value(t: &Fixture) {
    let (file, _) = t.file(&t.root(), "file");
    let kind = NewObject::Symlink(b"file");
    let link = t.backend.create(&t.owner, &t.root(), b"link", kind, &mode(0o777)).unwrap();
    let (a, m) = (
        Timestamp { seconds: -5, nanoseconds: 1 },
        Timestamp { seconds: 2_000_000_000, nanoseconds: 999_999_999 },
    );
    let early = t.set(&file, &times(Some(SetTime::At(a)), None));
    let a = match early {
        Err(VfsError::Inval) => Timestamp { seconds: 5, ..a },
        _ => a,
    };
    for object in [link, t.directory(&t.root(), "d"), file] {
        let set = times(Some(SetTime::At(a)), Some(SetTime::At(m)));
        let attributes = t.set(&object, &set).unwrap();
        assert_eq!((attributes.atime, attributes.mtime), (a, m));
    }
    let only = t.set(&file, &times(None, Some(SetTime::At(a)))).unwrap();
    assert_eq!((only.atime, only.mtime), (a, a));
}

/// The times come from the server's clock.
pub fn times_set_to_now_are_recent(t: &Fixture) {
    let (file, _) = t.file(&t.root(), "file");
    let old = Some(SetTime::At(Timestamp { seconds: 1, nanoseconds: 0 }));
    t.set(&file, &times(old, old)).unwrap();
    let attributes = t.set(&file, &times(Some(SetTime::Now), Some(SetTime::Now))).unwrap();
    assert!(attributes.atime.seconds > 1_600_000_000 && attributes.mtime.seconds > 1_600_000_000);
}

/// The rule of utimensat in POSIX.
pub fn times_need_ownership_but_now_needs_write_permission_only(t: &Fixture) {
    if !t.tells_callers_apart() {
        return;
    }
    let (file, _) = t.file(&t.root(), "file");
    t.set(&file, &mode(0o666)).unwrap();
    let bob = user(4002);
    let at = Some(SetTime::At(Timestamp { seconds: 1, nanoseconds: 0 }));
    let now = Some(SetTime::Now);
    assert_eq!(t.backend.setattr(&bob, &file, &times(at, at)), Err(VfsError::Perm));
    assert_refused(t.backend.setattr(&bob, &file, &times(now, at)));
    t.backend.setattr(&bob, &file, &times(now, now)).unwrap();
    t.backend.setattr(&bob, &file, &times(None, now)).unwrap();
    t.backend.setattr(&bob, &file, &times(now, None)).unwrap();
    t.set(&file, &mode(0o644)).unwrap();
    assert_refused(t.backend.setattr(&bob, &file, &times(now, now)));
    assert_refused(t.backend.setattr(&bob, &file, &times(None, now)));
}

/// Size and times by one write.
pub fn a_write_moves_mtime_and_change(t: &Fixture) {
    let (object, file) = t.file(&t.root(), "file");
    let old = Some(SetTime::At(Timestamp { seconds: 1, nanoseconds: 0 }));
    t.set(&object, &times(old, old)).unwrap();
    file.write_at(b"data", 0).unwrap();
    let Attributes { size, mtime, atime, .. } = t.attributes(&object);
    assert!(mtime.seconds > 1_600_000_000);
    assert_eq!((size, atime.seconds), (4, 1));
}

/// A written set-user-id program is another program.
pub fn set_id_bits_are_cleared_by_a_write(t: &Fixture) {
    let (object, _) = t.file(&t.root(), "program");
    t.set(&object, &mode(0o6777)).unwrap();
    assert_eq!(t.attributes(&object).mode, 0o6777);
    let writer = if t.identities { user(4002) } else { t.owner.clone() };
    let file = t.backend.open(&writer, &object, super::WRITE).unwrap();
    file.write_at(b"other code", 0).unwrap();
    assert_eq!(t.attributes(&object).mode, 0o777);
    t.set(&object, &mode(0o6777)).unwrap();
    file.set_size(3).unwrap();
    assert_eq!(t.attributes(&object).mode, 0o777);
    let (_, source) = t.file(&t.root(), "source");
    source.write_at(&[1; 3 * 4096], 0).unwrap();
    let changes: [&dyn Fn() -> VfsResult<()>; 4] = [
        &|| file.allocate(0, 100_000),
        &|| file.deallocate(0, 50_000),
        &|| file.copy_range(&*source, 0, 0, 10_000).map(drop),
        &|| file.clone_range(&*source, 0, 0, 0),
    ];
    for (index, change) in changes.iter().enumerate() {
        t.set(&object, &mode(0o6777)).unwrap();
        match change() {
            Err(VfsError::Notsupp) => {}
            done => {
                done.unwrap();
                assert_eq!(t.attributes(&object).mode, 0o777, "change {index}");
            }
        }
    }
}

/// creat(2) gives a size beside the mode (RFC 8881 section 18.16.3).
pub fn a_new_file_with_a_size_keeps_its_set_id_bits(t: &Fixture) {
    for (name, size) in [("empty", 0), ("grown", 3)] {
        let set = SetAttributes { size: Some(size), ..mode(0o6755) };
        let (object, _) =
            t.backend.create_file(&t.owner, &t.root(), name.as_bytes(), super::WRITE, &set).unwrap();
        let Attributes { mode, size: after, .. } = t.attributes(&object);
        assert_eq!((mode, after), (0o6755, size));
    }
}

/// By the owner and by root alike.
pub fn set_id_bits_are_cleared_by_chown(t: &Fixture) {
    let (object, _) = t.file(&t.root(), "program");
    t.set(&object, &mode(0o6755)).unwrap();
    let gid = t.owner.gid;
    let set = SetAttributes { gid: Some(gid), ..SetAttributes::default() };
    assert_eq!(t.set(&object, &set).unwrap().mode, 0o755);
    let set = SetAttributes { gid: Some(gid), mode: Some(0o4711), ..SetAttributes::default() };
    assert_eq!(t.set(&object, &set).unwrap().mode, 0o4711);
}

/// The process's umask does not change them.
pub fn the_mode_keeps_its_twelve_bits(t: &Fixture) {
    let (file, _) = t.file_of(&t.owner, &t.root(), "file", 0o777);
    let directory = t.directory_of(&t.owner, &t.root(), "d", 0o777);
    assert_eq!((t.attributes(&file).mode, t.attributes(&directory).mode), (0o777, 0o777));
    for bits in [0, 0o111, 0o644, 0o1777, 0o2755, 0o4755, 0o7777] {
        assert_eq!(t.set(&file, &mode(bits)).unwrap().mode, bits);
        assert_eq!(t.set(&directory, &mode(bits)).unwrap().mode, bits);
    }
    let (file, _) = t.file_of(&t.owner, &t.root(), "file2", 0o6755);
    let directory = t.directory_of(&t.owner, &t.root(), "d2", 0o3755);
    assert_eq!((t.attributes(&file).mode, t.attributes(&directory).mode), (0o6755, 0o3755));
}

/// By handle and by open file.
pub fn attributes_of_the_open_file_agree(t: &Fixture) {
    let (object, file) = t.file(&t.root(), "file");
    file.write_at(b"data", 0).unwrap();
    let reader = t.backend.open(&t.owner, &object, READ).unwrap();
    assert_eq!(reader.getattr().unwrap(), t.attributes(&object));
}

/// The figures are plausible: free space is below the total.
pub fn statfs_gives_sizes_and_limits(t: &Fixture) {
    let stat = t.backend.statfs(&t.root()).unwrap();
    assert!(stat.space_total > 0 && stat.space_free <= stat.space_total);
    assert!(stat.space_avail <= stat.space_free && stat.files_free <= stat.files_total);
    assert!(stat.link_max > 1 && stat.file_size_max > 1 << 32);
}
