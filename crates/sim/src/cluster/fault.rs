//! Deliberate faults of gateways and of their storage, which prove that the checker finds faults.

use std::str::FromStr;

/// A deliberate fault. The simulated parts build it in; the servers' code does not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterFault {
    /// No fault is built in.
    #[default]
    None,
    /// The grace database is changed although it has changed since it was read.
    WritesBlindly,
    /// A gateway says that it refuses new state, and grants it.
    EnforcesNever,
    /// A gateway that has lost contact with the storage answers its clients.
    AnswersForever,
    /// A gateway serves on after another instance has taken its name.
    StaysReplaced,
    /// The sessions of a former instance are not ended.
    FencesNobody,
    /// Clients reclaim although the metadata servers had ended a session before.
    TrustsLostSessions,
    /// Client records are not in the storage when the client gets its reply.
    RecordsLost,
    /// A gateway does not wait until the others refuse new state.
    ReleasesEarly,
}

impl ClusterFault {
    /// All faults, in the order of the command line's help.
    pub const ALL: [Self; 8] = [
        Self::WritesBlindly,
        Self::EnforcesNever,
        Self::AnswersForever,
        Self::StaysReplaced,
        Self::FencesNobody,
        Self::TrustsLostSessions,
        Self::RecordsLost,
        Self::ReleasesEarly,
    ];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::WritesBlindly => "writes-blindly",
            Self::EnforcesNever => "enforces-never",
            Self::AnswersForever => "answers-forever",
            Self::StaysReplaced => "stays-replaced",
            Self::FencesNobody => "fences-nobody",
            Self::TrustsLostSessions => "trusts-lost-sessions",
            Self::RecordsLost => "records-lost",
            Self::ReleasesEarly => "releases-early",
        }
    }
}

impl FromStr for ClusterFault {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let mut all = [Self::None].into_iter().chain(Self::ALL);
        all.find(|fault| fault.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|fault| fault.name()).collect();
            format!("{name:?} is no fault of a cluster; there are {}", names.join(", "))
        })
    }
}
