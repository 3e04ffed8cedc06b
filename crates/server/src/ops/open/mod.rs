//! OPEN (RFC 8881 section 18.16).
//!
//! `target` resolves names and creates files. `grant` checks share reservations, opens the
//! backend's file and makes the stateid. `delegate` grants a delegation with it.

mod create;
mod delegate;
mod exclusive;
mod grant;
mod target;

use crate::engine::{Compound, Fh, Object, OpError, OpResult, OpenPayload, RefusedBy};
use nfs4::{
    Bitmap4, Nfsstat4, OPEN4_RESULT_LOCKTYPE_POSIX, OPEN4_RESULT_MAY_NOTIFY_LOCK,
    OPEN4_SHARE_ACCESS_WANT_CANCEL, OPEN4_SHARE_ACCESS_WANT_DELEG_MASK, Open4Args, OpenClaim4, Stateid4,
};
use state::{OpenClaim, Opener};
use xdr::{Decode, Decoder, Encoder};

/// The checked share_access and share_deny.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenShare {
    /// READ 1, WRITE 2.
    access: u32,
    /// READ 1, WRITE 2.
    deny: u32,
    /// The delegation that the client wants; 0 for no preference.
    want: u32,
}

/// READ and WRITE of share_access and share_deny.
const SHARE_BOTH: u32 = 3;
/// Bits of share_access that ask for signals or for kinds of delegations that the server lacks.
/// They have no effect.
const SHARE_HINTS: u32 = 0x0033_0000;

impl OpenShare {
    /// Checks the bits of an OPEN.
    ///
    /// # Errors
    /// NFS4ERR_INVAL for bits and wants that no RFC defines.
    fn check(args: &Open4Args<'_>) -> Result<Self, OpError> {
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

    /// As [`OpenShare::check`] for NFSv4.0, which has no wants.
    ///
    /// # Errors
    /// NFS4ERR_INVAL for any other bit.
    pub(crate) fn check_40(args: &Open4Args<'_>) -> Result<Self, OpError> {
        if !(1..=SHARE_BOTH).contains(&args.share_access) || args.share_deny > SHARE_BOTH {
            return Err(nfs4::Nfsstat4::NFS4ERR_INVAL.into());
        }
        Ok(Self { access: args.share_access, deny: args.share_deny, want: 0 })
    }
}

/// The change_info4 of the directory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DirectoryChange {
    pub(crate) before: u64,
    pub(crate) after: u64,
}

/// The outcome of an OPEN.
pub(crate) struct Opened {
    pub(crate) object: Object,
    pub(crate) stateid: Stateid4,
    /// The files for READ and WRITE.
    payload: OpenPayload,
    /// The attributes that were set.
    pub(crate) attrset: Bitmap4,
    pub(crate) change: DirectoryChange,
}

/// Opens a file, and creates it if the client asks for that.
///
/// # Errors
/// The errors of names, of share reservations, of grace, NFS4ERR_EXIST, NFS4ERR_ISDIR and its kin,
/// NFS4ERR_WRONGSEC, and the backend's.
pub fn run(c: &mut Compound<'_>, args: &mut Decoder<'_>, reply: &mut Encoder) -> OpResult {
    let args = Open4Args::decode(args)?;
    let share = OpenShare::check(&args)?;
    let claim = match &args.claim {
        OpenClaim4::CLAIM_PREVIOUS(_) => OpenClaim::Previous,
        OpenClaim4::CLAIM_DELEGATE_CUR(claim) => OpenClaim::Delegated(c.resolve(claim.delegate_stateid)?),
        OpenClaim4::CLAIM_DELEG_CUR_FH(stateid) => OpenClaim::Delegated(c.resolve(*stateid)?),
        _ => OpenClaim::New,
    };
    let client = c.client()?;
    let Opened { object, stateid, payload, attrset, change } = open(c, &args, share, claim)?;
    // From here on the open itself keeps others from getting delegations.
    c.end_changes();
    let delegation = delegate::grant(c, &object, share, &args.claim, payload);
    c.note_unsynced_open(&object, stateid, delegate::stateid_of(&delegation));
    c.set_current(Fh::Object(object));
    c.progress.stateid = Some(stateid);
    reply.value(&stateid).boolean(false).u64(change.before).u64(change.after);
    let notifies = if c.state().callbacks().can_call_back(client) { OPEN4_RESULT_MAY_NOTIFY_LOCK } else { 0 };
    reply.u32(OPEN4_RESULT_LOCKTYPE_POSIX | notifies).value(&attrset).value(&delegation);
    Ok(())
}

/// Opens the file of a claim. The COMPOUND has the owner's client.
///
/// # Errors
/// As [`run`].
pub(crate) fn open(
    c: &Compound<'_>,
    args: &Open4Args<'_>,
    share: OpenShare,
    claim: OpenClaim,
) -> OpResult<Opened> {
    let (client, owner) = (c.client()?, &args.owner.owner);
    let shared = c.object(Nfsstat4::NFS4ERR_ROFS).is_ok_and(|current| current.key().is_shared());
    let opener = Opener { caller: &c.sender(), owner, claim, shared };
    loop {
        match c.state().opens().open_allowed(c.now(), client, opener) {
            Err(Nfsstat4::NFS4ERR_NOSPC) if c.expired_make_room_for_open()? => {}
            allowed => break allowed.inspect_err(|status| c.note_if_full(*status, RefusedBy::Opens))?,
        }
    }
    if let Ok(place) = c.file(Nfsstat4::NFS4ERR_NOFILEHANDLE) {
        let allowed = c.state().opens().group_allowed(&place, claim);
        allowed.inspect_err(|status| c.note_if_full(*status, RefusedBy::Opens))?;
    }
    let target = target::find(c, args, share)?;
    let (change, attrset) = (target.change, target.attrset);
    let object = target.object.clone();
    let (stateid, payload) = grant::open(c, target, owner, share, claim)?;
    Ok(Opened { object, stateid, payload, attrset, change })
}

/// The attributes that hold the verifier of an exclusive create.
const VERIFIER_ATTRIBUTES: Bitmap4 =
    Bitmap4::of(&[nfs4::FATTR4_TIME_ACCESS_SET, nfs4::FATTR4_TIME_MODIFY_SET]);
