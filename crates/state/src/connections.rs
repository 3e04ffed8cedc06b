//! Which connection belongs to which session (RFC 8881 sections 2.10.3.1 and 18.34).

use crate::sessions::{Connection, Session};
use crate::slab::Key;
use crate::{Caller, Nfsstat4, Result, Sessionid4, State, StateProtect};
use nfs4::NfsOpnum4;
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

impl ChannelDirection {
    /// The most that this direction allows.
    fn best(self) -> Bound {
        match self {
            Self::Fore => Bound::Fore,
            Self::Back => Bound::Back,
            Self::ForeOrBoth | Self::BackOrBoth => Bound::Both,
        }
    }

    fn accepts(self, bound: Bound) -> bool {
        match self {
            Self::Fore => bound == Bound::Fore,
            Self::Back => bound == Bound::Back,
            Self::ForeOrBoth => bound != Bound::Back,
            Self::BackOrBoth => bound != Bound::Fore,
        }
    }
}

impl Connection {
    fn bound(self) -> Bound {
        match (self.fore, self.back) {
            (true, true) => Bound::Both,
            (false, true) => Bound::Back,
            _ => Bound::Fore,
        }
    }
}

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Handles BIND_CONN_TO_SESSION; answer bctsr_use_conn_in_rdma_mode false.
    ///
    /// # Errors
    /// NFS4ERR_BADSESSION, NFS4ERR_WRONG_CRED, NFS4ERR_INVAL (the connection is bound to other channels).
    pub fn bind_conn_to_session(
        &mut self,
        caller: &Caller<'_>,
        sessionid: &Sessionid4,
        direction: ChannelDirection,
    ) -> Result<Bound> {
        let (key, session) = self.session(sessionid)?;
        let client = self.client(session.client).map_err(|_| Nfsstat4::NFS4ERR_BADSESSION)?;
        if client.protect != StateProtect::None && !client.is_spoken_for_by(caller) {
            return Err(Nfsstat4::NFS4ERR_WRONG_CRED);
        }
        let wanted = direction.best();
        match session
            .connections
            .iter()
            .find(|connection| connection.id == caller.connection && connection.explicit)
        {
            None => {
                self.associate(key, caller.connection, wanted != Bound::Back, wanted != Bound::Fore);
                Ok(wanted)
            }
            Some(connection) if direction.accepts(connection.bound()) => Ok(connection.bound()),
            Some(_) => Err(Nfsstat4::NFS4ERR_INVAL),
        }
    }

    /// Forgets a connection that is closed.
    pub fn connection_closed(&mut self, connection: u64) {
        for key in self.connections.remove(&connection).unwrap_or_default() {
            if let Some(session) = self.sessions.get_mut(key) {
                session.connections.retain(|other| other.id != connection);
            }
        }
    }

    /// Checks the connection of a SEQUENCE: a client whose spo_must_enforce has BIND_CONN_TO_SESSION binds them itself.
    pub(crate) fn check_connection(&self, session: &Session, connection: u64) -> Result<()> {
        let client = self.client(session.client).map_err(|_| Nfsstat4::NFS4ERR_BADSESSION)?;
        let bound = |c: &Connection| c.id == connection && c.fore && c.explicit;
        if client.enforces(NfsOpnum4::OP_BIND_CONN_TO_SESSION) && !session.connections.iter().any(bound) {
            return Err(Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
        }
        Ok(())
    }

    /// Associates the connection of a good SEQUENCE with the fore channel, if it is not associated yet.
    pub(crate) fn associate_by_sequence(&mut self, key: Key, connection: u64) {
        let Some(session) = self.sessions.get(key) else { return };
        if !session.connections.iter().any(|other| other.id == connection) {
            self.add_connection(key, Connection { id: connection, fore: true, back: false, explicit: false });
        }
    }

    /// Associates a connection because the client asked for it.
    pub(crate) fn associate(&mut self, key: Key, connection: u64, fore: bool, back: bool) {
        let bound = Connection { id: connection, fore, back, explicit: true };
        let Some(session) = self.sessions.get_mut(key) else { return };
        match session.connections.iter_mut().find(|other| other.id == connection) {
            Some(existing) => *existing = bound,
            None => self.add_connection(key, bound),
        }
    }

    fn add_connection(&mut self, key: Key, connection: Connection) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.connections.push(connection);
        let oldest = if session.connections.len() > self.limits.connections_per_session_max.max(1) {
            Some(session.connections.remove(0))
        } else {
            None
        };
        self.connections.entry(connection.id).or_default().push(key);
        if let Some(oldest) = oldest {
            self.forget_association(oldest.id, key);
        }
    }

    /// Removes a session from what is known of a connection.
    pub(crate) fn forget_association(&mut self, connection: u64, session: Key) {
        if let Some(sessions) = self.connections.get_mut(&connection) {
            sessions.retain(|other| *other != session);
            if sessions.is_empty() {
                self.connections.remove(&connection);
            }
        }
    }
}
