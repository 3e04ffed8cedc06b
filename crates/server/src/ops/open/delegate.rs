//! The delegation granted with an OPEN (RFC 8881 sections 10.4 and 18.16.3).

use super::OpenShare;
use crate::engine::io::{SHARE_READ, SHARE_WRITE};
use crate::engine::{Compound, Delegations, FileKey, NfsState, Object, OpenPayload};
use nfs4::{
    ACE4_ACCESS_ALLOWED_ACE_TYPE, NfsSpaceLimit4, Nfsace4, OPEN4_SHARE_ACCESS_WANT_ANY_DELEG,
    OPEN4_SHARE_ACCESS_WANT_CANCEL, OPEN4_SHARE_ACCESS_WANT_NO_DELEG, OPEN4_SHARE_ACCESS_WANT_READ_DELEG,
    OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG, OpenClaim4, OpenDelegation4, OpenDelegationType4,
    OpenNoneDelegation4, OpenReadDelegation4, OpenWriteDelegation4, WhyNoDelegation4,
};
use state::{Delegated, DelegationMode, DelegationRequest};
use std::sync::Arc;
use vfs::{Broken, LeaseKind, OpenAccess, VfsError};

/// The delegation that an OPEN is to get.
#[derive(Clone, Copy)]
struct DelegationWish {
    mode: DelegationMode,
    /// Whether the client held it before the restart.
    reclaim: bool,
}

/// Grants a delegation on the file just opened, or returns the reason against it if the client has
/// expressed a want.
pub(super) fn grant(
    c: &Compound<'_>,
    object: &Object,
    share: OpenShare,
    claim: &OpenClaim4<'_>,
    payload: OpenPayload,
) -> OpenDelegation4<'static> {
    let wish = match claim {
        OpenClaim4::CLAIM_PREVIOUS(OpenDelegationType4::OPEN_DELEGATE_READ) => {
            DelegationWish { mode: DelegationMode::Read, reclaim: true }
        }
        OpenClaim4::CLAIM_PREVIOUS(OpenDelegationType4::OPEN_DELEGATE_WRITE) => {
            DelegationWish { mode: DelegationMode::Write, reclaim: true }
        }
        OpenClaim4::CLAIM_NULL(_) | OpenClaim4::CLAIM_FH => match wanted(share) {
            Ok(mode) => DelegationWish { mode, reclaim: false },
            Err(why) => return none(share, why),
        },
        // Opens under a delegation, and reclaims of opens without one, get none.
        _ => return OpenDelegation4::OPEN_DELEGATE_NONE,
    };
    match delegate(c, object, share, wish, payload) {
        Ok(delegated) => describe(delegated),
        Err(why) => none(share, why),
    }
}

/// Returns the mode of the delegation that the client wants.
fn wanted(share: OpenShare) -> Result<DelegationMode, WhyNoDelegation4> {
    match share.want {
        OPEN4_SHARE_ACCESS_WANT_NO_DELEG => Err(WhyNoDelegation4::WND4_NOT_WANTED),
        OPEN4_SHARE_ACCESS_WANT_CANCEL => Err(WhyNoDelegation4::WND4_CANCELLED),
        OPEN4_SHARE_ACCESS_WANT_READ_DELEG => Ok(DelegationMode::Read),
        OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG => Ok(DelegationMode::Write),
        // A client that opens only for writing mostly closes the file for good. A delegation would
        // only have to be returned.
        0 if share.access == SHARE_WRITE => Err(WhyNoDelegation4::WND4_RESOURCE),
        // The client has no preference, or wants any delegation.
        _ if share.access & SHARE_WRITE != 0 => Ok(DelegationMode::Write),
        _ => Ok(DelegationMode::Read),
    }
}

fn delegate(
    c: &Compound<'_>,
    object: &Object,
    share: OpenShare,
    DelegationWish { mut mode, reclaim }: DelegationWish,
    mut payload: OpenPayload,
) -> Result<Delegated, WhyNoDelegation4> {
    if !reclaim {
        match c.nfs.choices.delegations() {
            Delegations::None => return Err(WhyNoDelegation4::WND4_RESOURCE),
            Delegations::Read if share.want == OPEN4_SHARE_ACCESS_WANT_ANY_DELEG => {
                mode = DelegationMode::Read;
            }
            Delegations::Read if mode == DelegationMode::Write => {
                return Err(WhyNoDelegation4::WND4_WRITE_DELEG_NOT_SUPP_FTYPE);
            }
            Delegations::Read | Delegations::All => {}
        }
    }
    if mode == DelegationMode::Write && object.rule().read_only {
        return Err(WhyNoDelegation4::WND4_WRITE_DELEG_NOT_SUPP_FTYPE);
    }
    let session = c.progress.session.as_ref().ok_or(WhyNoDelegation4::WND4_RESOURCE)?;
    let (file, token) = (object.key(), session.token.as_ref());
    if !reclaim {
        // Checked before a file is opened or leased in vain.
        c.state().delegations().delegable(c.now(), session.client, &file, mode)?;
    }
    // The stateid of a delegation permits reading, and that of a write delegation writing,
    // independent of the open's access.
    complete(c, object, &mut payload, SHARE_READ)?;
    match mode {
        DelegationMode::Read => payload.write = None,
        DelegationMode::Write => complete(c, object, &mut payload, SHARE_WRITE)?,
    }
    let leased = lease(c, &file, &mut payload, mode);
    if !reclaim {
        leased?;
    }
    let lease = payload.lease.clone();
    let attributes = object.export.backend.getattr(&object.handle);
    let change = attributes.map_err(|_| WhyNoDelegation4::WND4_RESOURCE)?.change;
    let opener = &c.call.security.sender;
    let request = DelegationRequest { file: &file, mode, reclaim, change, opener };
    let delegate = |state: &NfsState, effects: &mut _| {
        state.delegations().delegate(c.now(), session.client, &request, token, payload, effects)
    };
    let mut delegated = c.with_effects(delegate)?;
    // A conflicting access may have happened before the delegation existed and could be recalled,
    // or while the server was down.
    if leased.is_err() || lease.is_some_and(|lease| lease.is_broken()) {
        delegated.recall |= reclaim;
        c.nfs.breaks.push(file, c.nfs.config.limits.recall_time);
    }
    Ok(delegated)
}

