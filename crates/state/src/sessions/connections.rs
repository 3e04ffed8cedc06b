//! Associations of connections and sessions (RFC 8881 sections 2.10.3.1 and 18.34).

use crate::Sessions;
use crate::order::{Before, ConnectionLevel, Guard, Held, Leaf, LeafLevel, NothingHeld, RegistryLevel};
use crate::sessions::{Session, SessionConnection};
use crate::slab::SlabKey;
use crate::sync::{Mutex, MutexGuard, RwLockReadGuard, RwLockWriteGuard};
use crate::table::Stripes;
use crate::{Caller, Nfsstat4, Result, Sessionid4, StateProtect};
use image::{ImageError, ensure};
use nfs4::NfsOpnum4;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;

/// channel_dir_from_client4: the requested direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelDirection {
    /// CDFC4_FORE: the fore channel only.
    Fore,
    /// CDFC4_BACK: the backchannel only.
    Back,
    /// CDFC4_FORE_OR_BOTH: the fore channel, and the backchannel if possible.
    ForeOrBoth,
    /// CDFC4_BACK_OR_BOTH: the backchannel, and the fore channel if possible.
    BackOrBoth,
}

/// The direction that BIND_CONN_TO_SESSION granted (channel_dir_from_server4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// CDFS4_FORE: the fore channel only.
    Fore,
    /// CDFS4_BACK: the backchannel only.
    Back,
    /// CDFS4_BOTH: both channels on one connection.
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

impl SessionConnection {
    fn bound(self) -> Bound {
        match (self.fore, self.back) {
            (true, true) => Bound::Both,
            (false, true) => Bound::Back,
            _ => Bound::Fore,
        }
    }
}

impl Session {
    fn connections<'g>(
        &'g self,
        held: &'g mut Held<impl Before<ConnectionLevel>>,
    ) -> Guard<RwLockReadGuard<'g, Vec<SessionConnection>>, ConnectionLevel> {
        self.connections.read(held)
    }

    pub(crate) fn connections_mut<'g>(
        &'g self,
        held: &'g mut Held<impl Before<ConnectionLevel>>,
    ) -> Guard<RwLockWriteGuard<'g, Vec<SessionConnection>>, ConnectionLevel> {
        self.connections.write(held)
    }

    /// Returns the numbers of connections of the fore channel and of the backchannel.
    pub(crate) fn connection_counts(&self, held: &mut Held<impl Before<ConnectionLevel>>) -> (usize, usize) {
        let connections = self.connections(held);
        let count = |of: fn(&SessionConnection) -> bool| connections.iter().filter(|one| of(one)).count();
        (count(|one| one.fore), count(|one| one.back))
    }

    /// Returns a connection that carries callbacks, another than `besides`.
    pub(crate) fn back_connection(
        &self,
        held: &mut Held<impl Before<ConnectionLevel>>,
        besides: Option<u64>,
    ) -> Option<u64> {
        let connections = self.connections(held);
        let carries = |c: &&SessionConnection| c.back && !c.silent && Some(c.id) != besides;
        connections.iter().find(carries).map(|connection| connection.id)
    }

    /// Checks the connection of a SEQUENCE: a client that listed BIND_CONN_TO_SESSION in
    /// spo_must_enforce binds its connections itself.
    pub(crate) fn check_connection(
        &self,
        held: &mut Held<impl Before<ConnectionLevel>>,
        connection: u64,
    ) -> Result<()> {
        let bound = |c: &SessionConnection| c.id == connection && c.fore && c.explicit;
        let enforced = self.record.enforces(NfsOpnum4::OP_BIND_CONN_TO_SESSION);
        if enforced && !self.connections(held).iter().any(bound) {
            return Err(Nfsstat4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
        }
        Ok(())
    }
}

/// The sessions of one connection after another.
type Associations = BTreeMap<u64, Vec<SlabKey>>;

/// The sessions of a connection, so that all of them forget it when it is closed.
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    stripes: Stripes<Leaf<Mutex<Associations>>>,
}

impl ConnectionTable {
    pub(crate) fn new() -> Self {
        Self { stripes: Stripes::new(Leaf::default) }
    }

    /// Locks the part of a connection.
    fn stripe(&self, connection: u64) -> Guard<MutexGuard<'_, Associations>, LeafLevel> {
        self.stripes.of(connection).lock()
    }

    fn associate(&self, connection: u64, session: SlabKey) {
        self.stripe(connection).entry(connection).or_default().push(session);
    }

    /// Removes a session from a connection's list.
    fn forget(&self, connection: u64, session: SlabKey) {
        let mut stripe = self.stripe(connection);
        if let Some(sessions) = stripe.get_mut(&connection) {
            sessions.retain(|other| *other != session);
            if sessions.is_empty() {
                stripe.remove(&connection);
            }
        }
    }

    /// Adds the associations of a restored session.
    pub(super) fn restore(&self, session: &Session) -> core::result::Result<(), ImageError> {
        let mut known = BTreeSet::new();
        for connection in session.connections(&mut Held::nothing()).iter() {
            ensure(known.insert(connection.id), "a connection is associated twice")?;
        }
        known.into_iter().for_each(|connection| self.associate(connection, session.key));
        Ok(())
    }

    fn take(&self, connection: u64) -> Vec<SlabKey> {
        self.stripe(connection).remove(&connection).unwrap_or_default()
    }

    #[cfg(test)]
    pub(crate) fn lens(&self) -> (usize, usize) {
        let stripes = self.stripes.iter().map(Leaf::<Mutex<_>>::lock);
        stripes.fold((0, 0), |(connections, sessions), stripe| {
            (connections + stripe.len(), sessions + stripe.values().map(Vec::len).sum::<usize>())
        })
    }
}

