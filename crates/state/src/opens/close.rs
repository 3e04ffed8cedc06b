//! OPEN_DOWNGRADE and CLOSE (RFC 8881 sections 18.18 and 18.2), and the end of opens for other
//! reasons.

use crate::Opens;
use crate::clients::{ClientGuard, ClientState};
use crate::opens::next_seqid;
use crate::opens::shares::share;
use crate::order::Held;
use crate::slab::SlabKey;
use crate::stateids::StateRef;
use crate::sync::atomic::Ordering::Relaxed;
use crate::{ClientKey, Effects, Nfsstat4, Result, Stateid4};
use std::hash::Hash;

impl<F: Clone + Eq + Hash, O> Opens<'_, F, O> {
    /// Handles OPEN_DOWNGRADE on the open of `file`: the access that READ and WRITE have shrinks.
    /// `narrowed` takes the place of the payload, if there is one opened with this access alone.
    /// The payload that is not needed (any more) is among the closed ones of `effects`.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_INVAL (not the union of some of the
    /// owner's OPENs).
    pub fn open_downgrade(
        &self,
        client: ClientKey,
        stateid: &Stateid4,
        file: &F,
        (access, deny): (u32, u32),
        mut narrowed: Option<O>,
        effects: &mut Effects<O>,
    ) -> Result<Stateid4> {
        let stateid = self.shrink(client, stateid, file, (access, deny), &mut narrowed);
        effects.closed.extend(narrowed);
        stateid
    }

    /// Leaves behind the payload that is not needed (any more).
    fn shrink(
        &self,
        client: ClientKey,
        stateid: &Stateid4,
        file: &F,
        (access, deny): (u32, u32),
        narrowed: &mut Option<O>,
    ) -> Result<Stateid4> {
        let record = self.state.client(client).map_err(|_| Nfsstat4::NFS4ERR_BAD_STATEID)?;
        let held = &mut Held::nothing();
        let mut client_state = record.lock_any(held);
        let key = self.find_open(client, stateid, file)?;
        let target = share(access, deny)?;
        let mut files = self.state.files.lock(client_state.below(), file);
        let shrunk = self.state.opens.table.write(key, |open| {
            open.seen = open.seen.within(target).ok_or(Nfsstat4::NFS4ERR_INVAL)?;
            open.seqid = next_seqid(open.seqid);
            if let Some(narrowed) = narrowed.as_mut() {
                std::mem::swap(&mut open.payload, narrowed);
                open.payload_access = access;
            }
            Ok((std::mem::replace(&mut open.share, target), open.seqid))
        });
        let (before, seqid) = shrunk.unwrap_or(Err(Nfsstat4::NFS4ERR_BAD_STATEID))?;
        if let Some(file) = files.get_mut(file) {
            file.shares.remove(before);
            file.shares.add(target);
        }
        Ok(self.state.stateid(StateRef::Open(key), seqid))
    }

    /// Handles CLOSE. Locks made under the open go with it, one of the two choices of RFC 8881
    /// section 18.2.4: a client that could not unlock, because a ticket had expired, would
    /// otherwise never get rid of the open. The stateid to return is the invalid special one.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID.
    pub fn close(
        &self,
        client: ClientKey,
        stateid: &Stateid4,
        file: &F,
        effects: &mut Effects<O>,
    ) -> Result<Stateid4> {
        let record = self.state.client(client).map_err(|_| Nfsstat4::NFS4ERR_BAD_STATEID)?;
        let held = &mut Held::nothing();
        let mut client_state = record.lock_any(held);
        let key = self.find_open(client, stateid, file)?;
        self.remove_open(&mut client_state, key, effects);
        Ok(Stateid4::INVALID)
    }

    /// Finds the open that an open stateid names, which has to be one of `file`.
    pub(crate) fn find_open(&self, client: ClientKey, stateid: &Stateid4, file: &F) -> Result<SlabKey> {
        let StateRef::Open(key) = self.state.state_ref(stateid)? else {
            return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
        };
        self.read_open(client, key, stateid.seqid, |open| match self.state.is_named(&open.file, file) {
            true => Ok(key),
            false => Err(Nfsstat4::NFS4ERR_BAD_STATEID),
        })
    }

    /// Removes an open with its lock stateids. I/O by its stateid ends before others get access
    /// that it denied.
    pub(crate) fn remove_open(
        &self,
        client_state: &mut ClientGuard<'_>,
        key: SlabKey,
        effects: &mut Effects<O>,
    ) {
        let (client_state, held) = client_state.split();
        let Some(file_name) = self.state.opens.table.read(key, |open| open.file.clone()) else { return };
        let mut files = self.state.files.lock(held, &file_name);
        let Some(open) = self.state.opens.table.remove(key) else { return };
        self.state.opens.count.fetch_sub(1, Relaxed);
        client_state.opens.remove(&key);
        open.user.opens.fetch_sub(1, Relaxed);
        open.user.tenant.opens.fetch_sub(1, Relaxed);
        self.state.groups.remove_open(self.state.group_of(&file_name));
        if let Some(file) = files.get_mut(&file_name) {
            for lock in open.locks {
                self.state.locks().remove_lock_state(client_state, &file_name, file, lock, effects);
            }
            file.opens.remove(&(open.owner, (self.state.view)(&file_name)));
            file.shares.remove(open.share);
            if file.is_idle() {
                files.remove(&file_name);
            }
        }
        drop(files);
        self.release_owner(client_state, open.owner);
        client_state.release_user(&open.user);
        effects.closed.push(open.payload);
    }

    /// Removes all opens of a client.
    pub(crate) fn remove_opens(&self, client_state: &mut ClientGuard<'_>, effects: &mut Effects<O>) {
        for key in client_state.opens.clone() {
            self.remove_open(client_state, key, effects);
        }
    }

    /// Counts an owner's use down; with the last one it goes.
    pub(crate) fn release_owner(&self, client_state: &mut ClientState, key: SlabKey) {
        let uses = self.state.opens.owners.write(key, |owner| {
            owner.uses = owner.uses.saturating_sub(1);
            owner.uses
        });
        if uses != Some(0) {
            return;
        }
        if let Some(owner) = self.state.opens.owners.remove(key) {
            // One name can be an open owner's and a lock owner's: the key tells which entry is
            // meant.
            for table in [&mut client_state.open_owners, &mut client_state.lock_owners] {
                if table.get(&owner.name) == Some(&key) {
                    table.remove(&owner.name);
                }
            }
        }
    }
}
