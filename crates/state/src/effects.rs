//! What the server has to do because state changed.

/// One thing for the server to do, in order, before it sends the reply of the call that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<F, O> {
    /// An open is gone (CLOSE, an upgrade, an expired or replaced client): drop its payload outside the lock.
    Close {
        /// The file that was open.
        file: F,
        /// What the server attached to the open.
        payload: O,
    },
    /// The client may hold state from now on: put it on stable storage, so that it may reclaim after a restart
    /// (RFC 8881 section 8.4.2.1). Saying it twice of one owner is harmless.
    RecordClient {
        /// co_ownerid.
        owner: Vec<u8>,
    },
    /// The client holds nothing any more, or must not reclaim: take it off stable storage.
    ForgetClient {
        /// co_ownerid.
        owner: Vec<u8>,
    },
    /// The grace period has ended: clients that wait may be told.
    GraceEnded,
}
