//! Owners as strings and numbers (RFC 8881 section 5.9): from the cache where blocking is not
//! allowed, else from the name service, if it answers in time.

use super::{Compound, DeferReason, OpResult};
use identity::{OwnerError, Wait};
use nfs4::Nfsstat4;

/// The lane of COMPOUNDs that wait for the name service. No export has this number.
pub(crate) const NAMES_LANE: u32 = u32::MAX;

impl Compound<'_> {
    /// Returns whether and how long this COMPOUND waits for names.
    fn names_wait(&self) -> Wait<'_> {
        if self.may_wait_for_names() { Wait::Within(&self.names_wait_left) } else { Wait::Never }
    }

    /// Defers the COMPOUND in the lane of the name service for a name that is not cached.
    fn await_names<T>(&self, known: Option<T>) -> OpResult<T> {
        known.ok_or(DeferReason::Lane(NAMES_LANE).into())
    }

    /// Returns the `owner` string of a user.
    ///
    /// # Errors
    /// [`OpStop::Deferred`].
    pub fn owner(&self, uid: u32) -> OpResult<String> {
        self.await_names(self.nfs.identity.owner_of_uid_within(uid, self.now(), self.names_wait()))
    }

    /// Returns the `owner_group` string of a group.
    ///
    /// # Errors
    /// [`OpStop::Deferred`].
    pub fn owner_group(&self, gid: u32) -> OpResult<String> {
        self.await_names(self.nfs.identity.owner_of_gid_within(gid, self.now(), self.names_wait()))
    }

    /// Returns the user of an `owner` string.
    ///
    /// # Errors
    /// NFS4ERR_BADOWNER, also for the number of a user with a name (see [`super::NumericOwners`]),
    /// NFS4ERR_DELAY while it cannot be looked up, [`OpStop::Deferred`].
    pub fn uid_of(&self, owner: &[u8]) -> OpResult<u32> {
        let uid = self.nfs.identity.uid_of_owner_within(owner, self.now(), self.names_wait());
        let uid = self.await_names(uid)?.map_err(|error| self.owner_status(owner, &error))?;
        self.check_number(owner, uid, Self::owner)?;
        Ok(uid)
    }

    /// Returns the group of an `owner_group` string.
    ///
    /// # Errors
    /// As [`Compound::uid_of`].
    pub fn gid_of(&self, owner: &[u8]) -> OpResult<u32> {
        let gid = self.nfs.identity.gid_of_owner_within(owner, self.now(), self.names_wait());
        let gid = self.await_names(gid)?.map_err(|error| self.owner_status(owner, &error))?;
        self.check_number(owner, gid, Self::owner_group)?;
        Ok(gid)
    }

    /// Refuses a number whose name is required. `name` returns the number itself when it has no
    /// name, and when the name service does not answer in time: the number is then the only
    /// identity known.
    ///
    /// # Errors
    /// NFS4ERR_BADOWNER, [`OpStop::Deferred`].
    fn check_number(&self, owner: &[u8], id: u32, name: impl Fn(&Self, u32) -> OpResult<String>) -> OpResult {
        let number = id.to_string();
        let allowed = self.nfs.choices.numeric_owners().allow_named(self.call.security.flavor);
        if allowed || owner != number.as_bytes() || name(self, id)? == number {
            return Ok(());
        }
        self.note_owner(owner, || "the client has to send its name; see `numeric_owners`".to_owned());
        Err(Nfsstat4::NFS4ERR_BADOWNER.into())
    }

    /// Returns the status for an owner without an ID, and notes why it is refused.
    fn owner_status(&self, owner: &[u8], error: &OwnerError) -> Nfsstat4 {
        let remedy = match error {
            OwnerError::Source(_) => return Nfsstat4::NFS4ERR_DELAY,
            OwnerError::Domain(_) => "set `Domain` in /etc/idmapd.conf of the client, or `domain` here",
            OwnerError::Malformed | OwnerError::Unknown => "look for the account with getent on the server",
        };
        self.note_owner(owner, || format!("{error}: {remedy}"));
        Nfsstat4::NFS4ERR_BADOWNER
    }
}
