//! OPEN_DOWNGRADE and CLOSE (RFC 8881 sections 18.18 and 18.2), and the end of opens for other reasons.

use crate::opens::next_seqid;
use crate::shares::share;
use crate::slab::Key;
use crate::stateids::StateRef;
use crate::{ClientKey, Effect, Nfsstat4, Result, State, Stateid4};
use std::hash::Hash;

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Handles OPEN_DOWNGRADE on the open of `file`; the payload stays, the access that READ and WRITE have shrinks.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_INVAL (not the union of some of the owner's OPENs).
    pub fn open_downgrade(
        &mut self,
        client: ClientKey,
        stateid: &Stateid4,
        file: &F,
        access: u32,
        deny: u32,
    ) -> Result<Stateid4> {
        let key = self.find_open(client, stateid, file)?;
        let target = share(access, deny)?;
        let open = self.opens.get_mut(key).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
        let kept = open.seen.within(target).ok_or(Nfsstat4::NFS4ERR_INVAL)?;
        let before = std::mem::replace(&mut open.share, target);
        open.seen = kept;
        open.seqid = next_seqid(open.seqid);
        let (file, seqid) = (open.file, open.seqid);
        if let Some(file) = self.files.get_mut(file) {
            file.shares.remove(before);
            file.shares.add(target);
        }
        Ok(self.stateid(StateRef::Open(key), seqid))
    }

    /// Handles CLOSE. Locks made under the open go with it, one of the two choices of RFC 8881 section 18.2.4: a client that
    /// could not unlock, because a ticket had expired, would otherwise never get rid of the open. The payload comes as
    /// an effect; the stateid to return is the invalid special one.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID.
    pub fn close(&mut self, client: ClientKey, stateid: &Stateid4, file: &F) -> Result<Stateid4> {
        let key = self.find_open(client, stateid, file)?;
        self.remove_open(key);
        Ok(Stateid4::INVALID)
    }

    /// Finds the open that an open stateid names, which has to be one of `file`.
    pub(crate) fn find_open(&self, client: ClientKey, stateid: &Stateid4, file: &F) -> Result<Key> {
        let StateRef::Open(key) = self.find_stateid(client, stateid)? else {
            return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
        };
        let open = self.opens.get(key).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
        match self.files.get(open.file) {
            Some(state) if state.name == *file => Ok(key),
            _ => Err(Nfsstat4::NFS4ERR_BAD_STATEID),
        }
    }

    /// Removes an open with its lock stateids; its payload becomes an effect.
    pub(crate) fn remove_open(&mut self, key: Key) {
        let Some(open) = self.opens.get_mut(key) else { return };
        for lock in std::mem::take(&mut open.locks) {
            self.remove_lock_state(lock);
        }
        let Some(open) = self.opens.remove(key) else { return };
        self.opens_by_owner.remove(&(open.owner.index, open.file.index));
        if let Some(client) = self.clients.get_mut(open.client.0) {
            client.opens = client.opens.saturating_sub(1);
        }
        self.release_owner(open.owner);
        if let Some(file) = self.files.get_mut(open.file) {
            file.opens = file.opens.saturating_sub(1);
            file.shares.remove(open.share);
            self.effects.push(Effect::Close { file: file.name.clone(), payload: open.payload });
        }
        self.release_file(open.file);
    }

    /// Removes all opens of a client.
    pub(crate) fn remove_opens_of(&mut self, client: ClientKey) {
        let Some(record) = self.clients.get(client.0) else { return };
        let of_owner = |owner: &Key| self.opens_by_owner.range((owner.index, 0)..=(owner.index, u32::MAX));
        let opens: Vec<Key> = record.open_owners.values().flat_map(of_owner).map(|(_, key)| *key).collect();
        opens.into_iter().for_each(|key| self.remove_open(key));
    }

    /// Counts an owner's use down; with the last one it goes.
    pub(crate) fn release_owner(&mut self, key: Key) {
        let Some(owner) = self.owners.get_mut(key) else { return };
        owner.uses = owner.uses.saturating_sub(1);
        if owner.uses > 0 {
            return;
        }
        if let Some(owner) = self.owners.remove(key)
            && let Some(client) = self.clients.get_mut(owner.client.0)
        {
            // One name can be an open owner's and a lock owner's: the key tells which entry is meant.
            for table in [&mut client.open_owners, &mut client.lock_owners] {
                if table.get(&owner.name) == Some(&key) {
                    table.remove(&owner.name);
                }
            }
        }
    }
}
