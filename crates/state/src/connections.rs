//! Which connection belongs to which session (RFC 8881 sections 2.10.3.1 and 18.34).

use crate::{Caller, Result, Sessionid4, State};
use std::hash::Hash;

/// channel_dir_from_client4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelDirection {
    /// CDFC4_FORE.
    Fore,
    /// CDFC4_BACK.
    Back,
    /// CDFC4_FORE_OR_BOTH.
    ForeOrBoth,
    /// CDFC4_BACK_OR_BOTH.
    BackOrBoth,
}

/// What BIND_CONN_TO_SESSION made of the connection (channel_dir_from_server4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// CDFS4_FORE.
    Fore,
    /// CDFS4_BACK.
    Back,
    /// CDFS4_BOTH.
    Both,
}

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Handles BIND_CONN_TO_SESSION; answer bctsr_use_conn_in_rdma_mode false.
    ///
    /// # Errors
    /// NFS4ERR_BADSESSION, NFS4ERR_WRONG_CRED.
    pub fn bind_conn_to_session(
        &mut self,
        caller: &Caller<'_>,
        sessionid: &Sessionid4,
        direction: ChannelDirection,
    ) -> Result<Bound> {
        let _ = (caller, sessionid, direction);
        Err(crate::Nfsstat4::NFS4ERR_SERVERFAULT)
    }

    /// Forgets a connection that is closed.
    pub fn connection_closed(&mut self, connection: u64) {
        let _ = connection;
    }
}
