//! The sessions of a member with the metadata servers, and how they end.

use std::collections::BTreeMap;

/// The sessions of a member, as its object in the shared storage records them.
///
/// An instance records its sessions before it opens them. A later instance, or another member, ends
/// them: it records each step before the next, so that it can stop at any step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sessions {
    /// The sessions by their identities, with the addresses of their clients. An address is empty
    /// until it is known.
    pub open: BTreeMap<String, String>,
    /// The epoch in which their end began; `None` while an instance uses them.
    pub ending: Option<u64>,
    /// The epoch in which their own instance began to end them.
    pub closing: Option<u64>,
    /// Whether a session ended before its time, or state was released in an earlier epoch: other
    /// clients may hold the locks that it protected.
    pub lost: bool,
}

impl Sessions {
    /// Replaces all sessions by those that an instance is about to open.
    pub fn begin(&mut self, identities: impl IntoIterator<Item = String>) {
        let open = identities.into_iter().map(|identity| (identity, String::new())).collect();
        *self = Self { open, ..Self::default() };
    }

    /// Records that their end begins in an epoch.
    pub fn end_in(&mut self, epoch: u64) {
        if self.ending != Some(epoch) {
            self.lost |= self.ending.is_some() || self.open.is_empty();
            self.ending = Some(epoch);
        }
    }

    /// Records that the instance that uses them begins to end them in an epoch.
    pub fn close_in(&mut self, epoch: u64) {
        self.end_in(epoch);
        self.closing = Some(epoch);
    }

    /// Records the end of a session, and whether it still existed.
    pub fn ended(&mut self, identity: &str, found: bool) {
        let found = found || self.closing.is_some() && self.closing == self.ending;
        self.lost |= self.open.remove(identity).is_some() && !found;
    }

    /// Returns whether the grace period of an epoch still protects the state of these sessions.
    pub fn protect(&self, epoch: u64) -> bool {
        !self.lost && self.open.is_empty() && self.ending == Some(epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Sessions {
        let mut sessions = Sessions::default();
        sessions.begin(["a".to_owned(), "b".to_owned()]);
        sessions
    }

    #[test]
    fn sessions_that_end_in_one_period_leave_their_state_protected() {
        // RFC 8881 section 8.4.3
        let mut sessions = two();
        sessions.end_in(4);
        sessions.ended("a", true);
        assert!(!sessions.protect(4), "one is open");
        // Another instance goes on.
        sessions.end_in(4);
        sessions.ended("b", true);
        assert!(sessions.protect(4) && !sessions.protect(5));
        sessions.end_in(5);
        assert!(!sessions.protect(5), "the period in between is over");
        sessions.begin(["c".to_owned()]);
        sessions.end_in(5);
        sessions.ended("c", true);
        assert!(sessions.protect(5));
    }

    #[test]
    fn an_instance_that_dies_while_it_unmounts_leaves_its_state_protected() {
        let mut sessions = two();
        sessions.close_in(4);
        sessions.end_in(4);
        sessions.ended("a", false);
        sessions.ended("b", true);
        assert!(sessions.protect(4));
        let mut later = two();
        later.close_in(4);
        later.end_in(6);
        later.ended("a", false);
        later.ended("b", false);
        assert!(!later.protect(6));
    }

    #[test]
    fn a_session_that_was_gone_before_protects_nothing() {
        // RFC 8881 section 8.4.3
        let mut sessions = two();
        sessions.end_in(4);
        sessions.ended("a", false);
        sessions.ended("b", true);
        assert!(!sessions.protect(4));
        let mut unknown = Sessions::default();
        unknown.end_in(4);
        assert!(!unknown.protect(4));
    }
}
