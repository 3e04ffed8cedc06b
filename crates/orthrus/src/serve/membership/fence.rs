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
                "cluster: the session {identity} had ended before, so that others can have got its locks"
            );
        }
        sessions.ended(&identity, found);
        objects.set_sessions(&sessions)?;
    }
    Ok(sessions.protect(epoch))
}

/// Has the metadata servers end a session; returns whether there was one.
fn end_session(identity: &str, place: &SessionPlace, storages: &[CephStorage]) -> anyhow::Result<bool> {
    let fits =
        |storage: &&CephStorage| storage.user == place.user && storage.file_system == place.file_system;
    let Some(storage) = storages.iter().find(fits) else {
        tracing::warn!(
            "cluster: the session {identity} of client.{} with the file system {} ends by the blocklist only, since \
             this gateway exports nothing of it",
            place.user,
            place.file_system.as_deref().unwrap_or("(default)"),
        );
        return Ok(false);
    };
    let options = CephOptions {
        configuration: storage.configuration.clone(),
        user: storage.user.clone(),
        keyring: storage.keyring.clone(),
        file_system: storage.file_system.clone(),
        ..CephOptions::new("/")
    };
    vfs_ceph::end_session(&options, identity).with_context(|| format!("the session {identity}"))
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