/// Takes a lease, so that the file system reports accesses by local processes. Without local
/// processes there is no lease.
fn lease(
    c: &Compound<'_>,
    file: &FileKey,
    payload: &mut OpenPayload,
    mode: DelegationMode,
) -> Result<(), WhyNoDelegation4> {
    let (opened, kind) = match mode {
        DelegationMode::Read => (&payload.read, LeaseKind::Read),
        DelegationMode::Write => (&payload.write, LeaseKind::Write),
    };
    let opened = opened.as_ref().ok_or(WhyNoDelegation4::WND4_RESOURCE)?;
    let (breaks, file) = (c.nfs.breaks.clone(), *file);
    let broken: Broken = Arc::new(move |break_time| breaks.push(file, break_time));
    payload.lease = opened.lease(kind, broken).map_err(|error| match error {
        VfsError::Delay | VfsError::Exhausted => WhyNoDelegation4::WND4_CONTENTION,
        _ => WhyNoDelegation4::WND4_RESOURCE,
    })?;
    Ok(())
}

/// Opens the file for the access that the payload lacks, if its mode permits that to the caller.
fn complete(
    c: &Compound<'_>,
    object: &Object,
    payload: &mut OpenPayload,
    access: u32,
) -> Result<(), WhyNoDelegation4> {
    let (read, write) = (access & SHARE_READ != 0, access & SHARE_WRITE != 0);
    let place = if write { &mut payload.write } else { &mut payload.read };
    if place.is_none() {
        let opened =
            object.export.backend.open(&c.caller(object), &object.handle, OpenAccess { read, write });
        *place = Some(opened.map_err(|_| WhyNoDelegation4::WND4_RESOURCE)?);
    }
    Ok(())
}

/// Returns no delegation, with the reason for clients that have expressed a want.
fn none(share: OpenShare, why: WhyNoDelegation4) -> OpenDelegation4<'static> {
    if share.want == 0 {
        return OpenDelegation4::OPEN_DELEGATE_NONE;
    }
    // Delegations are neither pushed nor signalled later.
    OpenDelegation4::OPEN_DELEGATE_NONE_EXT(match why {
        WhyNoDelegation4::WND4_CONTENTION => OpenNoneDelegation4::WND4_CONTENTION(false),
        WhyNoDelegation4::WND4_RESOURCE => OpenNoneDelegation4::WND4_RESOURCE(false),
        other => OpenNoneDelegation4::Default(other),
    })
}

/// Returns the stateid of a granted delegation.
pub(super) fn stateid_of(delegation: &OpenDelegation4<'_>) -> Option<nfs4::Stateid4> {
    match delegation {
        OpenDelegation4::OPEN_DELEGATE_READ(given) => Some(given.stateid),
        OpenDelegation4::OPEN_DELEGATE_WRITE(given) => Some(given.stateid),
        _ => None,
    }
}

fn describe(delegated: Delegated) -> OpenDelegation4<'static> {
    let Delegated { stateid, mode, recall } = delegated;
    // It permits no open without ACCESS: the file system decides on permissions.
    let permissions = Nfsace4 {
        r#type: ACE4_ACCESS_ALLOWED_ACE_TYPE,
        flag: 0,
        access_mask: 0,
        who: b"EVERYONE@".as_slice().into(),
    };
    if mode == DelegationMode::Read {
        return OpenDelegation4::OPEN_DELEGATE_READ(OpenReadDelegation4 { stateid, recall, permissions });
    }
    // RFC 8881 section 10.4.1: a promise of space must hold for all delegations at once, including
    // quotas, and no file system here reserves space for data not yet sent. So none is promised:
    // the client writes back its data before CLOSE returns, and close() reports a full disk to the
    // program.
    let space_limit = NfsSpaceLimit4::NFS_LIMIT_SIZE(0);
    OpenDelegation4::OPEN_DELEGATE_WRITE(OpenWriteDelegation4 { stateid, recall, space_limit, permissions })
}
