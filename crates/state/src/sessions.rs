//! Sessions (RFC 8881 section 2.10): their ids, limits and end.

use crate::slab::Key;
use crate::slots::Slot;
use crate::{CallbackSecurity, ChannelAttrs, ClientKey, Nfsstat4, Result, Sessionid4, State};
use std::hash::Hash;

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: Sessionid4,
    pub(crate) client: ClientKey,
    pub(crate) fore: ChannelAttrs,
    pub(crate) back: ChannelAttrs,
    /// Grows to the highest slot that was used, at most to fore.requests.
    pub(crate) slots: Vec<Slot>,
    pub(crate) running: u32,
    pub(crate) connections: Vec<Connection>,
    pub(crate) callback_program: u32,
    pub(crate) callback_security: Vec<CallbackSecurity>,
    /// Bytes of reply cache set aside for it.
    pub(crate) reserved: usize,
}

/// A connection that is associated with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) id: u64,
    pub(crate) fore: bool,
    pub(crate) back: bool,
    /// By CREATE_SESSION or BIND_CONN_TO_SESSION, not merely by a SEQUENCE that came over it.
    pub(crate) explicit: bool,
}

/// Makes a session id: the start's epoch, the place in the table, and a random part that must match as a whole.
pub(crate) fn sessionid(epoch: u32, index: u32, random: u64) -> Sessionid4 {
    let mut id = [0; 16];
    let bytes = epoch.to_be_bytes().into_iter().chain(index.to_be_bytes()).chain(random.to_be_bytes());
    id.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    id
}

fn index_of(id: &Sessionid4) -> u32 {
    let [_, _, _, _, a, b, c, d, ..] = *id;
    u32::from_be_bytes([a, b, c, d])
}

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    pub(crate) fn session_key(&self, id: &Sessionid4) -> Result<Key> {
        let key = self.sessions.key_at(index_of(id)).ok_or(Nfsstat4::NFS4ERR_BADSESSION)?;
        match self.sessions.get(key) {
            Some(session) if session.id == *id => Ok(key),
            _ => Err(Nfsstat4::NFS4ERR_BADSESSION),
        }
    }

    pub(crate) fn session(&self, id: &Sessionid4) -> Result<(Key, &Session)> {
        let key = self.session_key(id)?;
        self.sessions.get(key).map(|session| (key, session)).ok_or(Nfsstat4::NFS4ERR_BADSESSION)
    }

    /// Returns the client of a session, for operations that name a session without being in it.
    ///
    /// # Errors
    /// NFS4ERR_BADSESSION.
    pub fn client_of_session(&self, id: &Sessionid4) -> Result<ClientKey> {
        self.session(id).map(|(_, session)| session.client)
    }

    /// Removes a session with its reply cache and associations; its client stays.
    pub(crate) fn remove_session(&mut self, key: Key) {
        let Some(session) = self.sessions.remove(key) else { return };
        self.reply_cache_reserved = self.reply_cache_reserved.saturating_sub(session.reserved);
        let cached: usize = session.slots.iter().map(Slot::cached_len).sum();
        self.reply_cache = self.reply_cache.saturating_sub(cached);
        for connection in &session.connections {
            self.forget_association(connection.id, key);
        }
        if let Some(client) = self.clients.get_mut(session.client.0) {
            client.sessions.retain(|other| *other != key);
            client.running = client.running.saturating_sub(session.running);
        }
    }
}
