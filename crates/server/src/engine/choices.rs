//! The choices of a server that a reload can change while it serves.

use super::{Delegations, NfsConfig, NumericOwners, SysGroups};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

/// The choices in force. Requests read them without a lock.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    nfs40: AtomicBool,
    delegations: AtomicU8,
    numeric_owners: AtomicU8,
    /// Whether AUTH_SYS callers have the groups of their accounts.
    server_groups: AtomicBool,
}

impl Choices {
    pub(super) fn new(config: &NfsConfig) -> Self {
        let choices = Self::default();
        choices.set(config.nfs40, config.delegations, config.numeric_owners, config.sys_groups);
        choices
    }

    pub(super) fn set(
        &self,
        nfs40: bool,
        delegations: Delegations,
        numeric_owners: NumericOwners,
        groups: SysGroups,
    ) {
        self.nfs40.store(nfs40, Relaxed);
        self.delegations.store(delegations as u8, Relaxed);
        self.numeric_owners.store(numeric_owners as u8, Relaxed);
        self.server_groups.store(groups == SysGroups::Server, Relaxed);
    }

    /// Returns whether NFSv4.0 is served.
    pub(crate) fn nfs40(&self) -> bool {
        self.nfs40.load(Relaxed)
    }

    /// Returns the kinds of delegations to grant.
    pub(crate) fn delegations(&self) -> Delegations {
        match self.delegations.load(Relaxed) {
            kinds if kinds == Delegations::All as u8 => Delegations::All,
            kinds if kinds == Delegations::Read as u8 => Delegations::Read,
            _ => Delegations::None,
        }
    }

    /// Returns the policy for numbers as owners.
    pub(crate) fn numeric_owners(&self) -> NumericOwners {
        match self.numeric_owners.load(Relaxed) {
            policy if policy == NumericOwners::Always as u8 => NumericOwners::Always,
            policy if policy == NumericOwners::Nameless as u8 => NumericOwners::Nameless,
            _ => NumericOwners::Sys,
        }
    }

    /// Returns whether AUTH_SYS callers have the groups of their accounts.
    pub(crate) fn server_groups(&self) -> bool {
        self.server_groups.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_is_the_one_that_was_set() {
        let choices = Choices::new(&NfsConfig::default());
        for nfs40 in [false, true] {
            for delegations in [Delegations::None, Delegations::Read, Delegations::All] {
                for owners in [NumericOwners::Sys, NumericOwners::Always, NumericOwners::Nameless] {
                    choices.set(nfs40, delegations, owners, SysGroups::Server);
                    assert_eq!((choices.nfs40(), choices.delegations()), (nfs40, delegations));
                    assert_eq!((choices.numeric_owners(), choices.server_groups()), (owners, true));
                }
            }
        }
    }
}
