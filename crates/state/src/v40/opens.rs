//! OPEN_CONFIRM, and the end of owners after CLOSE and RELEASE_LOCKOWNER (RFC 7530 sections 16.18,
//! 16.2 and 16.37).

use super::sequence::Turn;
use super::{OwnerKind, StateOwner};
use crate::V40;
use crate::order::Held;
use crate::slab::SlabKey;
use crate::stateids::StateRef;
use crate::sync::atomic::Ordering::Relaxed;
use crate::{Caller, ClientKey, Effects, Nfsstat4, Principal, Result, Stateid4};
use std::hash::Hash;
use std::sync::Arc;

impl<F: Clone + Eq + Hash, O> V40<'_, F, O> {
    /// Takes note of an OPEN that has been granted. `confirmed` says that its owner needs no
    /// confirmation, for a reclaim. Returns whether the client has to send OPEN_CONFIRM.
    pub fn opened_40(
        &self,
        turn: &mut Turn<'_>,
        stateid: &Stateid4,
        principal: &Principal,
        confirmed: bool,
    ) -> bool {
        if !principal.is_proved()
            && let Ok(record) = self.state.client(turn.owner.client)
            && let Some(v40) = &record.v40
        {
            v40.has_claimed_users.store(true, Relaxed);
        }
        turn.sequence.principal = Some(principal.clone());
        turn.sequence.confirmed |= confirmed;
        if turn.sequence.confirmed {
            return false;
        }
        if let (Ok(StateRef::Open(key)), Ok(record)) =
            (self.state.state_ref(stateid), self.state.client(turn.owner.client))
            && let Some(v40) = &record.v40
        {
            turn.sequence.unconfirmed = Some(key);
            v40.note_unconfirmed(key);
        }
        true
    }

    /// Cancels the OPEN that an owner has not confirmed (RFC 7530 section 16.18.5).
    pub fn cancel_unconfirmed(&self, turn: &mut Turn<'_>, effects: &mut Effects<O>) {
        let Some(key) = turn.sequence.unconfirmed.take() else { return };
        let Ok(record) = self.state.client(turn.owner.client) else { return };
        let held = &mut Held::nothing();
        let mut client_state = record.lock_any(held);
        self.state.opens().remove_open(&mut client_state, key, effects);
        if let Some(v40) = &record.v40 {
            v40.forget_unconfirmed(key);
        }
    }

    /// Handles OPEN_CONFIRM and returns the open's stateid with its next sequence number.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID (not the open that waits for it, or of another file),
    /// NFS4ERR_OLD_STATEID.
    pub fn open_confirm(&self, turn: &mut Turn<'_>, stateid: &Stateid4, file: &F) -> Result<Stateid4> {
        let client = turn.owner.client;
        let key = self.state.opens().find_open(client, stateid, file)?;
        if turn.sequence.unconfirmed != Some(key) {
            return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
        }
        let seqid = self.state.opens.advance_seqid(key);
        let seqid = seqid.ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
        turn.sequence.unconfirmed = None;
        turn.sequence.confirmed = true;
        if let Ok(record) = self.state.client(client)
            && let Some(v40) = &record.v40
        {
            v40.forget_unconfirmed(key);
        }
        Ok(self.state.stateid(StateRef::Open(key), seqid))
    }

    /// Lets a copy of the owner's last request find its reply if that was a CLOSE: `closed` is its
    /// stateid.
    pub fn keep_closed(&self, turn: &mut Turn<'_>, owner: &Arc<StateOwner>, closed: Option<&Stateid4>) {
        let other = closed.map(|stateid| stateid.other);
        if other.is_some() || turn.sequence.closed.is_some() {
            let before = std::mem::replace(&mut turn.sequence.closed, other);
            self.note_closed(owner, before, other);
        }
    }

    /// Handles RELEASE_LOCKOWNER: the owner's lock stateids and its sequence go.
    ///
    /// # Errors
    /// NFS4ERR_LOCKS_HELD, NFS4ERR_EXPIRED, NFS4ERR_STALE_CLIENTID (a caller that is neither of the
    /// client's machine nor the principal of the lock-owner).
    pub fn release_lockowner(
        &self,
        client: ClientKey,
        caller: &Caller<'_>,
        owner: &[u8],
        effects: &mut Effects<O>,
    ) -> Result<()> {
        let record = self.state.client(client).map_err(|_| Nfsstat4::NFS4ERR_EXPIRED)?;
        let v40 = record.v40.as_ref().ok_or(Nfsstat4::NFS4ERR_EXPIRED)?;
        if let Some(known) = v40.find_owner(OwnerKind::Lock, &owner.into())
            && !v40.is_near(&record.creator, caller)
            && known.try_turn().is_none_or(|turn| turn.sequence.principal.as_ref() != Some(caller.principal))
        {
            return Err(Nfsstat4::NFS4ERR_STALE_CLIENTID);
        }
        let held = &mut Held::nothing();
        let mut client_state = record.lock(held).map_err(|_| Nfsstat4::NFS4ERR_EXPIRED)?;
        let (client_state, held) = client_state.split();
        if let Some(key) = client_state.lock_owners.get(owner).copied() {
            let states: Vec<SlabKey> = client_state
                .lock_states
                .range((key, SlabKey::MIN)..=(key, SlabKey::MAX))
                .map(|(_, state)| *state)
                .collect();
            let places: Vec<_> = states
                .iter()
                .filter_map(|state| Some((*state, self.state.locks().lock_of(*state).ok()?.file)))
                .collect();
            let mut holds = |file: &F| {
                let files = self.state.files.read(held, file);
                files.get(file).is_some_and(|file| file.ranges.holds(key))
            };
            if places.iter().any(|(_, file)| holds(file)) {
                return Err(Nfsstat4::NFS4ERR_LOCKS_HELD);
            }
            for (state, name) in places {
                if let Some(file) = self.state.files.lock(held, &name).get_mut(&name) {
                    self.state.locks().remove_lock_state(client_state, &name, file, state, effects);
                }
            }
        }
        self.drop_owner(&record, v40, OwnerKind::Lock, owner);
        Ok(())
    }
}
