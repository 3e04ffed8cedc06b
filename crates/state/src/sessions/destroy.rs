//! DESTROY_SESSION and DESTROY_CLIENTID (RFC 8881 sections 18.37 and 18.50).

use crate::Clients;
use crate::Sessions;
use crate::clients::registry::ClientEnd;
use crate::order::Held;
use crate::{Caller, Clientid4, Effects, Nfsstat4, Result, Sessionid4, StateProtect};
use nfs4::NfsOpnum4;
use std::hash::Hash;

impl<F: Clone + Eq + Hash, O> Sessions<'_, F, O> {
    /// Handles DESTROY_SESSION. `own` is the session of the COMPOUND's SEQUENCE, if it has one: its
    /// one running slot does not count as busy. (That the operation comes last then is for the
    /// server to check.)
    ///
    /// # Errors
    /// NFS4ERR_BADSESSION, NFS4ERR_WRONG_CRED, NFS4ERR_CONN_NOT_BOUND_TO_SESSION, NFS4ERR_DELAY
    /// (other slots are running).
    pub fn destroy_session(
        &self,
        caller: &Caller<'_>,
        sessionid: &Sessionid4,
        own: Option<&Sessionid4>,
    ) -> Result<()> {
        let held = &mut Held::nothing();
        let mut registry = self.state.registry(held);
        let session = self.session(sessionid)?;
        let client = &session.record;
        if client.protect != StateProtect::None && !client.is_spoken_for_by(caller) {
            return Err(Nfsstat4::NFS4ERR_WRONG_CRED);
        }
        // RFC 8881 section 18.37.3 wants a connection that is associated with the session. Without
        // enforcement any counts as one, since a SEQUENCE over it would have been enough: Linux
        // destroys its session over whatever connection it has, by unmount often a new one that has
        // carried none. It takes a refusal for the end of the session, and then asks for ten
        // seconds why its client id is busy.
        session.check_connection(registry.below(), caller.connection)?;
        if !session.activity.close(u32::from(own == Some(sessionid))) {
            return Err(Nfsstat4::NFS4ERR_DELAY);
        }
        self.remove_session(&mut registry, session.key);
        Ok(())
    }
}

impl<F: Clone + Eq + Hash, O> Clients<'_, F, O> {
    /// Handles DESTROY_CLIENTID, which is for the principal that created the client.
    ///
    /// # Errors
    /// NFS4ERR_STALE_CLIENTID, NFS4ERR_CLIENTID_BUSY (sessions or state are left),
    /// NFS4ERR_WRONG_CRED.
    pub fn destroy_clientid(
        &self,
        caller: &Caller<'_>,
        clientid: Clientid4,
        effects: &mut Effects<O>,
    ) -> Result<()> {
        let held = &mut Held::nothing();
        let mut guard = self.state.registry(held);
        let (registry, held) = guard.split();
        let (key, client) = registry.by_id(clientid)?;
        let record = &client.record;
        // Without state protection nothing else says whose the id is, and other flavors than krb5p
        // show it to everybody.
        let enforced = record.enforces(NfsOpnum4::OP_DESTROY_CLIENTID) && !record.is_spoken_for_by(caller);
        if enforced || !record.creator.is(caller) {
            return Err(Nfsstat4::NFS4ERR_WRONG_CRED);
        }
        if !client.sessions.is_empty() || record.holds_state(held) {
            return Err(Nfsstat4::NFS4ERR_CLIENTID_BUSY);
        }
        self.remove_client(&mut guard, key, ClientEnd::Left, effects);
        Ok(())
    }
}
