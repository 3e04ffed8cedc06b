//! OPEN: open owners, share reservations and the access that READ and WRITE have (RFC 8881 sections 9 and 18.16).

use crate::{ClientKey, Nfsstat4, Result, State, Stateid4};
use std::hash::Hash;
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

/// What [`State::open`] came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenOutcome {
    /// The file is open; the stateid is for the client.
    Opened(Stateid4),
    /// The owner has the file open with more by now: open the file anew with these access bits and call again.
    /// (The payload given is returned as [`crate::Effect::Close`].)
    Reopen(u32),
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
        let _ = (now, client, owner, claim);
        Err(Nfsstat4::NFS4ERR_SERVERFAULT)
    }

    /// Checks all that [`State::open`] will check and returns the access bits with which the payload has to be opened:
    /// the request's and those that the owner already has on this file.
    ///
    /// # Errors
    /// Those of [`State::open_allowed`], NFS4ERR_SHARE_DENIED, NFS4ERR_RECLAIM_CONFLICT.
    pub fn open_check(&self, now: Duration, client: ClientKey, request: &OpenRequest<'_, F>) -> Result<u32> {
        let _ = (now, client, request);
        Err(Nfsstat4::NFS4ERR_SERVERFAULT)
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
        let _ = (now, client, request, payload, payload_access);
        Err(Nfsstat4::NFS4ERR_SERVERFAULT)
    }

    /// Returns the payload of an open or lock stateid for I/O on `file`: `access` is READ 1, WRITE 2, or 0 for any
    /// (COMMIT, SETATTR without size and the like).
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_OPENMODE.
    pub fn access(&self, client: ClientKey, stateid: &Stateid4, file: &F, access: u32) -> Result<O> {
        let _ = (client, stateid, file, access);
        Err(Nfsstat4::NFS4ERR_SERVERFAULT)
    }

    /// Checks I/O with a special stateid against everybody's share reservations; `access` as in [`State::access`].
    ///
    /// # Errors
    /// NFS4ERR_LOCKED (somebody denies it), NFS4ERR_GRACE.
    pub fn anonymous_access(&self, now: Duration, file: &F, access: u32) -> Result<()> {
        let _ = (now, file, access);
        Err(Nfsstat4::NFS4ERR_SERVERFAULT)
    }

    /// Tells whether anybody has the file open (for REMOVE and RENAME over it).
    pub fn is_open(&self, file: &F) -> bool {
        let _ = file;
        false
    }
}
