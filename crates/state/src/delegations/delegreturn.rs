//! The use of a delegation's stateid, and the end of delegations (RFC 8881 sections 9.1.2 and
//! 18.6).

use crate::Delegations;
use crate::clients::{Client, ClientGuard};
use crate::delegations::{Delegation, DelegationMode, DelegationPhase, SEQID};
use crate::order::{ClientLevel, Held};
use crate::slab::SlabKey;
use crate::stateids::{StateRef, check_seqid};
use crate::sync::atomic::Ordering::Relaxed;
use crate::{ClientKey, Effects, Nfsstat4, Result, Stateid4};
use std::hash::Hash;

impl<F: Clone + Eq + Hash, O> Delegations<'_, F, O> {
    /// Handles DELEGRETURN of a delegation on `file`.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_DELEG_REVOKED.
    pub fn delegreturn(
        &self,
        client: ClientKey,
        stateid: &Stateid4,
        file: &F,
        effects: &mut Effects<O>,
    ) -> Result<()> {
        let record = self.state.client(client).map_err(|_| Nfsstat4::NFS4ERR_BAD_STATEID)?;
        let held = &mut Held::nothing();
        let mut client_state = record.lock_any(held);
        let key = self.find_delegation(client, stateid, file, 0)?;
        self.remove_delegation(&record, &mut client_state, key, effects);
        Ok(())
    }

    /// Finds the delegation on `file` that a stateid names, which has to allow `access`.
    pub(crate) fn find_delegation(
        &self,
        client: ClientKey,
        stateid: &Stateid4,
        file: &F,
        access: u32,
    ) -> Result<SlabKey> {
        let StateRef::Delegation(key) = self.state.state_ref(stateid)? else {
            return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
        };
        self.read_delegation(client, key, stateid.seqid, |delegation| {
            if !self.state.is_named(&delegation.file, file) {
                return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
            }
            delegation.mode.check_access(access).map(|()| key)
        })
    }

    /// As [`crate::Opens::read_open`], for delegations; a revoked one is of no use.
    pub(crate) fn read_delegation<R>(
        &self,
        client: ClientKey,
        key: SlabKey,
        seqid: u32,
        run: impl FnOnce(&Delegation<F, O>) -> Result<R>,
    ) -> Result<R> {
        let found = self.state.delegations.table.read(key, |delegation| {
            if delegation.client != client {
                return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
            }
            check_seqid(seqid, SEQID)?;
            match delegation.phase {
                DelegationPhase::Revoked => Err(Nfsstat4::NFS4ERR_DELEG_REVOKED),
                DelegationPhase::Held | DelegationPhase::Recalled { .. } => run(delegation),
            }
        });
        found.unwrap_or_else(|| Err(self.state.revoked.missing(client, StateRef::Delegation(key))))
    }

    /// As [`crate::Opens::access`], with the stateid of a delegation.
    pub(crate) fn delegated_access<R>(
        &self,
        client: ClientKey,
        key: SlabKey,
        seqid: u32,
        file: &F,
        access: u32,
        take: impl FnOnce(&O) -> R,
    ) -> Result<R> {
        self.read_delegation(client, key, seqid, |delegation| {
            if !self.state.is_named(&delegation.file, file) {
                return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
            }
            delegation.mode.check_access(access)?;
            delegation.payload.as_ref().map(take).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)
        })
    }

    /// Returns the key of the client's own delegation on a file.
    pub(crate) fn own_key(
        &self,
        held: &mut Held<ClientLevel>,
        client: ClientKey,
        file: &F,
    ) -> Option<SlabKey> {
        let own = (client, (self.state.view)(file));
        self.state.files.read(held, file).get(file)?.delegations.get(&own).map(|held| held.key)
    }

    /// Removes a delegation, held or revoked, of the client with this state.
    pub(crate) fn remove_delegation(
        &self,
        record: &Client,
        client_state: &mut ClientGuard<'_>,
        key: SlabKey,
        effects: &mut Effects<O>,
    ) {
        let revoked =
            self.state.delegations.table.read(key, |delegation| delegation.phase == DelegationPhase::Revoked);
        self.take_delegation(client_state.below(), key);
        let Some(delegation) = self.state.delegations.table.remove(key) else { return };
        self.state.delegations.count.fetch_sub(1, Relaxed);
        client_state.delegations.remove(&key);
        if revoked == Some(true) {
            self.note_freed(record, client_state);
        }
        effects.closed.extend(delegation.payload);
    }

    /// Removes a delegation from its file, which ends its conflicts. I/O by its stateid has ended
    /// before.
    pub(crate) fn take_delegation(&self, held: &mut Held<ClientLevel>, key: SlabKey) {
        let look = |delegation: &Delegation<F, O>| (delegation.client, delegation.file.clone());
        let Some((client, name)) = self.state.delegations.table.read(key, look) else { return };
        let mut files = self.state.files.lock(held, &name);
        let before = self.state.delegations.table.write(key, |delegation| {
            (std::mem::replace(&mut delegation.phase, DelegationPhase::Revoked), delegation.mode)
        });
        let Some((phase, mode)) = before.filter(|(phase, _)| *phase != DelegationPhase::Revoked) else {
            // Its phase was that before: nothing was changed.
            return;
        };
        if let DelegationPhase::Recalled { until, .. } = phase {
            self.state.delegations.recalls().remove(&(until, key));
        }
        if mode == DelegationMode::Write {
            self.state.delegations.writers.fetch_sub(1, Relaxed);
        }
        if let Some(file) = files.get_mut(&name) {
            file.delegations.remove(&(client, (self.state.view)(&name)));
            if file.is_idle() {
                files.remove(&name);
            }
        }
    }

    /// Removes all delegations of a client.
    pub(crate) fn remove_delegations(
        &self,
        record: &Client,
        client_state: &mut ClientGuard<'_>,
        effects: &mut Effects<O>,
    ) {
        for key in client_state.delegations.clone() {
            self.remove_delegation(record, client_state, key, effects);
        }
    }
}
