//! RENAME (RFC 8881 section 18.26).

use crate::engine::{Change, Compound, Fh, OpResult, names};
use nfs4::Nfsstat4;
use vfs::RenamedObjects;
use xdr::{Decoder, Encoder};

/// Moves a name from the saved directory to the current one.
///
/// # Errors
/// The errors of names, NFS4ERR_NOFILEHANDLE, NFS4ERR_DELAY while others have delegations on the
/// moved or the replaced object, NFS4ERR_GRACE while clients may reclaim the replaced one,
/// NFS4ERR_XDEV between exports and for names on which an export is
/// mounted, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let from_name = names::component(args.opaque(usize::MAX)?)?;
    let to_name = names::component(args.opaque(usize::MAX)?)?;
    let to = c.directory()?;
    let from = match c.progress.saved.as_ref().ok_or(Nfsstat4::NFS4ERR_NOFILEHANDLE)? {
        Fh::Object(from) if from.export.id == to.export.id => from.clone(),
        _ => return Err(Nfsstat4::NFS4ERR_XDEV.into()),
    };
    for (fh, name) in [(&c.progress.saved, from_name), (&c.progress.current, to_name)] {
        if let Some(fh) = fh
            && c.lookup_pseudo(fh, name)?.is_some()
        {
            return Err(Nfsstat4::NFS4ERR_XDEV.into());
        }
    }
    let held = c.hold_names(&[(&from, from_name), (&to, to_name)])?;
    let source = c.begin_change_of_name(&from, from_name)?;
    let from_change = Change::before(&from)?;
    let to_change = if to.handle == from.handle { None } else { Some(Change::before(&to)?) };
    let (caller, backend) = (c.caller(&to), &to.export.backend);
    let names = ((&from.handle, from_name), (&to.handle, to_name));
    // Most new names are free. For others, the delegations of the replaced object come first.
    let renamed = source.as_ref().map(|source| backend.rename_new(&caller, names.0, names.1, source));
    if !renamed.transpose()?.unwrap_or(false) {
        let target = c.begin_change_of_name(&to, to_name)?;
        c.check_last_name(&to, target.as_ref())?;
        let found = source.map(|source| RenamedObjects { source, target });
        backend.rename(&caller, names.0, names.1, found.as_ref())?;
    }
    let from_info = from_change.after(&from);
    reply.value(&from_info).value(&to_change.map_or(from_info, |change| change.after(&to)));
    drop(held);
    // The new name first: a crash in between may leave both names, but never neither.
    c.sync_before_reply(&to)?;
    c.sync_before_reply(&from)
}
