//! The statuses of state, checked against the list of each operation's valid errors.

use nfs4::NfsOpnum4::{self, *};
use nfs4::Nfsstat4::{self, *};

/// Every status that a method documents, by the operation that it handles.
const ANSWERS: &[(NfsOpnum4, &[Nfsstat4])] = &[
    (OP_EXCHANGE_ID, &[NFS4ERR_INVAL, NFS4ERR_CLID_INUSE, NFS4ERR_NOENT, NFS4ERR_NOT_SAME, NFS4ERR_DELAY]),
    (
        OP_CREATE_SESSION,
        &[
            NFS4ERR_STALE_CLIENTID,
            NFS4ERR_CLID_INUSE,
            NFS4ERR_WRONG_CRED,
            NFS4ERR_SEQ_MISORDERED,
            NFS4ERR_INVAL,
            NFS4ERR_TOOSMALL,
            NFS4ERR_NOSPC,
        ],
    ),
    (OP_BIND_CONN_TO_SESSION, &[NFS4ERR_BADSESSION, NFS4ERR_INVAL]),
    (
        OP_DESTROY_SESSION,
        &[NFS4ERR_BADSESSION, NFS4ERR_WRONG_CRED, NFS4ERR_CONN_NOT_BOUND_TO_SESSION, NFS4ERR_DELAY],
    ),
    (OP_DESTROY_CLIENTID, &[NFS4ERR_STALE_CLIENTID, NFS4ERR_CLIENTID_BUSY, NFS4ERR_WRONG_CRED]),
    (
        OP_SEQUENCE,
        &[
            NFS4ERR_BADSESSION,
            NFS4ERR_CONN_NOT_BOUND_TO_SESSION,
            NFS4ERR_BADSLOT,
            NFS4ERR_BAD_HIGH_SLOT,
            NFS4ERR_SEQ_MISORDERED,
            NFS4ERR_SEQ_FALSE_RETRY,
            NFS4ERR_RETRY_UNCACHED_REP,
            NFS4ERR_DELAY,
            NFS4ERR_TOO_MANY_OPS,
            NFS4ERR_REQ_TOO_BIG,
        ],
    ),
    (OP_BACKCHANNEL_CTL, &[NFS4ERR_DEADSESSION]),
    (OP_RECLAIM_COMPLETE, &[NFS4ERR_COMPLETE_ALREADY, NFS4ERR_DEADSESSION]),
    (
        OP_OPEN,
        &[
            NFS4ERR_GRACE,
            NFS4ERR_NO_GRACE,
            NFS4ERR_RECLAIM_BAD,
            NFS4ERR_RECLAIM_CONFLICT,
            NFS4ERR_INVAL,
            NFS4ERR_NOSPC,
            NFS4ERR_SHARE_DENIED,
            NFS4ERR_DEADSESSION,
        ],
    ),
    (OP_OPEN_DOWNGRADE, &[NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_INVAL]),
    (OP_CLOSE, &[NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID]),
    (OP_READ, &[NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_OPENMODE, NFS4ERR_LOCKED, NFS4ERR_GRACE]),
    (OP_WRITE, &[NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_OPENMODE, NFS4ERR_LOCKED, NFS4ERR_GRACE]),
    (
        OP_SETATTR,
        &[NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_OPENMODE, NFS4ERR_LOCKED, NFS4ERR_GRACE],
    ),
    (
        OP_LOCK,
        &[
            NFS4ERR_DENIED,
            NFS4ERR_INVAL,
            NFS4ERR_BAD_STATEID,
            NFS4ERR_OLD_STATEID,
            NFS4ERR_OPENMODE,
            NFS4ERR_GRACE,
            NFS4ERR_NO_GRACE,
            NFS4ERR_RECLAIM_BAD,
            NFS4ERR_RECLAIM_CONFLICT,
            NFS4ERR_DELAY,
            NFS4ERR_DEADSESSION,
        ],
    ),
    (OP_LOCKT, &[NFS4ERR_DENIED, NFS4ERR_INVAL, NFS4ERR_GRACE, NFS4ERR_DEADSESSION]),
    (OP_LOCKU, &[NFS4ERR_INVAL, NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_LOCK_RANGE]),
    (OP_FREE_STATEID, &[NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_LOCKS_HELD]),
];

#[test]
fn every_answer_is_in_the_operations_list() {
    // RFC 8881 section 15.2. Two answers that the text of section 18 demands are not in its lists
    // and therefore not here: NFS4ERR_PERM of EXCHANGE_ID (18.35.4, case 9) and NFS4ERR_WRONG_CRED
    // of BIND_CONN_TO_SESSION (18.34.3).
    for (operation, statuses) in ANSWERS {
        for status in *statuses {
            assert!(nfs4::valid_error(*operation, *status), "{operation:?} may not answer {status:?}");
        }
    }
}
