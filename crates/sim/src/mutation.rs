//! Deliberate faults, which prove that the checker finds faults.

use std::str::FromStr;

/// A deliberate fault. The simulated parts build it in; the server's code does not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mutation {
    /// No fault is built in.
    #[default]
    None,
    /// A retry is executed as if it were a new request.
    ReplyCacheBypassed,
    /// Client records are not synced before the reply.
    JournalNotSynced,
    /// A lock for writing is granted as one for reading.
    LocksShared,
    /// COMMIT and stable writes put nothing on stable storage.
    CommitForgets,
    /// The write verifier survives a restart.
    VerifierStays,
    /// Changes of names are acknowledged before they are synced.
    SyncAfterReply,
    /// OPEN ignores its share_deny.
    DenyIgnored,
    /// A recalled delegation is returned before its holder has written back.
    RecallNotAwaited,
    /// A copy of an OPEN of NFSv4.0 is executed as if its sequence number were new.
    SeqidIgnored,
    /// A call whose RPCSEC_GSS sequence number was used before is executed.
    GssWindowIgnored,
    /// Calls of a context that the server had before its restart are executed.
    ContextKept,
    /// All Kerberos principals act as the account of the first one.
    PrincipalIgnored,
    /// NFSv4.0 clients are not recorded, so none may reclaim after a restart.
    V40NotRecorded,
    /// In an upgrade the old process serves on after it has made the image.
    OldServesOn,
}

impl Mutation {
    /// All faults, in the order of the command line's help.
    pub const ALL: [Self; 14] = [
        Self::ReplyCacheBypassed,
        Self::JournalNotSynced,
        Self::LocksShared,
        Self::CommitForgets,
        Self::VerifierStays,
        Self::SyncAfterReply,
        Self::DenyIgnored,
        Self::RecallNotAwaited,
        Self::SeqidIgnored,
        Self::GssWindowIgnored,
        Self::ContextKept,
        Self::PrincipalIgnored,
        Self::V40NotRecorded,
        Self::OldServesOn,
    ];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ReplyCacheBypassed => "reply-cache-bypassed",
            Self::JournalNotSynced => "journal-not-synced",
            Self::LocksShared => "locks-shared",
            Self::CommitForgets => "commit-forgets",
            Self::VerifierStays => "verifier-stays",
            Self::SyncAfterReply => "sync-after-reply",
            Self::DenyIgnored => "deny-ignored",
            Self::RecallNotAwaited => "recall-not-awaited",
            Self::SeqidIgnored => "seqid-ignored",
            Self::GssWindowIgnored => "gss-window-ignored",
            Self::ContextKept => "context-kept",
            Self::PrincipalIgnored => "principal-ignored",
            Self::V40NotRecorded => "v40-not-recorded",
            Self::OldServesOn => "old-serves-on",
        }
    }
}

impl FromStr for Mutation {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mut all = [Self::None].into_iter().chain(Self::ALL);
        all.find(|mutation| mutation.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|mutation| mutation.name()).collect();
            format!("{name:?} is no mutation; there are {}", names.join(", "))
        })
    }
}
