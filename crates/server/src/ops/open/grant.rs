//! Grants an open: checks share reservations and opens the backend's file.

use super::OpenShare;
use super::target::Target;
use crate::engine::io::{SHARE_READ, SHARE_WRITE};
use crate::engine::{Compound, NfsState, Object, OpResult, OpStop, OpenPayload};
use nfs4::{Nfsstat4, Stateid4};
use state::{OpenClaim, OpenOutcome, OpenRequest};
use std::sync::Arc;
use vfs::{OpenAccess, OpenFile, SetAttributes};

/// Attempts while other OPENs and CLOSEs of the owner change its opens of the file.
const RACES_MAX: usize = 8;

/// Opens the target. Returns its stateid, and the files for READ and WRITE.
///
/// # Errors
/// NFS4ERR_SHARE_DENIED, the errors of grace and reclaim, NFS4ERR_DELAY after too many races with
/// other requests of the owner, and the backend's.
pub(super) fn open(
    c: &Compound<'_>,
    target: Target,
    owner: &[u8],
    share: OpenShare,
    claim: OpenClaim,
) -> OpResult<(Stateid4, OpenPayload)> {
    let (client, file) = (c.client()?, target.object.key());
    let request = OpenRequest {
        owner,
        file: &file,
        access: share.access,
        deny: share.deny,
        claim,
        opener: c.sender(),
        truncates: target.truncate,
    };
    let mut truncate = target.truncate;
    if truncate {
        c.begin_change(&target.object)?;
    }
    for _ in 0..RACES_MAX {
        let check = |state: &NfsState, effects: &mut _| {
            state.opens().open_check(c.now(), client, &request, OpenPayload::clone, effects)
        };
        let (needed, held) = match c.with_effects(check) {
            Err(Nfsstat4::NFS4ERR_SHARE_DENIED | Nfsstat4::NFS4ERR_DELAY) if c.expired_give_way(&file)? => {
                continue;
            }
            Err(Nfsstat4::NFS4ERR_SHARE_DENIED) => return Err(denied(c, &target, share)),
            checked => checked?,
        };
        let opening = Opening { c, target: &target, share, claim, held };
        let payload = opening.payload(needed)?;
        if std::mem::take(&mut truncate) {
            cut(c, &target.object, payload.write.as_ref().filter(|_| share.access & SHARE_WRITE != 0))?;
        }
        let given = payload.clone();
        let open = |state: &NfsState, effects: &mut _| {
            state.opens().open(c.now(), client, &request, given, needed, effects)
        };
        match c.with_effects(open)? {
            OpenOutcome::Opened(stateid) => {
                c.note_grant();
                return Ok((stateid, payload));
            }
            OpenOutcome::Reopen(_) => {}
        }
    }
    Err(Nfsstat4::NFS4ERR_DELAY.into())
}

/// Returns NFS4ERR_ACCESS rather than NFS4ERR_SHARE_DENIED for callers without permission, so that
/// share state does not leak.
fn denied(c: &Compound<'_>, target: &Target, share: OpenShare) -> OpStop {
    let object = &target.object;
    let caller = c.caller(object);
    let backend = &object.export.backend;
    let owns = backend.getattr(&object.handle).is_ok_and(|attributes| attributes.uid == caller.uid);
    let may = backend.access(&caller, &object.handle).is_ok_and(|may| {
        (share.access & SHARE_READ == 0 || may.read || may.execute)
            && (share.access & SHARE_WRITE == 0 || may.write)
    });
    if owns || may { Nfsstat4::NFS4ERR_SHARE_DENIED.into() } else { Nfsstat4::NFS4ERR_ACCESS.into() }
}

/// Truncates an existing file to zero bytes, unless a share reservation denies writing. Without a
/// file that this OPEN has opened for WRITE, the caller's own permissions decide: those that the
/// owner has may be another user's.
fn cut(c: &Compound<'_>, object: &Object, opened: Option<&Arc<dyn OpenFile>>) -> OpResult {
    c.check_writable(object)?;
    let denied = c.check_anonymous(object, SHARE_WRITE);
    if denied.is_err_and(|stop| stop.is(Nfsstat4::NFS4ERR_LOCKED)) {
        return Err(Nfsstat4::NFS4ERR_SHARE_DENIED.into());
    }
    let empty = object.export.backend.getattr(&object.handle)?.size == 0;
    match opened {
        Some(file) => file.set_size(0)?,
        None => {
            let set = SetAttributes { size: Some(0), ..SetAttributes::default() };
            object.export.backend.setattr(&c.caller(object), &object.handle, &set)?;
        }
    }
    if empty { Ok(()) } else { c.sync_before_reply(object) }
}

/// The permission of an access.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenPermission {
    /// The owner had the access before: a reclaim, or the retry of an exclusive create.
    Granted,
    /// The mode of the file decides.
    OfMode,
}

/// The context in which the backend's file is opened.
struct Opening<'o, 'c> {
    c: &'o Compound<'c>,
    target: &'o Target,
    share: OpenShare,
    claim: OpenClaim,
    /// The files that the owner has open already.
    held: Option<OpenPayload>,
}

