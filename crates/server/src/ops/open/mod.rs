//! OPEN (RFC 8881 section 18.16).
//!
//! Names are resolved and files created in `target`, then `grant` holds the open against others' share
//! reservations, opens the backend's file and makes the stateid.

mod create;
mod exclusive;
mod grant;
mod target;

use crate::engine::{Compound, Failure, OpResult};
use nfs4::{
    Bitmap4, OPEN4_RESULT_LOCKTYPE_POSIX, OPEN4_SHARE_ACCESS_WANT_CANCEL, OPEN4_SHARE_ACCESS_WANT_DELEG_MASK,
    OPEN4_SHARE_ACCESS_WANT_NO_DELEG, Open4Args, OpenClaim4, OpenDelegationType4, WhyNoDelegation4,
};
use state::OpenClaim;
use xdr::{Decode, Decoder, Encoder};

/// share_access and share_deny as they came, checked.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// READ 1, WRITE 2.
    access: u32,
    /// READ 1, WRITE 2.
    deny: u32,
    /// What delegation the client would like, if it says.
    want: u32,
}

/// READ and WRITE.
const SHARE_BOTH: u32 = 3;
/// Bits of share_access that ask for signals or speak of delegations: there are none, so they change nothing.
const SHARE_HINTS: u32 = 0x0033_0000;

impl Share {
    /// # Errors
    /// NFS4ERR_INVAL for bits and wants that no RFC defines.
    fn check(args: &Open4Args<'_>) -> Result<Self, Failure> {
        let access = args.share_access & SHARE_BOTH;
        let want = args.share_access & OPEN4_SHARE_ACCESS_WANT_DELEG_MASK;
        let unknown = args.share_access & !(SHARE_BOTH | OPEN4_SHARE_ACCESS_WANT_DELEG_MASK | SHARE_HINTS);
        if access == 0
            || unknown != 0
            || want > OPEN4_SHARE_ACCESS_WANT_CANCEL
            || args.share_deny > SHARE_BOTH
        {
            return Err(nfs4::Nfsstat4::NFS4ERR_INVAL.into());
        }
        Ok(Self { access, deny: args.share_deny, want })
    }
}

/// change_info4 of the directory.
#[derive(Clone, Copy, Debug, Default)]
struct DirectoryChange {
    before: u64,
    after: u64,
}

/// Opens a file, creates it if asked.
///
/// # Errors
/// Those of names, of share reservations, of grace, NFS4ERR_EXIST, NFS4ERR_ISDIR and its kin, NFS4ERR_WRONGSEC, and
/// the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Open4Args::decode(args)?;
    let share = Share::check(&args)?;
    let claim = match args.claim {
        OpenClaim4::CLAIM_PREVIOUS(_) => OpenClaim::Previous,
        _ => OpenClaim::New,
    };
    let (client, owner) = (c.client()?, &args.owner.owner);
    c.state().open_allowed(c.now(), client, owner, claim)?;
    let target = target::find(c, &args, share)?;
    let (change, attrset) = (target.change, target.attrset);
    let (fh, stateid) = grant::open(c, target, owner, share, claim)?;
    c.set_current(fh);
    c.stateid = Some(stateid);
    reply.value(&stateid).boolean(false).u64(change.before).u64(change.after);
    reply.u32(OPEN4_RESULT_LOCKTYPE_POSIX).value(&attrset);
    encode_no_delegation(share.want, reply);
    Ok(())
}

/// Says that there is no delegation, and why when the client has said what it wants.
fn encode_no_delegation(want: u32, reply: &mut Encoder) {
    let why = match want {
        0 => {
            reply.u32(OpenDelegationType4::OPEN_DELEGATE_NONE as u32);
            return;
        }
        OPEN4_SHARE_ACCESS_WANT_NO_DELEG => WhyNoDelegation4::WND4_NOT_WANTED,
        OPEN4_SHARE_ACCESS_WANT_CANCEL => WhyNoDelegation4::WND4_CANCELLED,
        _ => WhyNoDelegation4::WND4_NOT_SUPP_FTYPE,
    };
    reply.u32(OpenDelegationType4::OPEN_DELEGATE_NONE_EXT as u32).u32(why as u32);
}

/// The attributes that hold the verifier of an exclusive create.
const VERIFIER_ATTRIBUTES: Bitmap4 =
    Bitmap4::of(&[nfs4::FATTR4_TIME_ACCESS_SET, nfs4::FATTR4_TIME_MODIFY_SET]);
