//! SP4_MACH_CRED (RFC 8881 section 2.10.8.3): which principal may send which operation.

use crate::Clients;
use crate::clients::Client;
use crate::{Caller, ClientKey, OpSet, StateProtect};
use nfs4::NfsOpnum4;
use std::hash::Hash;

const fn set(operations: &[NfsOpnum4]) -> OpSet {
    let mut bits = 0;
    let mut i = 0;
    while i < operations.len() {
        bits |= 1 << operations[i] as u32;
        i += 1;
    }
    OpSet(bits)
}

/// The operations that spo_must_enforce may list. The six that RFC 8881 section 18.35.3 requires
/// are among them; operations that need a filehandle are not, since an export could then demand a
/// flavor that the client's list forbids.
pub const MUST_ENFORCE_SUPPORTED: OpSet = set(&[
    NfsOpnum4::OP_DELEGPURGE,
    NfsOpnum4::OP_BACKCHANNEL_CTL,
    NfsOpnum4::OP_BIND_CONN_TO_SESSION,
    NfsOpnum4::OP_EXCHANGE_ID,
    NfsOpnum4::OP_CREATE_SESSION,
    NfsOpnum4::OP_DESTROY_SESSION,
    NfsOpnum4::OP_DESTROY_CLIENTID,
    NfsOpnum4::OP_RECLAIM_COMPLETE,
]);

/// The operations that spo_must_allow may list: a client needs them to return the state of a user
/// with an expired ticket.
///
/// WRITE and COMMIT are left out on purpose: a Linux client that is granted them sends all of its
/// WRITEs with the machine credential and krb5i, so that a mount with krb5p would not keep its data
/// secret.
pub(crate) const MUST_ALLOW_SUPPORTED: OpSet = set(&[
    NfsOpnum4::OP_CLOSE,
    NfsOpnum4::OP_DELEGRETURN,
    NfsOpnum4::OP_LOCKU,
    NfsOpnum4::OP_OPEN_DOWNGRADE,
    NfsOpnum4::OP_FREE_STATEID,
    NfsOpnum4::OP_TEST_STATEID,
]);

impl Client {
    /// Returns whether this operation is refused to callers other than the machine credential.
    pub(crate) fn enforces(&self, operation: NfsOpnum4) -> bool {
        matches!(self.protect, StateProtect::MachCred { must_enforce, .. } if must_enforce.contains(operation as u32))
    }

    /// Returns the operations that this caller may not send for this client: empty except for
    /// SP4_MACH_CRED.
    pub(crate) fn forbids(&self, caller: &Caller<'_>) -> OpSet {
        match self.protect {
            StateProtect::MachCred { must_enforce, .. } if !self.is_spoken_for_by(caller) => must_enforce,
            _ => OpSet::default(),
        }
    }
}

impl<F: Clone + Eq + Hash, O> Clients<'_, F, O> {
    /// Returns whether the caller is the client's machine principal, protected, and the operation
    /// is in spo_must_allow: then flavor and ownership rules of the export do not apply to it (RFC
    /// 8881 section 2.10.8.3).
    pub fn machine_may(&self, client: ClientKey, caller: &Caller<'_>, operation: u32) -> bool {
        self.state.client(client).is_ok_and(|record| match record.protect {
            StateProtect::MachCred { must_allow, .. } => {
                must_allow.contains(operation) && record.is_spoken_for_by(caller)
            }
            StateProtect::None => false,
        })
    }
}
