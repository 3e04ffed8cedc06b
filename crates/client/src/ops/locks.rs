//! LOCK, LOCKT, LOCKU, and operations on stateids.

use nfs4::*;

use super::OpenFile;
use crate::client::Client;
use crate::error::Error;
use crate::reply::Reply;

/// The byte-range locks of one lock-owner on one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The stateid of the locks.
    pub stateid: Stateid4,
    /// The lock-owner that holds the locks.
    pub owner: Vec<u8>,
}

/// The conflicting lock that denied a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial(pub Lock4Denied<'static>);

/// Reads the result of LOCK, in which NFS4ERR_DENIED describes the conflicting lock.
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
    /// Locks a range of an open file as a new lock-owner; a `length` of `u64::MAX` extends to the
    /// end. The inner error describes the conflicting lock.
    ///
    /// # Errors
    /// The errors of LOCK other than NFS4ERR_DENIED.
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

    /// Locks a further range for a lock-owner with existing locks, and stores the new stateid in
    /// `lock`.
    ///
    /// # Errors
    /// The errors of LOCK other than NFS4ERR_DENIED.
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

    /// Calls LOCK with any arguments.
    ///
    /// # Errors
    /// The errors of LOCK other than NFS4ERR_DENIED.
    pub fn lock_with(
        &mut self,
        handle: &[u8],
        arguments: Lock4Args<'_>,
    ) -> Result<Result<Stateid4, Denial>, Error> {
        self.on(handle, &NfsArgop4::OP_LOCK(arguments), |results, _| read_lock(results.any()?))
    }

    /// Unlocks a range, and stores the new stateid in `lock`.
    pub fn unlock(&mut self, handle: &[u8], lock: &mut Lock, offset: u64, length: u64) -> Result<(), Error> {
        let arguments = Locku4Args {
            locktype: NfsLockType4::WRITE_LT,
            seqid: 0,
            lock_stateid: lock.stateid,
            offset,
            length,
        };
        let operation = NfsArgop4::OP_LOCKU(arguments);
        lock.stateid = self.on(handle, &operation, |results, number| results.take(number))?;
        Ok(())
    }

    /// Returns a delegation to the server.
    pub fn delegreturn(&mut self, file: &[u8], stateid: Stateid4) -> Result<(), Error> {
        self.perform(|compound| compound.putfh(file).delegreturn(stateid), Reply::check)
    }

    /// Frees the stateid of locks that are all unlocked, or of a revoked delegation.
    pub fn free_stateid(&mut self, stateid: Stateid4) -> Result<(), Error> {
        self.perform(|compound| compound.free_stateid(stateid), Reply::check)
    }
}
