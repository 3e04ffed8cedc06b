//! OPEN: open owners, share reservations and the access that READ and WRITE have (RFC 8881 sections 9 and 18.16).

use crate::shares::{Seen, Share, share};
use crate::slab::Key;
use crate::stateids::StateRef;
use crate::{ClientKey, Effect, Nfsstat4, Result, State, Stateid4};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

/// How an OPEN claims its file, as far as state cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenClaim {
    /// CLAIM_NULL, CLAIM_FH and every other new open.
    New,
    /// CLAIM_PREVIOUS: reclaimed after a restart of the server.
    Previous,
}

/// What OPEN asks of state.
#[derive(Clone, Copy, Debug)]
pub struct OpenRequest<'a, F> {
    /// The open owner's bytes; its clientid field is ignored in NFSv4.1.
    pub owner: &'a [u8],
    /// The file: export and handle.
    pub file: &'a F,
    /// share_access: READ 1, WRITE 2, BOTH 3; want bits are ignored.
    pub access: u32,
    /// share_deny: NONE 0 to BOTH 3.
    pub deny: u32,
    /// New or reclaimed.
    pub claim: OpenClaim,
}

impl<F> OpenRequest<'_, F> {
    fn share(&self) -> Result<Share> {
        share(self.access, self.deny)
    }
}

/// What [`State::open`] came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenOutcome {
    /// The file is open; the stateid is for the client.
    Opened(Stateid4),
    /// The owner has the file open with more by now: open the file anew with these access bits and call again.
    /// (The payload given is returned as [`crate::Effect::Close`].)
    Reopen(u32),
}

/// An open owner or a lock owner of a client.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) client: ClientKey,
    pub(crate) name: Arc<[u8]>,
    /// Opens of an open owner, lock stateids of a lock owner.
    pub(crate) uses: usize,
}

