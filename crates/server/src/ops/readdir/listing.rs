//! Writes entries as long as they fit.

use crate::attr;
use crate::engine::{Compound, Fh, Object, OpError, OpResult, OpStop};
use nfs4::{Bitmap4, FATTR4_FILEID, FATTR4_MOUNTED_ON_FILEID, FATTR4_RDATTR_ERROR, Nfsstat4};
use vfs::Caller;
use xdr::Encoder;

/// What a directory says of its entries by itself.
const OF_ENTRY: Bitmap4 = Bitmap4::of(&[FATTR4_RDATTR_ERROR, FATTR4_FILEID, FATTR4_MOUNTED_ON_FILEID]);

/// One entry before its attributes are known.
pub struct Entry<'e> {
    /// Where READDIR goes on after it.
    pub cookie: u64,
    /// Its name.
    pub name: &'e [u8],
    /// The fileid that the directory knows.
    pub fileid: u64,
}

/// A reply under way.
pub struct Listing<'l, 'c> {
    /// The COMPOUND.
    pub c: &'l Compound<'c>,
    /// Attributes asked for.
    pub wanted: Bitmap4,
    /// Length of the reply buffer that entries may not exceed.
    pub end: usize,
    /// Bytes of names and cookies that the client still wants (dircount).
    pub names_left: u64,
    /// Entries written.
    pub entries: usize,
    /// Whether an entry has not fitted.
    pub full: bool,
    /// Whether entries may be the roots of other file systems.
    pub has_mounts: bool,
}

impl Listing<'_, '_> {
    /// Adds an entry of a backend's directory; one that is gone by now is left out.
    ///
    /// # Errors
    /// Why the attributes are not to be had, when the client has not asked for rdattr_error.
    pub fn add(
        &mut self,
        entry: &Entry<'_>,
        directory: &Object,
        caller: &Caller,
        reply: &mut Encoder,
    ) -> OpResult {
        // The directory knows what a mount covers, not what is mounted.
        if self.wanted.is_subset_of(&OF_ENTRY) && !self.has_mounts {
            return self.write(entry, reply, |listing, reply| {
                listing.write_ids(entry.fileid, reply);
                Ok(())
            });
        }
        let found = directory.export.backend.lookup(caller, &directory.handle, entry.name);
        match found {
            Ok(handle) => {
                let fh = Fh::of(&directory.export, handle);
                self.write(entry, reply, |listing, reply| listing.write_attributes(&fh, reply))
            }
            Err(error) => self.write_error(entry, error.into(), reply),
        }
    }

    /// Adds an entry that leads into the pseudo file system or an export. Where the call's flavor
    /// may not go, rdattr_error says so; a client that has not asked for that gets what the
    /// directory itself knows.
    ///
    /// # Errors
    /// As [`Listing::add`].
    pub fn add_crossing(&mut self, entry: &Entry<'_>, fh: &Fh, reply: &mut Encoder) -> OpResult {
        if self.c.flavor_allowed(fh) {
            return self.write(entry, reply, |listing, reply| listing.write_attributes(fh, reply));
        }
        if self.wanted.is_subset_of(&OF_ENTRY) {
            return self.write(entry, reply, |listing, reply| {
                listing.write_ids(entry.fileid, reply);
                Ok(())
            });
        }
        if self.wanted.contains(FATTR4_RDATTR_ERROR) {
            return self.write_error(entry, Nfsstat4::NFS4ERR_WRONGSEC.into(), reply);
        }
        let covered = Fh::Pseudo(entry.fileid);
        self.write(entry, reply, |listing, reply| listing.write_attributes(&covered, reply))
    }

    /// Writes an entry whose attributes could not be had.
    fn write_error(&mut self, entry: &Entry<'_>, error: OpError, reply: &mut Encoder) -> OpResult {
        if matches!(error.status, Nfsstat4::NFS4ERR_NOENT | Nfsstat4::NFS4ERR_STALE) {
            return Ok(());
        }
        if !self.wanted.contains(FATTR4_RDATTR_ERROR) {
            return Err(error.into());
        }
        self.write(entry, reply, |_, reply| {
            reply.value(&Bitmap4::of(&[FATTR4_RDATTR_ERROR])).u32(4).u32(error.status as u32);
            Ok(())
        })
    }

    /// Writes one entry, or takes it back when it does not fit.
    fn write(
        &mut self,
        entry: &Entry<'_>,
        reply: &mut Encoder,
        attributes: impl Fn(&Self, &mut Encoder) -> OpResult,
    ) -> OpResult {
        let start = reply.len();
        reply.boolean(true).u64(entry.cookie).opaque(entry.name);
        let names = u64::try_from(reply.len() - start).unwrap_or(u64::MAX);
        if let Err(stop) = attributes(self, reply) {
            reply.truncate(start);
            return match stop {
                OpStop::Failed(error) => self.write_error(entry, error, reply),
                OpStop::Deferred(_) => Err(stop),
            };
        }
        if reply.len() > self.end || (names > self.names_left && self.entries > 0) {
            reply.truncate(start);
            self.full = true;
            return Ok(());
        }
        self.names_left = self.names_left.saturating_sub(names);
        self.entries += 1;
        Ok(())
    }

    /// Writes the attributes of an entry that the server itself has. RFC 8881 section 10.4.3 has
    /// the holder of a delegation for writing asked for another's GETATTR; here one listing would
    /// wait for as many clients as it has names. What it tells was true of the file at some time,
    /// and who has to know more asks GETATTR.
    fn write_attributes(&self, fh: &Fh, reply: &mut Encoder) -> OpResult {
        let attributes = self.c.attributes(fh)?;
        attr::encode(self.c, fh, &attributes, &self.wanted, reply)
    }

    /// Writes what the directory knows of an entry, without looking at the object.
    fn write_ids(&self, fileid: u64, reply: &mut Encoder) {
        reply.value(&self.wanted);
        let length_at = reply.len();
        reply.u32(0);
        for attribute in &self.wanted {
            match attribute {
                FATTR4_RDATTR_ERROR => reply.u32(Nfsstat4::NFS4_OK as u32),
                _ => reply.u64(fileid),
            };
        }
        let length = reply.len() - length_at - 4;
        reply.patch_u32(length_at, u32::try_from(length).unwrap_or(u32::MAX));
    }
}
