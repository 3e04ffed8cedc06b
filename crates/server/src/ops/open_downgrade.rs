//! OPEN_DOWNGRADE (RFC 8881 section 18.18).

use crate::engine::io::SHARE_READ;
use crate::engine::{Compound, Object, OpResult, OpenPayload};
use nfs4::{Nfsstat4, OpenDowngrade4Args, Stateid4};
use std::sync::Arc;
use vfs::OpenAccess;
use xdr::{Decode, Decoder, Encoder};

/// READ and WRITE of share_access and share_deny.
const SHARE_BOTH: u32 = 3;

/// Drops access or deny bits of an open. One that keeps READ alone lets go of its descriptor for
/// writing.
///
/// # Errors
/// NFS4ERR_INVAL for undefined bits, and the errors of [`state::Opens::open_downgrade`].
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = OpenDowngrade4Args::decode(args)?;
    // Want bits request a delegation, which this operation cannot grant.
    let access = args.share_access & SHARE_BOTH;
    if access == 0 || args.share_deny > SHARE_BOTH {
        return Err(Nfsstat4::NFS4ERR_INVAL.into());
    }
    let stateid = c.resolve(args.open_stateid)?;
    let (client, object) = (c.client()?, c.object(Nfsstat4::NFS4ERR_BAD_STATEID)?);
    let narrowed = if access == SHARE_READ { for_reading(c, object, &stateid) } else { None };
    let (file, share) = (object.key(), (access, args.share_deny));
    let stateid = c.with_effects(|state, effects| {
        state.opens().open_downgrade(client, &stateid, &file, share, narrowed, effects)
    })?;
    c.progress.stateid = Some(stateid);
    reply.value(&stateid);
    Ok(())
}

/// Returns the files of an open without the one for WRITE: local programs cannot execute a file
/// that is open for writing, and no client gets a delegation for reading. `None` where the files
/// stay: there is none for WRITE, or the file cannot be opened again.
fn for_reading(c: &Compound<'_>, object: &Object, stateid: &Stateid4) -> Option<OpenPayload> {
    let client = c.client().ok()?;
    let payload = c.state().opens().access(client, stateid, &object.key(), 0, OpenPayload::clone).ok()?;
    let write = payload.write.as_ref()?;
    let read = match &payload.read {
        Some(read) if !Arc::ptr_eq(read, write) => Arc::clone(read),
        // Another descriptor would break the lease of the client's own delegation.
        _ if c.state().delegations().own_writer(client, &object.key(), |_| ()).is_some() => return None,
        _ => {
            let access = OpenAccess { read: true, write: false };
            object.export.backend.open(&c.caller(object), &object.handle, access).ok()?
        }
    };
    Some(OpenPayload { read: Some(read), write: None, ..payload })
}