/// One open: of one owner on one file, whatever the number of OPENs that made it.
#[derive(Debug)]
pub(crate) struct Open<O> {
    pub(crate) client: ClientKey,
    pub(crate) owner: Key,
    pub(crate) file: Key,
    pub(crate) share: Share,
    /// What was asked for, so that OPEN_DOWNGRADE can be checked.
    pub(crate) seen: Seen,
    pub(crate) seqid: u32,
    pub(crate) payload: O,
    pub(crate) payload_access: u32,
    /// The lock stateids that were made under it.
    pub(crate) locks: Vec<Key>,
}

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Checks what does not depend on the file, so that OPEN can refuse before it creates anything: grace, claim, limits.
    ///
    /// # Errors
    /// NFS4ERR_GRACE, NFS4ERR_NO_GRACE, NFS4ERR_RECLAIM_BAD, NFS4ERR_INVAL, NFS4ERR_NOSPC, NFS4ERR_DEADSESSION.
    pub fn open_allowed(
        &self,
        now: Duration,
        client: ClientKey,
        owner: &[u8],
        claim: OpenClaim,
    ) -> Result<()> {
        self.check_grace(now, client, claim == OpenClaim::Previous)?;
        if owner.len() > self.limits.owner_size_max {
            return Err(Nfsstat4::NFS4ERR_INVAL);
        }
        if self.client(client)?.opens >= self.limits.opens_per_client_max
            || self.opens.len() >= self.limits.opens_max
        {
            return Err(Nfsstat4::NFS4ERR_NOSPC);
        }
        Ok(())
    }

    /// Checks all that [`State::open`] will check and returns the access bits with which the payload has to be opened:
    /// the request's and those that the owner already has on this file.
    ///
    /// # Errors
    /// Those of [`State::open_allowed`], NFS4ERR_SHARE_DENIED, NFS4ERR_RECLAIM_CONFLICT.
    pub fn open_check(&self, now: Duration, client: ClientKey, request: &OpenRequest<'_, F>) -> Result<u32> {
        let share = request.share()?;
        self.open_allowed(now, client, request.owner, request.claim)?;
        let Some(file) = self.files_by_name.get(request.file) else { return Ok(share.access) };
        let own = self.open_of(client, request.owner, *file);
        let own_share = own.and_then(|key| self.opens.get(key)).map(|open| open.share);
        let mut others = self.files.get(*file).map(|file| file.shares).unwrap_or_default();
        others.remove(own_share.unwrap_or_default());
        match request.claim {
            _ if !share.conflicts(others.union()) => Ok(share.access | own_share.unwrap_or_default().access),
            OpenClaim::New => Err(Nfsstat4::NFS4ERR_SHARE_DENIED),
            OpenClaim::Previous => Err(Nfsstat4::NFS4ERR_RECLAIM_CONFLICT),
        }
    }

    /// Returns what the owner's open of this file holds, so that an OPEN for more can keep using it.
    pub fn open_payload(&self, client: ClientKey, owner: &[u8], file: &F) -> Option<O> {
        let key = self.open_of(client, owner, *self.files_by_name.get(file)?)?;
        self.opens.get(key).map(|open| open.payload.clone())
    }

    /// Opens, or widens the owner's open of this file. `payload` is what READ and WRITE will get, opened with
    /// `payload_access`. On any error, and when it is not needed, the payload comes back as an effect.
    ///
    /// # Errors
    /// Those of [`State::open_check`].
    pub fn open(
        &mut self,
        now: Duration,
        client: ClientKey,
        request: &OpenRequest<'_, F>,
        payload: O,
        payload_access: u32,
    ) -> Result<OpenOutcome> {
        let opened = self.open_check(now, client, request).and_then(|needed| Ok((needed, request.share()?)));
        let (needed, share) = match opened {
            Ok(opened) => opened,
            Err(status) => {
                self.give_back(request.file, payload);
                return Err(status);
            }
        };
        let file = self.file_for_open(request.file);
        match self.open_of(client, request.owner, file) {
            Some(key) => Ok(self.open_again(key, file, share, needed, payload, payload_access)),
            None if needed & !payload_access != 0 => {
                self.give_back(request.file, payload);
                self.release_file(file);
                Ok(OpenOutcome::Reopen(needed))
            }
            None => self.open_first(client, request.owner, file, share, payload, payload_access),
        }
    }

    /// Finds the open of an owner on a file.
    fn open_of(&self, client: ClientKey, owner: &[u8], file: Key) -> Option<Key> {
        let owner = self.client(client).ok()?.open_owners.get(owner)?;
        self.opens_by_owner.get(&(owner.index, file.index)).copied()
    }

    fn give_back(&mut self, file: &F, payload: O) {
        self.effects.push(Effect::Close { file: file.clone(), payload });
    }

    fn open_first(
        &mut self,
        client: ClientKey,
        owner: &[u8],
        file: Key,
        share: Share,
        payload: O,
        payload_access: u32,
    ) -> Result<OpenOutcome> {
        let record = self.client_mut(client)?;
        record.opens += 1;
        let known = record.open_owners.get(owner).copied();
        let owner = known.unwrap_or_else(|| {
            let name: Arc<[u8]> = owner.into();
            let key = self.owners.insert(Owner { client, name: name.clone(), uses: 0 });
            if let Some(record) = self.clients.get_mut(client.0) {
                record.open_owners.insert(name, key);
            }
            key
        });
        if let Some(owner) = self.owners.get_mut(owner) {
            owner.uses += 1;
        }
        if let Some(file) = self.files.get_mut(file) {
            file.opens += 1;
            file.shares.add(share);
        }
        let seen = Seen::of(share);
        let open =
            Open { client, owner, file, share, seen, seqid: 1, payload, payload_access, locks: Vec::new() };
        let key = self.opens.insert(open);
        self.opens_by_owner.insert((owner.index, file.index), key);
        Ok(OpenOutcome::Opened(self.stateid(StateRef::Open(key), 1)))
    }

    /// Merges an OPEN into the open that its owner already has (RFC 8881 section 9.9).
    fn open_again(
        &mut self,
        key: Key,
        file: Key,
        share: Share,
        needed: u32,
        payload: O,
        payload_access: u32,
    ) -> OpenOutcome {
        let Some(open) = self.opens.get_mut(key) else { return OpenOutcome::Reopen(needed) };
        let spare = if needed & !open.payload_access == 0 {
            payload
        } else if needed & !payload_access == 0 {
            open.payload_access = payload_access;
            std::mem::replace(&mut open.payload, payload)
        } else {
            if let Some(name) = self.files.get(file).map(|file| file.name.clone()) {
                self.effects.push(Effect::Close { file: name, payload });
            }
            return OpenOutcome::Reopen(needed);
        };
        let before = open.share;
        open.share = before.union(share);
        open.seen = open.seen.with(share);
        open.seqid = next_seqid(open.seqid);
        let (after, seqid) = (open.share, open.seqid);
        if let Some(file) = self.files.get_mut(file) {
            file.shares.remove(before);
            file.shares.add(after);
            self.effects.push(Effect::Close { file: file.name.clone(), payload: spare });
        }
        OpenOutcome::Opened(self.stateid(StateRef::Open(key), seqid))
    }

    /// Returns the payload of an open or lock stateid for I/O on `file`: `access` is READ 1, WRITE 2, or 0 for any
    /// (COMMIT, SETATTR without size and the like).
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_OPENMODE.
    pub fn access(&self, client: ClientKey, stateid: &Stateid4, file: &F, access: u32) -> Result<O> {
        let open = match self.find_stateid(client, stateid)? {
            StateRef::Open(key) => Some(key),
            StateRef::Lock(key) => self.locks.get(key).map(|lock| lock.open),
        };
        let open = open.and_then(|key| self.opens.get(key)).ok_or(Nfsstat4::NFS4ERR_BAD_STATEID)?;
        if self.files.get(open.file).is_none_or(|state| state.name != *file) {
            return Err(Nfsstat4::NFS4ERR_BAD_STATEID);
        }
        if access & !open.share.access != 0 {
            return Err(Nfsstat4::NFS4ERR_OPENMODE);
        }
        Ok(open.payload.clone())
    }
}

/// The sequence number of a stateid after this one: zero has a meaning of its own and is left out (RFC 8881 section 8.2.2).
pub(crate) fn next_seqid(seqid: u32) -> u32 {
    seqid.checked_add(1).unwrap_or(1)
}
