//! Arguments and results of OPEN (RFC 8881 section 18.16).

use crate::opens::shares::{READ, Share, WRITE, share};
use crate::{Caller, Result, Stateid4};

/// The claim of an OPEN on its file, as far as state is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenClaim {
    /// CLAIM_NULL, CLAIM_FH and every other new open.
    New,
    /// CLAIM_PREVIOUS: reclaimed after a restart of the server.
    Previous,
    /// CLAIM_DELEGATE_CUR and CLAIM_DELEG_CUR_FH: an open that the client has made by itself under
    /// this delegation.
    Delegated(Stateid4),
}

/// The part of an OPEN that does not depend on its file.
#[derive(Clone, Copy, Debug)]
pub struct Opener<'a> {
    /// The caller: the open counts for its share.
    pub caller: &'a Caller<'a>,
    /// The open owner's bytes.
    pub owner: &'a [u8],
    /// A new or a reclaimed open.
    pub claim: OpenClaim,
    /// Whether the file is a shared one (see [`crate::State::with_shared`]).
    pub shared: bool,
}

/// The arguments of OPEN for state.
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
    /// A new or a reclaimed open.
    pub claim: OpenClaim,
    /// The caller that opens it: the open counts for its share.
    pub opener: Caller<'a>,
    /// Whether the file is cut to nothing; the caller has begun that as a change
    /// ([`crate::Delegations::begin_change`]).
    pub truncates: bool,
}

impl<F> OpenRequest<'_, F> {
    pub(crate) fn share(&self) -> Result<Share> {
        share(self.access, self.deny)
    }

    /// Whether it conflicts with read delegations of others: their holders rely on the data, and
    /// open the file for reading without asking (RFC 8881 section 10.4.1).
    pub(crate) fn changes(&self) -> bool {
        self.truncates || self.access & WRITE != 0 || self.deny & READ != 0
    }
}

/// The result of [`crate::Opens::open`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenOutcome {
    /// The file is open; the stateid is for the client.
    Opened(Stateid4),
    /// The owner has the file open with more by now: open the file anew with these access bits and
    /// call again. (The payload given is among the closed ones of [`Effects`].)
    Reopen(u32),
}
