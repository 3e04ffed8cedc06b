//! DESTROY_SESSION and DESTROY_CLIENTID (RFC 8881 sections 18.37 and 18.50).

use crate::{Caller, Clientid4, Result, Sessionid4, State};
use std::hash::Hash;

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Handles DESTROY_SESSION. `own` is the session of the COMPOUND's SEQUENCE, if it has one: its one running slot
    /// does not count as busy. (That the operation comes last then is for the server to check.)
    ///
    /// # Errors
    /// NFS4ERR_BADSESSION, NFS4ERR_WRONG_CRED, NFS4ERR_CONN_NOT_BOUND_TO_SESSION, NFS4ERR_DELAY (other slots are running).
    pub fn destroy_session(
        &mut self,
        caller: &Caller<'_>,
        sessionid: &Sessionid4,
        own: Option<&Sessionid4>,
    ) -> Result<()> {
        let _ = (caller, sessionid, own);
        Err(crate::Nfsstat4::NFS4ERR_SERVERFAULT)
    }

    /// Handles DESTROY_CLIENTID.
    ///
    /// # Errors
    /// NFS4ERR_STALE_CLIENTID, NFS4ERR_CLIENTID_BUSY (sessions or state are left), NFS4ERR_WRONG_CRED.
    pub fn destroy_clientid(&mut self, caller: &Caller<'_>, clientid: Clientid4) -> Result<()> {
        let _ = (caller, clientid);
        Err(crate::Nfsstat4::NFS4ERR_SERVERFAULT)
    }
}
