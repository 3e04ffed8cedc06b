//! OPEN_DOWNGRADE and CLOSE (RFC 8881 sections 18.18 and 18.2).

use crate::{ClientKey, Result, State, Stateid4};
use std::hash::Hash;

impl<F: Clone + Eq + Hash, O: Clone> State<F, O> {
    /// Handles OPEN_DOWNGRADE on the open of `file`; the payload stays, the access that READ and WRITE have shrinks.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_INVAL (not the union of some of the owner's OPENs).
    pub fn open_downgrade(
        &mut self,
        client: ClientKey,
        stateid: &Stateid4,
        file: &F,
        access: u32,
        deny: u32,
    ) -> Result<Stateid4> {
        let _ = (client, stateid, file, access, deny);
        Err(crate::Nfsstat4::NFS4ERR_SERVERFAULT)
    }

    /// Handles CLOSE: the locks made under the open go with it, the payload comes as an effect, and the stateid to
    /// return is the invalid special one.
    ///
    /// # Errors
    /// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID.
    pub fn close(&mut self, client: ClientKey, stateid: &Stateid4, file: &F) -> Result<Stateid4> {
        let _ = (client, stateid, file);
        Err(crate::Nfsstat4::NFS4ERR_SERVERFAULT)
    }
}
