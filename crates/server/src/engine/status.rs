//! Restricts statuses to the lists of RFC 8881 section 15.2, and for NFSv4.0 of RFC 7530 section
//! 13.2.

use nfs4::{NfsOpnum4, Nfsstat4};

/// Returns substitutes for a status that an operation's list lacks, nearest first.
fn nearest(status: Nfsstat4) -> &'static [Nfsstat4] {
    use Nfsstat4::*;
    match status {
        // Statuses of NFSv4.1 only; DEADSESSION stands for a client removed while its request ran.
        NFS4ERR_DEADSESSION => &[NFS4ERR_EXPIRED, NFS4ERR_STALE_CLIENTID],
        NFS4ERR_REP_TOO_BIG => &[NFS4ERR_RESOURCE],
        // Some operations of NFSv4.0 have no other status that makes the client retry.
        NFS4ERR_DELAY => &[NFS4ERR_RESOURCE],
        NFS4ERR_BADHANDLE => &[NFS4ERR_STALE],
        NFS4ERR_STALE => &[NFS4ERR_FHEXPIRED],
        NFS4ERR_PERM | NFS4ERR_WRONG_CRED => &[NFS4ERR_ACCESS, NFS4ERR_PERM],
        NFS4ERR_ACCESS => &[NFS4ERR_PERM],
        NFS4ERR_ROFS => &[NFS4ERR_ACCESS, NFS4ERR_PERM],
        NFS4ERR_ISDIR | NFS4ERR_SYMLINK | NFS4ERR_NOTDIR => &[NFS4ERR_WRONG_TYPE, NFS4ERR_INVAL],
        NFS4ERR_WRONG_TYPE => &[NFS4ERR_INVAL, NFS4ERR_NOTDIR],
        NFS4ERR_BADNAME | NFS4ERR_NAMETOOLONG | NFS4ERR_BADCHAR => &[NFS4ERR_INVAL],
        NFS4ERR_XDEV | NFS4ERR_MLINK | NFS4ERR_NOTEMPTY => &[NFS4ERR_INVAL],
        NFS4ERR_FBIG | NFS4ERR_DQUOT => &[NFS4ERR_NOSPC, NFS4ERR_IO],
        NFS4ERR_NOSPC | NFS4ERR_NOTSUPP => &[NFS4ERR_IO],
        NFS4ERR_LOCKED => &[NFS4ERR_SHARE_DENIED, NFS4ERR_FILE_OPEN],
        NFS4ERR_NOENT => &[NFS4ERR_STALE],
        // RESTOREFH of NFSv4.0 has its own error.
        NFS4ERR_NOFILEHANDLE => &[NFS4ERR_RESTOREFH],
        NFS4ERR_TOO_MANY_OPS => &[NFS4ERR_REQ_TOO_BIG],
        _ => &[],
    }
}

/// Returns whether the description of the operation demands a status that its list in section 15.2
/// lacks.
fn demanded(opnum: NfsOpnum4, status: Nfsstat4) -> bool {
    match status {
        // Section 18.35.4, case 9: an update by another principal.
        Nfsstat4::NFS4ERR_PERM => opnum == NfsOpnum4::OP_EXCHANGE_ID,
        // Section 2.10.8.3: an operation of spo_must_enforce by another credential.
        Nfsstat4::NFS4ERR_WRONG_CRED => state::MUST_ENFORCE_SUPPORTED.contains(opnum as u32),
        _ => false,
    }
}

/// Returns the status that the operation may return: `status` itself, the nearest in its list, or
/// NFS4ERR_SERVERFAULT.
pub(crate) fn allowed(minor: u32, opnum: NfsOpnum4, status: Nfsstat4) -> Nfsstat4 {
    let valid = if minor == 0 { nfs4::valid_error_40 } else { nfs4::valid_error };
    if valid(opnum, status) || minor > 0 && demanded(opnum, status) {
        return status;
    }
    tracing::debug!(
        operation = opnum.name(),
        status = status.name(),
        "status is not in the operation's list"
    );
    if minor > 0 && nfs4::is_4_0_only(opnum) {
        // The only status of these operations, at any position (RFC 8881 section 17).
        return Nfsstat4::NFS4ERR_NOTSUPP;
    }
    let near = nearest(status).iter().copied().find(|near| valid(opnum, *near));
    near.unwrap_or(Nfsstat4::NFS4ERR_SERVERFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_of_spo_must_enforce_may_return_wrong_cred() // RFC 8881 section 2.10.8.3
    {
        let wrong = Nfsstat4::NFS4ERR_WRONG_CRED;
        let enforced = (0..128).filter(|number| state::MUST_ENFORCE_SUPPORTED.contains(*number));
        let operations: Vec<_> = enforced.filter_map(NfsOpnum4::from_u32).collect();
        assert_eq!(operations.len(), 8);
        for operation in operations {
            assert_eq!(allowed(1, operation, wrong), wrong, "{}", operation.name());
        }
        assert_eq!(allowed(1, NfsOpnum4::OP_WRITE, wrong), Nfsstat4::NFS4ERR_ACCESS);
    }
}
