//! OPEN4_CREATE in its four modes (RFC 8881 section 18.16.3).

use super::target::Target;
use super::{DirectoryChange, OpenShare, VERIFIER_ATTRIBUTES, exclusive};
use crate::attr::{self, Settable, Subject};
use crate::engine::io::SHARE_WRITE;
use crate::engine::{Compound, Object, OpResult, regular_file};
use nfs4::{Bitmap4, Createhow4, FATTR4_SIZE, Nfsstat4, Verifier4};
use vfs::{FileType, ObjectHandle, OpenAccess, VfsError};

/// Attempts while a file disappears between lookup and use. After them the client retries.
const RACES_MAX: usize = 4;

/// A createhow4 with decoded attributes.
pub(super) struct Creation {
    mode: Mode,
    settable: Settable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Unchecked,
    Guarded,
    Exclusive(Verifier4),
}

/// Returns whether an existing file is acceptable.
pub(super) fn is_unchecked(how: &Createhow4<'_>) -> bool {
    matches!(how, Createhow4::UNCHECKED4(_))
}

impl Creation {
    /// Decodes the mode and its attributes.
    ///
    /// # Errors
    /// The errors of attributes: NFS4ERR_ATTRNOTSUPP, NFS4ERR_INVAL, NFS4ERR_BADOWNER,
    /// NFS4ERR_BADXDR.
    pub(super) fn decode(c: &Compound<'_>, how: &Createhow4<'_>) -> OpResult<Self> {
        let (mode, attributes) = match how {
            Createhow4::UNCHECKED4(attributes) => (Mode::Unchecked, Some(attributes)),
            Createhow4::GUARDED4(attributes) => (Mode::Guarded, Some(attributes)),
            Createhow4::EXCLUSIVE4(verifier) => (Mode::Exclusive(*verifier), None),
            Createhow4::EXCLUSIVE4_1(create) => (Mode::Exclusive(create.cva_verf), Some(&create.cva_attrs)),
        };
        let mut settable = match attributes {
            Some(attributes) => attr::decode(c, attributes, Some(FileType::Regular))?,
            None => Settable::default(),
        };
        let object = c.object(Nfsstat4::NFS4ERR_ROFS);
        settable.fit_acl(|| {
            let owner = object.map(|directory| c.caller(directory).uid).ok();
            Ok(Subject { directory: false, owner, group: None })
        })?;
        if let Mode::Exclusive(verifier) = mode {
            if !settable.mask.is_subset_of(&attr::EXCLUSIVE_CREATE) {
                return Err(Nfsstat4::NFS4ERR_INVAL.into());
            }
            exclusive::put(verifier, &mut settable.set);
            settable.mask = settable.mask | VERIFIER_ATTRIBUTES;
        }
        Ok(Self { mode, settable })
    }
}

/// Creates the file, or takes an existing one if the mode allows it.
///
/// # Errors
/// NFS4ERR_EXIST, NFS4ERR_ROFS, NFS4ERR_ISDIR and its kin, NFS4ERR_DELAY when others keep creating
/// and removing it, and the backend's.
pub(super) fn find_or_create(
    c: &Compound<'_>,
    directory: &Object,
    name: &[u8],
    creation: &Creation,
    share: OpenShare,
) -> OpResult<Target> {
    let backend = &directory.export.backend;
    let caller = c.caller(directory);
    // Most names are new. An exclusive create costs more, so its retries look first.
    if !matches!(creation.mode, Mode::Exclusive(_)) && !directory.rule().read_only {
        match create(c, directory, name, creation, share) {
            Err(stop) if stop.is(Nfsstat4::NFS4ERR_EXIST) => {}
            created => return created,
        }
    }
    for _ in 0..RACES_MAX {
        match backend.lookup(&caller, &directory.handle, name) {
            Ok(handle) => match take(c, directory, handle, creation) {
                Err(stop) if stop.is(Nfsstat4::NFS4ERR_STALE) => continue,
                taken => return taken,
            },
            Err(VfsError::Noent) => {}
            Err(error) => return Err(error.into()),
        }
        match create(c, directory, name, creation, share) {
            Err(stop) if stop.is(Nfsstat4::NFS4ERR_EXIST) => continue,
            created => return created,
        }
    }
    Err(Nfsstat4::NFS4ERR_DELAY.into())
}

/// Creates a file that does not exist.
fn create(
    c: &Compound<'_>,
    directory: &Object,
    name: &[u8],
    creation: &Creation,
    share: OpenShare,
) -> OpResult<Target> {
    c.check_writable(directory)?;
    let held = c.hold_names(&[(directory, name)])?;
    let backend = &directory.export.backend;
    let before = backend.change_before(&directory.handle)?;
    // The holder of a write delegation may read as well, and then the file need not be opened
    // again.
    let access = OpenAccess { read: true, write: share.access & SHARE_WRITE != 0 };
    let caller = c.caller(directory);
    let (handle, file) =
        backend.create_file(&caller, &directory.handle, name, access, &creation.settable.set)?;
    let after = backend.change_after(&directory.handle, before).unwrap_or(before.wrapping_add(1));
    drop(held);
    let object = directory.other(handle);
    // An exclusive create sets the attributes before the name.
    if !matches!(creation.mode, Mode::Exclusive(_)) && creation.settable.set.follow_the_name() {
        c.sync_before_reply(&object)?;
    }
    c.sync_before_reply(directory)?;
    Ok(Target {
        object,
        created: Some(file),
        truncate: false,
        repeated: false,
        attrset: creation.settable.mask,
        change: DirectoryChange { before, after },
    })
}

/// Takes an existing file, if the mode allows it.
fn take(c: &Compound<'_>, directory: &Object, handle: ObjectHandle, creation: &Creation) -> OpResult<Target> {
    let backend = &directory.export.backend;
    let attributes = backend.getattr(&handle)?;
    let repeated = match creation.mode {
        Mode::Unchecked => false,
        Mode::Guarded => return Err(Nfsstat4::NFS4ERR_EXIST.into()),
        Mode::Exclusive(verifier) if exclusive::matches(verifier, &attributes) => true,
        Mode::Exclusive(_) => return Err(Nfsstat4::NFS4ERR_EXIST.into()),
    };
    regular_file(attributes.file_type)?;
    let change = backend.getattr(&directory.handle)?.change;
    let object = directory.other(handle);
    let mut target = Target::existing(object, DirectoryChange { before: change, after: change });
    if repeated {
        // The first copy may have failed before the sync.
        c.sync_before_reply(directory)?;
        target.repeated = true;
        target.attrset = creation.settable.mask;
    } else if creation.settable.set.size == Some(0) {
        // For an existing file, only a size of zero is set (section 18.16.3).
        target.truncate = true;
        target.attrset = Bitmap4::of(&[FATTR4_SIZE]);
    }
    Ok(target)
}
