//! OPEN_DOWNGRADE (RFC 8881 section 18.18).

use crate::engine::{Compound, OpResult};
use nfs4::{Nfsstat4, OpenDowngrade4Args};
use xdr::{Decode, Decoder, Encoder};

/// READ and WRITE of share_access and share_deny.
const SHARE_BOTH: u32 = 3;

/// Drops access or deny bits of an open.
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
    let (client, file) = (c.client()?, c.file(Nfsstat4::NFS4ERR_BAD_STATEID)?);
    let stateid = c.state().opens().open_downgrade(client, &stateid, &file, access, args.share_deny)?;
    c.progress.stateid = Some(stateid);
    reply.value(&stateid);
    Ok(())
}