impl<F: Clone + Eq + Hash, O> Sessions<'_, F, O> {
    /// Handles BIND_CONN_TO_SESSION; answer bctsr_use_conn_in_rdma_mode false.
    ///
    /// # Errors
    /// NFS4ERR_BADSESSION, NFS4ERR_WRONG_CRED, NFS4ERR_INVAL (the connection is bound to other
    /// channels).
    pub fn bind_conn_to_session(
        &self,
        caller: &Caller<'_>,
        sessionid: &Sessionid4,
        direction: ChannelDirection,
    ) -> Result<Bound> {
        // So that the session does not go in the middle of it.
        let held = &mut Held::nothing();
        let mut registry = self.state.registry(held);
        let held = registry.below();
        let session = self.session(sessionid)?;
        let client = &session.record;
        if client.protect != StateProtect::None && !client.is_spoken_for_by(caller) {
            return Err(Nfsstat4::NFS4ERR_WRONG_CRED);
        }
        let wanted = direction.best();
        let explicit = |c: &&SessionConnection| c.id == caller.connection && c.explicit;
        let bound = session.connections(held).iter().find(explicit).map(|connection| connection.bound());
        match bound {
            None => {
                self.associate(held, &session, caller.connection, wanted);
                Ok(wanted)
            }
            Some(bound) if direction.accepts(bound) => {
                // The client may say it again because callbacks did not get through.
                self.associate(held, &session, caller.connection, bound);
                Ok(bound)
            }
            Some(_) => Err(Nfsstat4::NFS4ERR_INVAL),
        }
    }

    /// Forgets a connection that is closed.
    pub fn connection_closed(&self, connection: u64) {
        let held = &mut Held::nothing();
        for key in self.state.sessions.connections.take(connection) {
            if let Some(session) = self.state.sessions.table.get(key) {
                let mut connections = session.connections_mut(held);
                connections.retain(|other| other.id != connection);
                session.update_path(&connections);
            }
        }
    }

    /// Associates the connection of a good SEQUENCE with the fore channel, if it is not associated
    /// yet.
    pub(crate) fn associate_by_sequence(
        &self,
        held: &mut Held<NothingHeld>,
        session: &Session,
        connection: u64,
    ) {
        let known =
            |connections: &[SessionConnection]| connections.iter().any(|other| other.id == connection);
        if known(&session.connections(held)) {
            return;
        }
        let mut connections = session.connections_mut(held);
        if !known(&connections) {
            let bound =
                SessionConnection { id: connection, fore: true, back: false, explicit: false, silent: false };
            self.add_connection(session, &mut connections, bound);
        }
    }

    /// Associates a connection because the client asked for it.
    pub(crate) fn associate(
        &self,
        held: &mut Held<RegistryLevel>,
        session: &Session,
        connection: u64,
        bound: Bound,
    ) {
        let (fore, back) = (bound != Bound::Back, bound != Bound::Fore);
        let bound = SessionConnection { id: connection, fore, back, explicit: true, silent: false };
        let mut connections = session.connections_mut(held);
        match connections.iter_mut().find(|other| other.id == connection) {
            Some(existing) => *existing = bound,
            None => self.add_connection(session, &mut connections, bound),
        }
        session.update_path(&connections);
    }

    fn add_connection(
        &self,
        session: &Session,
        connections: &mut Vec<SessionConnection>,
        connection: SessionConnection,
    ) {
        // The session may have been removed under the request that runs.
        if session.activity.is_closed() {
            return;
        }
        connections.push(connection);
        self.state.sessions.connections.associate(connection.id, session.key);
        if connections.len() > self.state.limits.connections_per_session_max.max(1) {
            // The first of equal ones is the oldest. One that the client has bound lost its
            // channels without a word, and recalls their way.
            let places = connections.iter().enumerate();
            let least = places.min_by_key(|(_, other)| (other.back, other.explicit));
            let forgotten = connections.remove(least.map_or(0, |(place, _)| place));
            self.state.sessions.connections.forget(forgotten.id, session.key);
            session.update_path(connections);
        }
    }

    /// Dissolves all associations of a session that is closed for good.
    pub(crate) fn forget_connections(&self, held: &mut Held<RegistryLevel>, session: &Session) {
        let mut connections = session.connections_mut(held);
        let forgotten = std::mem::take(&mut *connections);
        session.update_path(&[]);
        drop(connections);
        for connection in forgotten {
            self.state.sessions.connections.forget(connection.id, session.key);
        }
    }
}
