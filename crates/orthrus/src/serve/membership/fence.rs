//! The end of the sessions of another instance: the cluster accepts nothing more from it, and its
//! locks are free.

use super::session_log::SessionPlace;
use crate::config::CephStorage;
use anyhow::{Context, bail};
use ceph::rados::RadosCluster;
use grace_rados::{FenceError, GraceStore, NodeObjects, blocklist, blocklisted};
use vfs_ceph::CephOptions;

/// Ends all sessions of a member in an epoch, one after another. Returns whether their state is
/// protected by the grace period of the epoch.
///
/// # Errors
/// A session cannot be ended, with the remedy, or another instance has taken over the member.
pub(super) fn end_sessions(
    store: &GraceStore,
    objects: &NodeObjects,
    storages: &[CephStorage],
    epoch: u64,
) -> anyhow::Result<bool> {
    let mut sessions = objects.sessions()?;
    sessions.end_in(epoch);
    objects.set_sessions(&sessions)?;
    for (identity, text) in sessions.open.clone() {
        let place = SessionPlace::of(&text);
        // The state that a retired one protected belongs to an export without reclaims.
        let found = end_session(&identity, &place, storages)? || place.retired;
        evict(store.cluster(), &store.options().cluster.user, &identity, &place.address)?;
        if !found && sessions.closing != Some(epoch) {
            tracing::warn!(
                "cluster: the session {identity} had ended before, so that other clients may hold its locks"
            );
        }
        sessions.ended(&identity, found);
        objects.set_sessions(&sessions)?;
    }
    Ok(sessions.protect(epoch))
}

/// Asks the metadata servers to end a session; returns whether there was one.
fn end_session(identity: &str, place: &SessionPlace, storages: &[CephStorage]) -> anyhow::Result<bool> {
    let Some(options) = options_for(place, storages) else {
        tracing::warn!(
            "cluster: the session {identity} with the file system {} ends by the blocklist only, since this gateway \
             has no export with the key of its user, client.{}",
            place.file_system.as_deref().unwrap_or("(default)"),
            place.user,
        );
        return Ok(false);
    };
    vfs_ceph::end_session(&options, identity).with_context(|| format!("the session {identity}"))
}

/// Returns the way to the metadata servers of a session, with the key of its user. Its file system
/// may be one that this gateway does not export.
fn options_for(place: &SessionPlace, storages: &[CephStorage]) -> Option<CephOptions> {
    let storage = storages.iter().find(|storage| storage.user == place.user)?;
    Some(CephOptions {
        configuration: storage.configuration.clone(),
        user: storage.user.clone(),
        keyring: storage.keyring.clone(),
        file_system: place.file_system.clone(),
        ..CephOptions::new("/")
    })
}

/// Makes sure that the client of a session is on the blocklist, and stays there for long.
fn evict(cluster: &RadosCluster, user: &str, identity: &str, address: &str) -> anyhow::Result<()> {
    // One without an address was never used.
    if address.is_empty() {
        return Ok(());
    }
    match blocklist(cluster, user, address) {
        Ok(()) => Ok(()),
        Err(denied @ FenceError::Denied { .. }) => {
            // The metadata servers do it as well, for a shorter time.
            let listed = blocklisted(cluster, &[address.to_owned()])?;
            if listed.is_empty() {
                bail!(
                    "the client {address} of the session {identity} is not on the blocklist of the Ceph cluster, so that \
                     it could still write: {denied}; or use `ceph osd blocklist add {address}` as an administrator"
                );
            }
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_in_a_file_system_without_export_here_is_ended_with_the_key_of_its_user() {
        let storage = |user: &str, keyring: &str| CephStorage {
            user: user.to_owned(),
            keyring: Some(keyring.into()),
            file_system: Some("one".to_owned()),
            ..CephStorage::default()
        };
        let storages = [storage("orthrus", "/key"), storage("archive", "/archive.key")];
        let place = |user: &str| SessionPlace {
            user: user.to_owned(),
            file_system: Some("other".to_owned()),
            ..SessionPlace::default()
        };
        let options = options_for(&place("archive"), &storages).unwrap();
        assert_eq!(options.file_system.as_deref(), Some("other"));
        assert_eq!(options.keyring.as_deref(), Some("/archive.key".as_ref()));
        assert!(options_for(&place("another"), &storages).is_none());
    }
}
