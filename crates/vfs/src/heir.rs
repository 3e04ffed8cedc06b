//! The transfer of open files, leases and locks to the next process of the server.
//!
//! Each process has a backend of its own. Between them go open file descriptions, which keep
//! access, leases and locks, and bytes with the rest that a backend knows of a file.

use crate::{Broken, Lease, ObjectHandle, OpenFile, RangeLocks, VfsResult};
use std::{
    any::Any,
    fmt,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

/// A descriptor that is shared with its present user.
pub type SharedFd = Arc<dyn AsFd + Send + Sync>;

/// The descriptors for the next process. Each is sent once, however often it is used.
#[derive(Default)]
pub struct OutboundFds {
    fds: Vec<SharedFd>,
    /// Their numbers by descriptor.
    numbers: Vec<Option<u32>>,
}

impl OutboundFds {
    /// Adds a descriptor, and returns the number by which the next process finds it.
    pub fn add(&mut self, fd: SharedFd) -> u32 {
        let next = self.fds.len() as u32;
        // A descriptor that is open is not negative.
        let place = fd.as_fd().as_raw_fd() as usize;
        if place >= self.numbers.len() {
            self.numbers.resize(place + 1, None);
        }
        let number = *self.numbers[place].get_or_insert(next);
        if number == next {
            self.fds.push(fd);
        }
        number
    }

    /// Returns the number of descriptors.
    pub fn len(&self) -> usize {
        self.fds.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fds.is_empty()
    }

    /// Returns the descriptors in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.fds.iter().map(|fd| fd.as_fd())
    }
}

impl fmt::Debug for OutboundFds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutboundFds({})", self.fds.len())
    }
}

/// The descriptors from the previous process.
#[derive(Debug, Default)]
pub struct InboundFds(Vec<InboundFd>);

#[derive(Debug)]
enum InboundFd {
    Here(OwnedFd),
    Adopted(Arc<dyn Any + Send + Sync>),
    Taken,
}

impl InboundFds {
    /// Takes descriptors in the order of their numbers.
    pub fn new(fds: impl IntoIterator<Item = OwnedFd>) -> Self {
        Self(fds.into_iter().map(InboundFd::Here).collect())
    }

    /// Takes a descriptor that is used once; `None` for one that is not there or was taken.
    pub fn take(&mut self, number: u32) -> Option<OwnedFd> {
        let place = self.0.get_mut(number as usize)?;
        match std::mem::replace(place, InboundFd::Taken) {
            InboundFd::Here(fd) => Some(fd),
            other => {
                *place = other;
                None
            }
        }
    }

    /// Returns the value that the first user of a descriptor makes of it, for all of its users.
    /// `None` for a descriptor that is not there, or of which something else was made.
    pub fn adopt<T: Any + Send + Sync>(
        &mut self,
        number: u32,
        make: impl FnOnce(OwnedFd) -> T,
    ) -> Option<Arc<T>> {
        if let Some(InboundFd::Adopted(adopted)) = self.0.get(number as usize) {
            return Arc::clone(adopted).downcast().ok();
        }
        let adopted = Arc::new(make(self.take(number)?));
        *self.0.get_mut(number as usize)? = InboundFd::Adopted(Arc::clone(&adopted) as _);
        Some(adopted)
    }
}

/// A backend with open files that the next process can go on with.
pub trait Heir {
    /// Returns all that the backend remembers of its file system and the next process needs.
    fn memory(&self) -> Vec<u8>;

    /// Takes over the memory of the previous process.
    ///
    /// # Errors
    /// `Inval` for bytes that are none.
    fn remember(&self, memory: &[u8]) -> VfsResult<()>;

    /// Adds the descriptors of an open file, and returns its image; `None` for one that is not of
    /// this kind of backend.
    fn file_out(&self, file: &dyn OpenFile, fds: &mut OutboundFds) -> Option<Vec<u8>>;

    /// Makes an open file of its image. `object` is the file's handle.
    ///
    /// # Errors
    /// `Inval` for an image that is none, `Stale` where the file system is gone.
    fn file_in(
        &self,
        object: &ObjectHandle,
        image: &[u8],
        fds: &mut InboundFds,
    ) -> VfsResult<Arc<dyn OpenFile>>;

    /// As `file_out`, of a lease.
    fn lease_out(&self, lease: &dyn Lease, fds: &mut OutboundFds) -> Option<Vec<u8>>;

    /// As `file_in`, of a lease. It is not touched before the process serves: until then the
    /// previous one may go on with it.
    ///
    /// # Errors
    /// As `file_in`.
    fn lease_in(
        &self,
        object: &ObjectHandle,
        image: &[u8],
        fds: &mut InboundFds,
        broken: Broken,
    ) -> VfsResult<Arc<dyn Lease>>;

    /// As `file_out`, of the locks on a file.
    fn locks_out(&self, locks: &dyn RangeLocks, fds: &mut OutboundFds) -> Option<Vec<u8>>;

    /// As `file_in`, of the locks on a file.
    ///
    /// # Errors
    /// As `file_in`.
    fn locks_in(
        &self,
        object: &ObjectHandle,
        image: &[u8],
        fds: &mut InboundFds,
    ) -> VfsResult<Arc<dyn RangeLocks>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_with_several_users_is_sent_once_and_shared_again() {
        let file: SharedFd = Arc::new(std::fs::File::open("/dev/null").unwrap());
        let other: SharedFd = Arc::new(std::fs::File::open("/dev/null").unwrap());
        let mut out = OutboundFds::default();
        assert_eq!([out.add(file.clone()), out.add(other), out.add(file)], [0, 1, 0]);
        let copies = out.iter().map(|fd| fd.try_clone_to_owned().unwrap());
        let mut fds = InboundFds::new(copies);
        let first = fds.adopt(0, |fd| fd).unwrap();
        assert!(Arc::ptr_eq(&first, &fds.adopt(0, |fd| fd).unwrap()));
        assert!(fds.adopt(0, |_| 7_u32).is_none(), "something else was made of it");
        assert!(fds.take(0).is_none() && fds.take(1).is_some() && fds.take(2).is_none());
    }
}
