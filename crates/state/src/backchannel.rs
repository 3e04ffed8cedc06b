//! What the server needs to call a client back (RFC 8881 sections 2.10.3.1 and 18.33).

use crate::{ChannelAttrs, ClientKey, Limits, Nfsstat4, Result, Sessionid4, State};
use std::hash::Hash;

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

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Handles BACKCHANNEL_CTL for the session that the COMPOUND's SEQUENCE named.
    ///
    /// # Errors
    /// NFS4ERR_DEADSESSION when the session is gone.
    pub fn backchannel_ctl(
        &mut self,
        sessionid: &Sessionid4,
        program: u32,
        security: &[CallbackSecurity],
    ) -> Result<()> {
        let key = self.session_key(sessionid).map_err(|_| Nfsstat4::NFS4ERR_DEADSESSION)?;
        let session = self.sessions.get_mut(key).ok_or(Nfsstat4::NFS4ERR_DEADSESSION)?;
        session.callback_program = program;
        session.callback_security = CallbackSecurity::kept(security, &self.limits);
        Ok(())
    }

    /// Returns the first session of the client that has a backchannel with a bound connection.
    pub fn back_channel(&self, client: ClientKey) -> Option<(Sessionid4, BackChannel)> {
        let sessions = &self.client(client).ok()?.sessions;
        sessions.iter().filter_map(|key| self.sessions.get(*key)).find_map(|session| {
            let connection = session.connections.iter().find(|connection| connection.back)?.id;
            let channel = BackChannel {
                program: session.callback_program,
                security: session.callback_security.clone(),
                attrs: session.back,
                connection,
            };
            Some((session.id, channel))
        })
    }
}
