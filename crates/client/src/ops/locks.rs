//! LOCK, LOCKT, LOCKU.

use nfs4::*;

use super::OpenFile;
use crate::client::Client;
use crate::error::Error;

/// The byte-range locks of one lock-owner on one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The lock's stateid.
    pub stateid: Stateid4,
    /// The lock-owner.
    pub owner: Vec<u8>,
}

/// Who stands in the way of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial(pub Lock4Denied<'static>);

/// Reads the result of LOCK, of which NFS4ERR_DENIED is one that says who.
fn read_lock(result: Option<NfsResop4<'_>>) -> Result<Result<Stateid4, Denial>, Error> {
    let operation = NfsOpnum4::OP_LOCK;
    match result {
        Some(NfsResop4::OP_LOCK(Lock4Res::NFS4_OK(locked))) => Ok(Ok(locked.lock_stateid)),
        Some(NfsResop4::OP_LOCK(Lock4Res::NFS4ERR_DENIED(denied))) => Ok(Err(Denial(denied.into_owned()))),
        Some(NfsResop4::OP_LOCK(Lock4Res::Default(status))) => Err(Error::Nfs { operation, status }),
        _ => Err(crate::error::ResultsError::Missing(operation).into()),
    }
}

impl Client {
    /// Locks a range of an open file as a new lock-owner; a `length` of `u64::MAX` is to the end.
    /// The inner error says who has a lock there.
    ///
    /// # Errors
    /// Those of LOCK other than NFS4ERR_DENIED.
    pub fn lock(
        &mut self,
        file: &OpenFile,
        owner: &[u8],
        kind: NfsLockType4,
        offset: u64,
        length: u64,
    ) -> Result<Result<Lock, Denial>, Error> {
        let locker = Locker4::TRUE(OpenToLockOwner4 {
            open_seqid: 0,
            open_stateid: file.stateid,
            lock_seqid: 0,
            lock_owner: StateOwner4 { clientid: 0, owner: owner.into() },
        });
        let arguments = Lock4Args { locktype: kind, reclaim: false, offset, length, locker };
        let locked = self.lock_with(&file.handle, arguments)?;
        Ok(locked.map(|stateid| Lock { stateid, owner: owner.to_vec() }))
    }

    /// Locks a further range for a lock-owner that has locks already; the new stateid is put into
    /// `lock`.
    ///
    /// # Errors
    /// Those of LOCK other than NFS4ERR_DENIED.
    pub fn lock_more(
        &mut self,
        handle: &[u8],
        lock: &mut Lock,
        kind: NfsLockType4,
        offset: u64,
        length: u64,
    ) -> Result<Result<(), Denial>, Error> {
        let locker = Locker4::FALSE(ExistLockOwner4 { lock_stateid: lock.stateid, lock_seqid: 0 });
        let arguments = Lock4Args { locktype: kind, reclaim: false, offset, length, locker };
        let locked = self.lock_with(handle, arguments)?;
        Ok(locked.map(|stateid| lock.stateid = stateid))
    }

    /// LOCK with any arguments.
    ///
    /// # Errors
    /// Those of LOCK other than NFS4ERR_DENIED.
    pub fn lock_with(
        &mut self,
        handle: &[u8],
        arguments: Lock4Args<'_>,
    ) -> Result<Result<Stateid4, Denial>, Error> {
        self.perform(
            |compound| {
                compound.putfh(handle).lock(arguments.clone());
            },
            |reply| {
                let mut results = reply.results();
                results.done(NfsOpnum4::OP_PUTFH)?;
                read_lock(results.any()?)
            },
        )
    }

    /// Asks whether `owner` could lock a range; `None` if so.
    ///
    /// # Errors
    /// Those of LOCKT other than NFS4ERR_DENIED.
    pub fn test_lock(
        &mut self,
        handle: &[u8],
        owner: &[u8],
        kind: NfsLockType4,
        offset: u64,
        length: u64,
    ) -> Result<Option<Denial>, Error> {
        let owner = StateOwner4 { clientid: 0, owner: owner.into() };
        let arguments = Lockt4Args { locktype: kind, offset, length, owner };
        let operation = NfsOpnum4::OP_LOCKT;
        self.perform(
            |compound| {
                compound.putfh(handle).lockt(arguments.clone());
            },
            |reply| {
                let mut results = reply.results();
                match results.done(NfsOpnum4::OP_PUTFH)?.any()? {
                    Some(NfsResop4::OP_LOCKT(Lockt4Res::NFS4_OK)) => Ok(None),
                    Some(NfsResop4::OP_LOCKT(Lockt4Res::NFS4ERR_DENIED(denied))) => {
                        Ok(Some(Denial(denied.into_owned())))
                    }
                    Some(NfsResop4::OP_LOCKT(Lockt4Res::Default(status))) => {
                        Err(Error::Nfs { operation, status })
                    }
                    _ => Err(crate::error::ResultsError::Missing(operation).into()),
                }
            },
        )
    }

    /// Unlocks a range; the new stateid is put into `lock`.
    ///
    /// # Errors
    /// Those of LOCKU.
    pub fn unlock(&mut self, handle: &[u8], lock: &mut Lock, offset: u64, length: u64) -> Result<(), Error> {
        let arguments = Locku4Args {
            locktype: NfsLockType4::WRITE_LT,
            seqid: 0,
            lock_stateid: lock.stateid,
            offset,
            length,
        };
        lock.stateid = self.perform(
            |compound| {
                compound.putfh(handle).locku(arguments);
            },
            |reply| reply.results().done(NfsOpnum4::OP_PUTFH)?.take(NfsOpnum4::OP_LOCKU),
        )?;
        Ok(())
    }

    /// Asks for the state of stateids.
    ///
    /// # Errors
    /// Those of TEST_STATEID.
    pub fn test_stateids(&mut self, stateids: &[Stateid4]) -> Result<Vec<Nfsstat4>, Error> {
        self.perform(
            |compound| {
                compound.test_stateid(stateids.to_vec());
            },
            |reply| {
                let result: TestStateid4Resok = reply.results().take(NfsOpnum4::OP_TEST_STATEID)?;
                Ok(result.tsr_status_codes)
            },
        )
    }

    /// Gives a delegation back.
    ///
    /// # Errors
    /// Those of DELEGRETURN.
    pub fn delegreturn(&mut self, file: &[u8], stateid: Stateid4) -> Result<(), Error> {
        self.perform(
            |compound| {
                compound.putfh(file).delegreturn(stateid);
            },
            super::nothing,
        )
    }

    /// Frees the stateid of locks that are all unlocked, or of a delegation that was revoked.
    ///
    /// # Errors
    /// Those of FREE_STATEID.
    pub fn free_stateid(&mut self, stateid: Stateid4) -> Result<(), Error> {
        self.perform(
            |compound| {
                compound.free_stateid(stateid);
            },
            super::nothing,
        )
    }
}
