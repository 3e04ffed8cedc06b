//! CREATE_SESSION (RFC 8881 section 18.36): a client id is confirmed and gets a session.

use crate::{CallbackSecurity, Caller, Clientid4, Result, Sessionid4, State};
use std::hash::Hash;
use std::time::Duration;

/// channel_attrs4: what one channel can carry, asked for or granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelAttrs {
    /// ca_headerpadsize, bytes.
    pub header_pad_size: u32,
    /// ca_maxrequestsize, bytes.
    pub request_size: u32,
    /// ca_maxresponsesize, bytes.
    pub response_size: u32,
    /// ca_maxresponsesize_cached, bytes.
    pub response_cached: u32,
    /// ca_maxoperations.
    pub operations: u32,
    /// ca_maxrequests: slots.
    pub requests: u32,
}

/// The arguments of CREATE_SESSION.
#[derive(Clone, Debug)]
pub struct CreateSession {
    /// csa_clientid.
    pub clientid: Clientid4,
    /// csa_sequence.
    pub sequence: u32,
    /// csa_flags.
    pub flags: u32,
    /// csa_fore_chan_attrs.
    pub fore: ChannelAttrs,
    /// csa_back_chan_attrs.
    pub back: ChannelAttrs,
    /// csa_cb_program.
    pub callback_program: u32,
    /// csa_sec_parms.
    pub callback_security: Vec<CallbackSecurity>,
}

/// The results of CREATE_SESSION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateSessionOk {
    /// csr_sessionid.
    pub sessionid: Sessionid4,
    /// csr_sequence.
    pub sequence: u32,
    /// csr_flags.
    pub flags: u32,
    /// csr_fore_chan_attrs.
    pub fore: ChannelAttrs,
    /// csr_back_chan_attrs.
    pub back: ChannelAttrs,
}

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Handles CREATE_SESSION, its replays included. `random` goes into the session id.
    ///
    /// # Errors
    /// NFS4ERR_STALE_CLIENTID, NFS4ERR_CLID_INUSE, NFS4ERR_WRONG_CRED, NFS4ERR_SEQ_MISORDERED, NFS4ERR_INVAL, NFS4ERR_TOOSMALL,
    /// NFS4ERR_NOSPC (too many sessions, or the reply caches are full), NFS4ERR_DELAY.
    pub fn create_session(
        &mut self,
        now: Duration,
        caller: &Caller<'_>,
        args: &CreateSession,
        random: u64,
    ) -> Result<CreateSessionOk> {
        let _ = (now, caller, args, random);
        Err(crate::Nfsstat4::NFS4ERR_SERVERFAULT)
    }
}
