//! The sessions of this instance with the metadata servers, as it records them for its
//! successors.

use anyhow::Context;
use grace::Sessions;
use grace_rados::NodeObjects;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// A session as the storage has it: all that is needed to end it from elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SessionPlace {
    /// The address of its client; empty until it is known.
    pub(super) address: String,
    /// The user of Ceph.
    pub(super) user: String,
    /// The name of the file system; `None`: the default one.
    pub(super) file_system: Option<String>,
    /// Whether its export is not served any more: it ends when its files are closed, at any time.
    pub(super) retired: bool,
}

impl SessionPlace {
    /// Reads the text of the storage. One of another version is a place that is not known.
    pub(super) fn of(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Puts sessions down before they begin, and their addresses after that.
pub(in crate::serve) struct SessionLog {
    objects: Arc<NodeObjects>,
    turn: Mutex<()>,
}

impl SessionLog {
    pub(super) fn new(objects: Arc<NodeObjects>) -> Self {
        Self { objects, turn: Mutex::new(()) }
    }

    /// Puts down the sessions that the mounts of an export are about to begin.
    ///
    /// # Errors
    /// The storage cannot be used, or another instance has it.
    pub(in crate::serve) fn begin(
        &self,
        identities: &[String],
        user: &str,
        file_system: Option<&str>,
    ) -> anyhow::Result<()> {
        let (user, file_system) = (user.to_owned(), file_system.map(str::to_owned));
        let place = SessionPlace { user, file_system, ..SessionPlace::default() };
        self.change(|sessions| {
            let new = identities.iter().map(|identity| (identity.clone(), place.text()));
            sessions.open.extend(new);
        })
    }

    /// Puts down the addresses of sessions that have begun, in the order of their names.
    ///
    /// # Errors
    /// As [`SessionLog::begin`]: an instance that was replaced meanwhile must not use them.
    pub(in crate::serve) fn began(&self, identities: &[String], addresses: &[String]) -> anyhow::Result<()> {
        self.change(|sessions| {
            for (identity, address) in identities.iter().zip(addresses) {
                if let Some(text) = sessions.open.get_mut(identity) {
                    *text = SessionPlace { address: address.clone(), ..SessionPlace::of(text) }.text();
                }
            }
        })
    }

    /// Puts down that the export of sessions is not served any more.
    ///
    /// # Errors
    /// As [`SessionLog::begin`].
    pub(in crate::serve) fn retire(&self, identities: &[String]) -> anyhow::Result<()> {
        self.change(|sessions| {
            for (_, text) in sessions.open.iter_mut().filter(|(identity, _)| identities.contains(identity)) {
                *text = SessionPlace { retired: true, ..SessionPlace::of(text) }.text();
            }
        })
    }

    /// Strikes out sessions that have ended.
    ///
    /// # Errors
    /// As [`SessionLog::begin`].
    pub(in crate::serve) fn forget(&self, identities: &[String]) -> anyhow::Result<()> {
        self.change(|sessions| sessions.open.retain(|identity, _| !identities.contains(identity)))
    }

    fn change(&self, change: impl FnOnce(&mut Sessions)) -> anyhow::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sessions = self.objects.sessions().context("the sessions of this gateway")?;
        change(&mut sessions);
        self.objects.set_sessions(&sessions).context("the sessions of this gateway")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_and_one_of_another_version_is_unknown() {
        let place = SessionPlace {
            address: "10.0.0.1:0/7".to_owned(),
            user: "orthrus".to_owned(),
            file_system: Some("cephfs".to_owned()),
            retired: true,
        };
        assert_eq!(SessionPlace::of(&place.text()), place);
        for text in ["", "{}", "[1]", "{\"user\": 7}", "\u{0}"] {
            assert_eq!(SessionPlace::of(text), SessionPlace::default(), "{text:?}");
        }
    }
}
