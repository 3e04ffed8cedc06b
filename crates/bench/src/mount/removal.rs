//! Keeps a session, and removes the files of another one.

use super::ExportMount;
use anyhow::Result;
use client::{Client, Error};
use nfs4::{Bitmap4, Nfsstat4};

/// Folders below a folder that are followed.
const DEPTH_MAX: usize = 64;

impl ExportMount {
    /// Renews the lease by a call that does nothing else.
    ///
    /// # Errors
    /// When the session is gone, or does not answer.
    pub fn renew(&mut self) -> Result<()> {
        self.call(|_| {}).map(drop)
    }

    /// Removes a folder of the export with all that is in it. One that is not there is no error.
    ///
    /// # Errors
    /// The server's.
    pub fn remove_all(&mut self, folder: &str) -> Result<()> {
        let parent = self.parent_handle.clone();
        Ok(remove(self.client()?, &parent, folder.as_bytes(), DEPTH_MAX)?)
    }
}

fn remove(client: &mut Client, parent: &[u8], name: &[u8], depth: usize) -> Result<(), Error> {
    match client.remove(parent, name) {
        Err(error) if error.is(Nfsstat4::NFS4ERR_NOTEMPTY) && depth > 0 => {}
        Err(error) if error.is(Nfsstat4::NFS4ERR_NOENT) => return Ok(()),
        other => return other.map(drop),
    }
    let (folder, _) = client.lookup(parent, name)?;
    for entry in client.readdir(&folder, Bitmap4::default())? {
        remove(client, &folder, &entry.name, depth - 1)?;
    }
    client.remove(parent, name).map(drop)
}
