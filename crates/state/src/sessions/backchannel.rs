//! The backchannel's parameters (RFC 8881 sections 2.10.3.1 and 18.33).

use crate::Callbacks;
use crate::order::{Before, ConnectionLevel, Guard, Held, LeafLevel};
use crate::sessions::{Callback, Session, nanoseconds};
use crate::sync::MutexGuard;
use crate::{Limits, ListedBackchannel, Nfsstat4, Result, Sessionid4};
use std::hash::Hash;
use std::time::Duration;

/// Operations of a callback: CB_SEQUENCE and one more.
const OPERATIONS: u32 = 2;
/// Bytes of the longest callback: an AUTH_SYS credential with the longest machine name, CB_SEQUENCE
/// with a referring call, and CB_RECALL with the longest filehandle.
const REQUEST_SIZE_MIN: u32 = 768;
/// Bytes of the longest reply that is of interest, that to CB_GETATTR.
const RESPONSE_SIZE_MIN: u32 = 256;
/// The most bytes that RPCSEC_GSS adds: the longest verifier and the longest tokens around the
/// body.
const PROTECTION_SIZE: u32 = 160;

/// callback_sec_parms4: one way to authenticate callbacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallbackSecurity {
    /// AUTH_NONE, without a credential.
    None,
    /// AUTH_SYS with the body to send.
    Sys {
        /// machinename of the AUTH_SYS credential.
        machine: Vec<u8>,
        /// uid of the AUTH_SYS credential.
        uid: u32,
        /// gid of the AUTH_SYS credential.
        gid: u32,
    },
    /// RPCSEC_GSS with handles of contexts that exist on the fore channel.
    Gss {
        /// gcbp_service: the RPCSEC_GSS service.
        service: u32,
        /// gcbp_handle_from_server: the server's context handle.
        handle_from_server: Vec<u8>,
        /// gcbp_handle_from_client: the client's context handle.
        handle_from_client: Vec<u8>,
        /// When the context ends.
        expires: Duration,
    },
}

impl CallbackSecurity {
    /// When the context ends, if it is by one.
    fn expires(&self) -> Option<Duration> {
        match self {
            Self::None | Self::Sys { .. } => None,
            Self::Gss { expires, .. } => Some(*expires),
        }
    }

    /// When the last of the contexts of a list ends, in nanoseconds; zero where there is none.
    pub(crate) fn contexts_until(list: &[Self]) -> u64 {
        list.iter().filter_map(Self::expires).max().map_or(0, |until| nanoseconds(until).max(1))
    }

    /// Bytes that it takes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + 2 * self.longest()
    }

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

    /// Returns the part of a list that is stored: clients choose its length, and the grammar bounds
    /// no handle.
    pub(crate) fn kept(list: &[Self], limits: &Limits) -> Vec<Self> {
        let fit = list.iter().filter(|security| security.longest() <= limits.callback_name_max);
        fit.take(limits.callback_security_max).cloned().collect()
    }
}

/// A session's backchannel as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackChannel {
    /// csa_cb_program or bca_cb_program: the RPC program.
    pub program: u32,
    /// How to authenticate: the first of the client's ways that can be gone.
    pub security: Vec<CallbackSecurity>,
    /// The minor version that the session was made with.
    pub minor_version: u32,
    /// A connection that carries callbacks.
    pub connection: u64,
}

/// Whether a session's backchannel can carry callbacks, given a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ability {
    /// The client can receive callbacks.
    Able,
    /// The client offers no usable authentication, or its limits are too small for a callback.
    Unable,
}

impl Session {
    fn callback(&self) -> Guard<MutexGuard<'_, Callback>, LeafLevel> {
        self.callback.lock()
    }

    pub(crate) fn ability(&self) -> Ability {
        let callback = self.callback();
        let protected = callback.security.iter().any(|security| security.expires().is_some());
        let protection = if protected { PROTECTION_SIZE } else { 0 };
        let fits = self.back.operations >= OPERATIONS
            && self.back.requests > 0
            && self.back.request_size >= REQUEST_SIZE_MIN + protection
            && self.back.response_size >= RESPONSE_SIZE_MIN + protection;
        if fits && !callback.security.is_empty() { Ability::Able } else { Ability::Unable }
    }

    /// Returns the backchannel for a listing, given the number of its connections; `None` if the
    /// client never asked for one.
    pub(crate) fn listed_backchannel(&self, connections: usize) -> Option<ListedBackchannel> {
        let works = self.path.is_up();
        if connections == 0 && !works && !self.path.is_down() {
            return None;
        }
        Some(ListedBackchannel { connections, works, security: self.callback().security.clone() })
    }

    /// Returns the backchannel if it works, by another connection than `besides`.
    pub(crate) fn back_channel(
        &self,
        held: &mut Held<impl Before<ConnectionLevel>>,
        besides: Option<u64>,
    ) -> Option<BackChannel> {
        if self.ability() == Ability::Unable {
            return None;
        }
        let connection = self.back_connection(held, besides)?;
        let Callback { program, security } = self.callback().clone();
        Some(BackChannel { program, security, minor_version: self.minor_version, connection })
    }
}

impl<F: Clone + Eq + Hash, O> Callbacks<'_, F, O> {
    /// Returns the handles (gcbp_handle_from_server) of the contexts that callbacks go by.
    pub fn callback_contexts(&self) -> Vec<Vec<u8>> {
        let mut handles = Vec::new();
        for session in self.state.sessions.all() {
            for security in &session.callback().security {
                if let CallbackSecurity::Gss { handle_from_server, .. } = security {
                    handles.push(handle_from_server.clone());
                }
            }
        }
        handles
    }

    /// Handles BACKCHANNEL_CTL for the session of the COMPOUND's SEQUENCE. It adds ways to
    /// authenticate before the earlier ones; connections that failed are tried again.
    ///
    /// # Errors
    /// NFS4ERR_DEADSESSION when the session is gone.
    pub fn backchannel_ctl(
        &self,
        sessionid: &Sessionid4,
        program: u32,
        security: &[CallbackSecurity],
    ) -> Result<()> {
        let session = self.state.sessions().session(sessionid).map_err(|_| Nfsstat4::NFS4ERR_DEADSESSION)?;
        let mut security = CallbackSecurity::kept(security, &self.state.limits);
        let held = &mut Held::nothing();
        let mut connections = session.connections_mut(held);
        let mut callback = session.callback();
        let earlier: Vec<_> =
            callback.security.drain(..).filter(|earlier| !security.contains(earlier)).collect();
        security.extend(earlier);
        security.truncate(self.state.limits.callback_security_max);
        session.path.set_contexts(CallbackSecurity::contexts_until(&security));
        *callback = Callback { program, security };
        drop(callback);
        connections.iter_mut().for_each(|connection| connection.silent = false);
        session.update_path(&connections);
        Ok(())
    }
}
