//! Encodes directory entries as long as they fit.

use crate::attr;
use crate::engine::{Compound, Fh, Object, OpError, OpResult, OpStop};
use nfs4::{Bitmap4, FATTR4_FILEID, FATTR4_MOUNTED_ON_FILEID, FATTR4_RDATTR_ERROR, Nfsstat4};
use vfs::Caller;
use xdr::Encoder;

/// Attributes of entries that the directory itself knows.
const OF_ENTRY: Bitmap4 = Bitmap4::of(&[FATTR4_RDATTR_ERROR, FATTR4_FILEID, FATTR4_MOUNTED_ON_FILEID]);

/// One entry before its attributes are known.
pub(super) struct ListedEntry<'e> {
    /// The cookie from which READDIR continues after this entry.
    pub cookie: u64,
    /// The name of the entry.
    pub name: &'e [u8],
    /// The fileid that the directory knows.
    pub fileid: u64,
}

/// The reply while it is being encoded.
pub(super) struct DirectoryListing<'l, 'c> {
    /// The COMPOUND that READDIR belongs to.
    pub c: &'l Compound<'c>,
    /// The attributes that the client requests.
    pub wanted: Bitmap4,
    /// The limit of the reply buffer's length, in bytes.
    pub end: usize,
    /// Bytes of names and cookies that the client still wants (dircount).
    pub names_left: u64,
    /// The number of entries encoded.
    pub entries: usize,
    /// Whether an entry has not fitted.
    pub full: bool,
    /// Whether entries may be the roots of other file systems.
    pub has_mounts: bool,
    /// Whether exports may be mounted on the directory.
    pub has_overlay: bool,
}

impl DirectoryListing<'_, '_> {
    /// Adds an entry of a backend's directory. An entry that is gone by now is omitted.
    ///
    /// Attributes are those that the backend has. RFC 8881 section 10.4.3 demands CB_GETATTR to the
    /// holder of a write delegation for another client's GETATTR; here one listing would wait for
    /// as many clients as it has names. The values were true at some time, and a client that needs
    /// exact ones sends GETATTR.
    ///
    /// # Errors
    /// The error of the attributes, when the client has not requested rdattr_error.
    pub(super) fn add(
        &mut self,
        entry: &ListedEntry<'_>,
        directory: &Object,
        caller: &Caller,
        reply: &mut Encoder,
    ) -> OpResult {
        // The directory knows the object below a mount, not the mounted one.
        if self.wanted.is_subset_of(&OF_ENTRY) && !self.has_mounts {
            return self.write(entry, reply, |listing, reply| {
                listing.write_ids(entry.fileid, reply);
                Ok(())
            });
        }
        // Most entries are never used afterwards, so their objects are not opened.
        let found = directory.export.backend.lookup_attributes(caller, &directory.handle, entry.name);
        match found {
            Ok((handle, attributes)) => {
                let fh = Fh::Object(directory.other(handle));
                self.write(entry, reply, |listing, reply| {
                    attr::encode(listing.c, &fh, &attributes, &listing.wanted, reply)
                })
            }
            Err(error) => self.write_error(entry, error.into(), reply),
        }
    }

    /// Adds an entry that leads into the pseudo file system or an export. If the call's flavor is
    /// not allowed there, rdattr_error reports it; a client that has not requested rdattr_error
    /// gets the attributes that the directory itself knows.
    ///
    /// # Errors
    /// As [`DirectoryListing::add`].
    pub(super) fn add_crossing(&mut self, entry: &ListedEntry<'_>, fh: &Fh, reply: &mut Encoder) -> OpResult {
        if self.c.flavor_allowed(fh)? {
            if let Fh::Object(object) = fh
                && fh.is_absent()
            {
                return self.add_absent(entry, object, reply);
            }
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

    /// Adds the root of an absent file system (RFC 8881 section 11.4.2).
    ///
    /// # Errors
    /// NFS4ERR_MOVED when the client has requested neither locations nor rdattr_error.
    fn add_absent(&mut self, entry: &ListedEntry<'_>, root: &Object, reply: &mut Encoder) -> OpResult {
        let error = match attr::asks_locations(self.c.progress.minor, &self.wanted) {
            true => Nfsstat4::NFS4_OK,
            false if self.wanted.contains(FATTR4_RDATTR_ERROR) => Nfsstat4::NFS4ERR_MOVED,
            false => return Err(Nfsstat4::NFS4ERR_MOVED.into()),
        };
        self.write(entry, reply, |listing, reply| {
            attr::encode_absent(listing.c, root, &listing.wanted, error, reply);
            Ok(())
        })
    }

    /// Encodes an entry whose attributes are not available.
    fn write_error(&mut self, entry: &ListedEntry<'_>, error: OpError, reply: &mut Encoder) -> OpResult {
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

    /// Encodes one entry, and removes it again if it does not fit.
    fn write(
        &mut self,
        entry: &ListedEntry<'_>,
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

    /// Encodes the attributes of an entry that leads to another file system.
    fn write_attributes(&self, fh: &Fh, reply: &mut Encoder) -> OpResult {
        let attributes = self.c.attributes(fh)?;
        attr::encode(self.c, fh, &attributes, &self.wanted, reply)
    }

    /// Encodes the attributes that the directory knows of an entry, without a lookup.
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
