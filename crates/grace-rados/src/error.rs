//! Errors of the shared storage.

use ceph::CephErrno;
use ceph::rados::RadosError;
use grace::{ClientRecordError, DatabaseError};

/// The reason why the shared storage cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The library is missing.
    #[error(transparent)]
    Library(#[from] ceph::LibraryError),
    /// The cluster or the pool cannot be reached.
    #[error(transparent)]
    Connection(#[from] RadosError),
    /// There is no grace database.
    #[error(
        "there is no object {object} in the pool {pool}{namespace}: `orthrus cluster join NODE` makes it"
    )]
    NoDatabase {
        /// The name of the object.
        object: String,
        /// The name of the pool.
        pool: String,
        /// The namespace with words around it; empty for the default one.
        namespace: String,
    },
    /// The object is no grace database.
    #[error(
        "the object {object} is no grace database: {reason}; name another one, or remove it with `rados rm`"
    )]
    Database {
        /// The name of the object.
        object: String,
        /// The part that is wrong.
        reason: DatabaseError,
    },
    /// An object has content that no member writes.
    #[error("the object {object} is damaged: {reason}")]
    Damaged {
        /// The name of the object.
        object: String,
        /// The reason and a remedy.
        reason: String,
    },
    /// A record of a client has content that no member writes.
    #[error(
        "the object {object} is damaged: {reason}; remove the key with `rados rmomapkey`: that client cannot reclaim then"
    )]
    Record {
        /// The name of the object.
        object: String,
        /// The part that is wrong.
        reason: ClientRecordError,
    },
    /// Another instance has taken over the objects of the member.
    #[error("another instance has become this member of the cluster")]
    Replaced,
    /// This client of the cluster was evicted.
    #[error("the Ceph cluster has put this gateway on its blocklist")]
    Blocklisted,
    /// The user lacks a right.
    #[error(
        "client.{user} may not use the object {object}: give it `osd 'allow rw pool={pool}'` with `ceph auth caps`"
    )]
    Denied {
        /// The user, without `client.`.
        user: String,
        /// The name of the object.
        object: String,
        /// The name of the pool.
        pool: String,
    },
    /// The cluster does not answer, or has another error.
    #[error("the object {object} cannot be used: {reason}")]
    Unavailable {
        /// The name of the object.
        object: String,
        /// The error number of the library.
        reason: CephErrno,
    },
}

impl StoreError {
    /// Returns whether the gateway must end: it is not the member any more, or was evicted.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Replaced | Self::Blocklisted)
    }

    /// Returns whether the storage is full. Then it refuses the same change of every member.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Unavailable { reason, .. } if [libc::ENOSPC, libc::EDQUOT].contains(&reason.number()))
    }
}
