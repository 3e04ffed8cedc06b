//! What the server needs to call a client back (RFC 8881 sections 2.10.3.1 and 18.33).

use crate::sessions::Callback;
use crate::{ChannelAttrs, ClientKey, Limits, Nfsstat4, Result, Sessionid4, State};
use std::hash::Hash;
use std::sync::PoisonError;

/// callback_sec_parms4: one way to authenticate callbacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallbackSecurity {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS with the body to send.
    Sys {
        /// machinename.
        machine: Vec<u8>,
        /// uid.
        uid: u32,
        /// gid.
        gid: u32,
    },
    /// RPCSEC_GSS with handles of contexts that exist on the fore channel.
    Gss {
        /// gcbp_service.
        service: u32,
        /// gcbp_handle_from_server.
        handle_from_server: Vec<u8>,
        /// gcbp_handle_from_client.
        handle_from_client: Vec<u8>,
    },
}

impl CallbackSecurity {
    /// Bytes of the longest string in it.
    fn longest(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Sys { machine, .. } => machine.len(),
            Self::Gss { handle_from_server, handle_from_client, .. } => {
                handle_from_server.len().max(handle_from_client.len())
            }
        }
    }

    /// Returns what is kept of a list: clients choose its length, and the grammar bounds no handle.
    pub(crate) fn kept(list: &[Self], limits: &Limits) -> Vec<Self> {
        let fit = list.iter().filter(|security| security.longest() <= limits.callback_name_max);
        fit.take(limits.callback_security_max).cloned().collect()
    }
}

/// A session's backchannel as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackChannel {
    /// csa_cb_program or bca_cb_program.
    pub program: u32,
    /// The ways to authenticate, in the client's order of preference.
    pub security: Vec<CallbackSecurity>,
    /// The negotiated limits.
    pub attrs: ChannelAttrs,
    /// A connection that carries callbacks.
    pub connection: u64,
}

impl<F: Clone + Eq + Hash, O> State<F, O> {
    /// Handles BACKCHANNEL_CTL for the session that the COMPOUND's SEQUENCE named.
    ///
    /// # Errors
    /// NFS4ERR_DEADSESSION when the session is gone.
    pub fn backchannel_ctl(
        &self,
        sessionid: &Sessionid4,
        program: u32,
        security: &[CallbackSecurity],
    ) -> Result<()> {
        let session = self.session(sessionid).map_err(|_| Nfsstat4::NFS4ERR_DEADSESSION)?;
        let security = CallbackSecurity::kept(security, &self.limits);
        *session.callback.lock().unwrap_or_else(PoisonError::into_inner) = Callback { program, security };
        Ok(())
    }

    /// Returns the first session of the client that has a backchannel with a bound connection.
    pub fn back_channel(&self, client: ClientKey) -> Option<(Sessionid4, BackChannel)> {
        let sessions = self.sessions_of(self.registry().client(client).ok()?);
        sessions.into_iter().find_map(|session| {
            let connection = session.back_connection()?;
            let Callback { program, security } =
                session.callback.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Some((session.id, BackChannel { program, security, attrs: session.back, connection }))
        })
    }
}
