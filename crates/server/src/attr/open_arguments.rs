//! open_arguments: the supported arguments of OPEN (RFC 9754). Not supported are signals and pushed
//! delegations, times in delegations, and delegations in place of opens.

use nfs4::OpenArgsCreatemode4::*;
use nfs4::OpenArgsOpenClaim4::*;
use nfs4::OpenArgsShareAccess4::*;
use nfs4::OpenArgsShareAccessWant4::*;
use nfs4::OpenArgsShareDeny4::*;
use nfs4::{Bitmap4, OpenArguments4};

/// The value of the attribute, the same for every object.
pub(super) const OPEN_ARGUMENTS: OpenArguments4 = OpenArguments4 {
    oa_share_access: Bitmap4::of(&[
        OPEN_ARGS_SHARE_ACCESS_READ as u32,
        OPEN_ARGS_SHARE_ACCESS_WRITE as u32,
        OPEN_ARGS_SHARE_ACCESS_BOTH as u32,
    ]),
    oa_share_deny: Bitmap4::of(&[
        OPEN_ARGS_SHARE_DENY_NONE as u32,
        OPEN_ARGS_SHARE_DENY_READ as u32,
        OPEN_ARGS_SHARE_DENY_WRITE as u32,
        OPEN_ARGS_SHARE_DENY_BOTH as u32,
    ]),
    oa_share_access_want: Bitmap4::of(&[
        OPEN_ARGS_SHARE_ACCESS_WANT_ANY_DELEG as u32,
        OPEN_ARGS_SHARE_ACCESS_WANT_NO_DELEG as u32,
        OPEN_ARGS_SHARE_ACCESS_WANT_CANCEL as u32,
    ]),
    oa_open_claim: Bitmap4::of(&[
        OPEN_ARGS_OPEN_CLAIM_NULL as u32,
        OPEN_ARGS_OPEN_CLAIM_PREVIOUS as u32,
        OPEN_ARGS_OPEN_CLAIM_DELEGATE_CUR as u32,
        OPEN_ARGS_OPEN_CLAIM_FH as u32,
        OPEN_ARGS_OPEN_CLAIM_DELEG_CUR_FH as u32,
    ]),
    oa_create_mode: Bitmap4::of(&[
        OPEN_ARGS_CREATEMODE_UNCHECKED4 as u32,
        OPEN_ARGS_CREATE_MODE_GUARDED as u32,
        OPEN_ARGS_CREATEMODE_EXCLUSIVE4 as u32,
        OPEN_ARGS_CREATE_MODE_EXCLUSIVE4_1 as u32,
    ]),
};
