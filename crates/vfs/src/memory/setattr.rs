//! SETATTR: permission checks and changes.

use super::node::{Body, NodeState, S_ISGID, WRITE};
use crate::{Caller, SetAttributes, SetTime, Timestamp, VfsError, VfsResult};

/// Changes all attributes given, or none.
pub(super) fn apply(inner: &mut NodeState, caller: &Caller, set: &SetAttributes) -> VfsResult<()> {
    check(inner, caller, set)?;
    if let Some(size) = set.size {
        set_size(inner, size)?;
    }
    if set.uid.is_some() || set.gid.is_some() {
        change_owner(inner, set.uid, set.gid);
    }
    if let Some(acls) = &set.acls {
        inner.set_acls(acls.clone())?;
    }
    if let Some(mode) = set.mode {
        inner.set_mode(mode_for(caller, mode, inner.gid));
        inner.touch();
    }
    set_times(inner, set);
    Ok(())
}

fn check(inner: &NodeState, caller: &Caller, set: &SetAttributes) -> VfsResult<()> {
    if set.size.is_some() {
        if !matches!(inner.body, Body::Regular(_)) {
            return Err(if matches!(inner.body, Body::Directory(_)) {
                VfsError::Isdir
            } else {
                VfsError::Inval
            });
        }
        inner.require(caller, WRITE)?;
    }
    check_owner(caller, inner.uid, inner.gid, set)?;
    if set.mode.is_some() || set.acls.is_some() {
        if matches!(inner.body, Body::Symlink(_)) {
            return Err(VfsError::Notsupp);
        }
        if !inner.owned_by(caller) {
            return Err(VfsError::Perm);
        }
    }
    check_times(inner, caller, set)
}

/// Only the superuser gives objects away; an owner may choose among its own groups.
pub(super) fn check_owner(caller: &Caller, uid: u32, gid: u32, set: &SetAttributes) -> VfsResult<()> {
    if caller.uid == 0 || (set.uid.is_none() && set.gid.is_none()) {
        return Ok(());
    }
    let uid_kept = set.uid.is_none_or(|new| new == uid);
    let gid_allowed = set.gid.is_none_or(|new| new == gid || caller.is_member(new));
    if caller.uid == uid && uid_kept && gid_allowed { Ok(()) } else { Err(VfsError::Perm) }
}

/// Times that are "now" need write permission or ownership, anything else ownership.
fn check_times(inner: &NodeState, caller: &Caller, set: &SetAttributes) -> VfsResult<()> {
    match (set.atime, set.mtime) {
        (None, None) => Ok(()),
        _ if inner.owned_by(caller) => Ok(()),
        (None | Some(SetTime::Now), None | Some(SetTime::Now)) => inner.require(caller, WRITE),
        _ => Err(VfsError::Perm),
    }
}

/// Returns the mode that a caller may give: set-group-id only for a group that it is in.
pub(super) fn mode_for(caller: &Caller, mode: u32, gid: u32) -> u32 {
    let keeps = caller.uid == 0 || caller.is_member(gid);
    mode & if keeps { 0o7777 } else { 0o7777 & !S_ISGID }
}

fn change_owner(inner: &mut NodeState, uid: Option<u32>, gid: Option<u32>) {
    inner.uid = uid.unwrap_or(inner.uid);
    inner.gid = gid.unwrap_or(inner.gid);
    if !matches!(inner.body, Body::Directory(_)) {
        inner.drop_set_id();
    }
    inner.touch();
}

/// Cuts or extends a regular file.
pub(super) fn set_size(inner: &mut NodeState, size: u64) -> VfsResult<()> {
    inner.content_mut()?.set_size(size)?;
    inner.drop_set_id();
    inner.touch_data();
    Ok(())
}

fn set_times(inner: &mut NodeState, set: &SetAttributes) {
    if set.atime.is_none() && set.mtime.is_none() {
        return;
    }
    inner.touch();
    let now = inner.ctime;
    let value = |time: SetTime| -> Timestamp {
        match time {
            SetTime::Now => now,
            SetTime::At(time) => time,
        }
    };
    inner.atime = set.atime.map_or(inner.atime, value);
    inner.mtime = set.mtime.map_or(inner.mtime, value);
}