impl Opening<'_, '_> {
    /// Returns open files for the access bits of this OPEN and of the owner's earlier ones.
    fn payload(&self, needed: u32) -> OpResult<OpenPayload> {
        let mut payload = self.held.clone().unwrap_or_default();
        let user = self.target.object.rule().squash_uid(self.c.call.security.caller.as_ref());
        payload.user = match &self.held {
            Some(held) if held.user != Some(user) => None,
            _ => Some(user),
        };
        if let Some(created) = &self.target.created {
            put(&mut payload, created, self.share.access | SHARE_READ);
        } else if missing(&payload, self.share.access) != 0 || self.permission() == OpenPermission::OfMode {
            // The file's mode must allow the access of this OPEN, even if such a file is open
            // already.
            self.add(&mut payload, self.share.access, self.permission())?;
        }
        let more = missing(&payload, needed);
        if more != 0 {
            self.add(&mut payload, more, OpenPermission::Granted)?;
        }
        Ok(payload)
    }

    /// Adds an open file for these access bits to the payload.
    fn add(&self, payload: &mut OpenPayload, bits: u32, permission: OpenPermission) -> OpResult {
        match self.open(bits, permission) {
            Ok(file) => put(payload, &file, bits),
            Err(stop) if stop.is(Nfsstat4::NFS4ERR_STALE) => {
                let OpenPayload { read, write, .. } = self.delegated(bits).ok_or(stop)?;
                payload.read = read.or(payload.read.take());
                payload.write = write.or(payload.write.take());
            }
            Err(stop) => return Err(stop),
        }
        Ok(())
    }

    /// Returns the files of the delegation that the OPEN claims, for these access bits: a file
    /// without names cannot be opened again, and the client would lose the opens that it has
    /// granted locally. Only the user of the delegation gets them: the file's mode is unknown.
    fn delegated(&self, bits: u32) -> Option<OpenPayload> {
        let OpenClaim::Delegated(stateid) = self.claim else { return None };
        let (client, object) = (self.c.client().ok()?, &self.target.object);
        let take = OpenPayload::clone;
        let held = self.c.state().opens().access(client, &stateid, &object.key(), bits, take).ok()?;
        let user = object.rule().squash_uid(self.c.call.security.caller.as_ref());
        let read = held.read.filter(|_| bits & SHARE_READ != 0);
        let write = held.write.filter(|_| bits & SHARE_WRITE != 0);
        let payload = OpenPayload { read, write, ..OpenPayload::default() };
        (held.user == Some(user) && missing(&payload, bits) == 0).then_some(payload)
    }

    /// Returns the permission of the access that this OPEN asks for.
    fn permission(&self) -> OpenPermission {
        // Includes opens that a client has granted locally under its delegation.
        if self.claim != OpenClaim::New || self.target.repeated {
            OpenPermission::Granted
        } else {
            OpenPermission::OfMode
        }
    }

    fn open(&self, bits: u32, permission: OpenPermission) -> OpResult<Arc<dyn OpenFile>> {
        let access = OpenAccess { read: bits & SHARE_READ != 0, write: bits & SHARE_WRITE != 0 };
        let object = &self.target.object;
        if let Some(file) = self.leased(access, permission)? {
            return Ok(file);
        }
        if permission == OpenPermission::Granted {
            return self.c.open_granted(object, access);
        }
        let caller = self.c.caller(object);
        Ok(object.export.backend.open(&caller, &object.handle, access)?)
    }

    /// Returns the file of the client's own write delegation, because opening another descriptor
    /// would break its lease. The caller needs the same permission as for opening.
    fn leased(&self, access: OpenAccess, permission: OpenPermission) -> OpResult<Option<Arc<dyn OpenFile>>> {
        let object = &self.target.object;
        let take = |payload: &OpenPayload| payload.lease.as_ref().and(payload.write.clone());
        let Some(file) =
            self.c.state().delegations().own_writer(self.c.client()?, &object.key(), take).flatten()
        else {
            return Ok(None);
        };
        let caller = self.c.caller(object);
        let may = object.export.backend.access(&caller, &object.handle)?;
        let reads = may.read || may.execute && !access.write;
        let allowed = (reads || !access.read) && (may.write || !access.write);
        let is_granted = permission == OpenPermission::Granted;
        if allowed || is_granted && object.export.backend.getattr(&object.handle)?.uid == caller.uid {
            return Ok(Some(file));
        }
        Err(Nfsstat4::NFS4ERR_ACCESS.into())
    }
}

/// Returns the access bits for which the payload has no file yet.
fn missing(payload: &OpenPayload, bits: u32) -> u32 {
    let mut missing = bits;
    if payload.read.is_some() {
        missing &= !SHARE_READ;
    }
    if payload.write.is_some() {
        missing &= !SHARE_WRITE;
    }
    missing
}

fn put(payload: &mut OpenPayload, file: &Arc<dyn OpenFile>, bits: u32) {
    if bits & SHARE_READ != 0 {
        payload.read = Some(Arc::clone(file));
    }
    if bits & SHARE_WRITE != 0 {
        payload.write = Some(Arc::clone(file));
    }
}
