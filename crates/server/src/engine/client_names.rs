//! Names of clients, by which the rules of exports know them: the shard uses names that are known,
//! and other threads wait for the rest.

use super::{Compound, DeferReason, NAMES_LANE, OpResult};
use nfs4::Nfsstat4;
use vfs::{ClientPeer, ExportTable, Place, RULES_MAX, Unresolved};

impl Compound<'_> {
    /// Decides something about the client, and waits for its names if the decision needs them.
    ///
    /// # Errors
    /// NFS4ERR_DELAY while the name service does not answer, [`OpStop::Deferred`](super::OpStop).
    pub fn await_client<T>(
        &self,
        decide: impl Fn(&ExportTable, ClientPeer) -> Result<T, Unresolved>,
    ) -> OpResult<T> {
        let peer = self.peer();
        // Each turn answers the question about another name.
        for _ in 0..RULES_MAX {
            let unresolved = match decide(&self.progress.exports, peer) {
                Ok(decided) => return Ok(decided),
                Err(unresolved) => unresolved,
            };
            if !self.may_wait_for_names() {
                return Err(DeferReason::Lane(NAMES_LANE).into());
            }
            if !unresolved.0.resolve(peer.ip(), peer.now, &self.names_wait_left) {
                break;
            }
        }
        Err(Nfsstat4::NFS4ERR_DELAY.into())
    }

    /// Waits until it is known which entries of a directory of the pseudo file system the client
    /// may see. Returns false if it remains unknown of some. These are left out, and hide no
    /// others.
    ///
    /// # Errors
    /// [`OpStop::Deferred`](super::OpStop).
    pub fn await_entries(&self, place: Place) -> OpResult<bool> {
        match self.await_client(|exports, peer| exports.pseudo().check_entries(place, peer)) {
            Err(stop) if stop.is(Nfsstat4::NFS4ERR_DELAY) => Ok(false),
            known => known.map(|()| true),
        }
    }
}
