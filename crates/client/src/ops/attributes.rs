//! LOOKUP, GETFH, GETATTR, SETATTR and ACCESS.

use nfs4::attributes::{KNOWN, fattr4};
use nfs4::*;

use super::{Handle, handle_and_attributes};
use crate::client::Client;
use crate::error::Error;

/// The attributes of one object, as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes(pub Fattr4<'static>);

impl Attributes {
    /// The attributes that are requested by default: those that `stat` shows.
    pub const STAT: Bitmap4 = Bitmap4::of(&[
        FATTR4_TYPE,
        FATTR4_CHANGE,
        FATTR4_SIZE,
        FATTR4_FSID,
        FATTR4_FILEID,
        FATTR4_MODE,
        FATTR4_NUMLINKS,
        FATTR4_OWNER,
        FATTR4_OWNER_GROUP,
        FATTR4_RAWDEV,
        FATTR4_SPACE_USED,
        FATTR4_TIME_ACCESS,
        FATTR4_TIME_METADATA,
        FATTR4_TIME_MODIFY,
        FATTR4_MOUNTED_ON_FILEID,
    ]);

    /// The attributes of a file system: sizes, counts and limits.
    pub const STATFS: Bitmap4 = Bitmap4::of(&[
        FATTR4_FSID,
        FATTR4_LEASE_TIME,
        FATTR4_FILES_AVAIL,
        FATTR4_FILES_FREE,
        FATTR4_FILES_TOTAL,
        FATTR4_MAXFILESIZE,
        FATTR4_MAXLINK,
        FATTR4_MAXNAME,
        FATTR4_MAXREAD,
        FATTR4_MAXWRITE,
        FATTR4_SPACE_AVAIL,
        FATTR4_SPACE_FREE,
        FATTR4_SPACE_TOTAL,
    ]);

    /// Decodes the attribute values.
    ///
    /// # Errors
    /// [`Error::Results`] if the values do not match the bitmap.
    pub fn values(&self) -> Result<AttributeValues<'_>, Error> {
        decode_fattr4(&self.0, Purpose::Learn, &KNOWN).map_err(|cause| match cause {
            AttributeError::Xdr(cause) => cause.into(),
            _ => Error::Misuse("attributes were asked for that cannot be read"),
        })
    }
}

impl Client {
    /// Looks up a path from the root of the pseudo file system.
    ///
    /// # Errors
    /// NFS4ERR_NOENT and the other errors of LOOKUP.
    pub fn lookup_path(&mut self, path: &str) -> Result<(Handle, Attributes), Error> {
        self.perform(
            |compound| compound.putrootfh().lookup_path(path).getfh().getattr(Attributes::STAT),
            |reply| {
                let mut results = reply.results();
                results.done(NfsOpnum4::OP_PUTROOTFH)?;
                for _ in path.split('/').filter(|part| !part.is_empty()) {
                    results.done(NfsOpnum4::OP_LOOKUP)?;
                }
                handle_and_attributes(&mut results)
            },
        )
    }

    /// Returns the locations of the file system at a path from the root of the pseudo file system.
    /// The file system may be absent, as that of a referral is (RFC 8881 section 11.16).
    ///
    /// # Errors
    /// The errors of LOOKUP; [`Error::Misuse`] if the server reports no locations.
    pub fn locations(&mut self, path: &str) -> Result<FsLocations4<'static>, Error> {
        let wanted = Bitmap4::of(&[FATTR4_FSID, FATTR4_FS_LOCATIONS]);
        self.perform(
            |compound| compound.putrootfh().lookup_path(path).getattr(wanted),
            |reply| {
                let mut results = reply.results();
                results.done(NfsOpnum4::OP_PUTROOTFH)?;
                for _ in path.split('/').filter(|part| !part.is_empty()) {
                    results.done(NfsOpnum4::OP_LOOKUP)?;
                }
                let found = results.take::<Getattr4Resok<'_>>(NfsOpnum4::OP_GETATTR)?.into_owned();
                let attributes = Attributes(found.obj_attributes);
                let locations = attributes.values()?.fs_locations.map(FsLocations4::into_owned);
                locations.ok_or(Error::Misuse("the server reports no locations"))
            },
        )
    }

    /// Looks up a name in a directory.
    ///
    /// # Errors
    /// NFS4ERR_NOENT and the other errors of LOOKUP.
    pub fn lookup(&mut self, directory: &[u8], name: &[u8]) -> Result<(Handle, Attributes), Error> {
        self.perform(
            |compound| compound.putfh(directory).lookup(name).getfh().getattr(Attributes::STAT),
            |reply| {
                let mut results = reply.results();
                results.done(NfsOpnum4::OP_PUTFH)?.done(NfsOpnum4::OP_LOOKUP)?;
                handle_and_attributes(&mut results)
            },
        )
    }

    /// Looks up the parent of a directory.
    ///
    /// # Errors
    /// NFS4ERR_NOENT at the root, and the other errors of LOOKUPP.
    pub fn lookup_parent(&mut self, directory: &[u8]) -> Result<(Handle, Attributes), Error> {
        self.perform(
            |compound| compound.putfh(directory).lookupp().getfh().getattr(Attributes::STAT),
            |reply| {
                let mut results = reply.results();
                results.done(NfsOpnum4::OP_PUTFH)?.done(NfsOpnum4::OP_LOOKUPP)?;
                handle_and_attributes(&mut results)
            },
        )
    }

    /// Returns the attributes in `wanted`.
    pub fn getattr(&mut self, handle: &[u8], wanted: Bitmap4) -> Result<Attributes, Error> {
        let operation = NfsArgop4::OP_GETATTR(Getattr4Args { attr_request: wanted });
        self.on(handle, &operation, |results, number| {
            Ok(Attributes(results.take::<Getattr4Resok<'_>>(number)?.into_owned().obj_attributes))
        })
    }

    /// Sets the attributes that have a value, and returns the bitmap of those set. A size needs the
    /// stateid of an open for writing, or the anonymous one.
    pub fn setattr(
        &mut self,
        handle: &[u8],
        stateid: Stateid4,
        values: &AttributeValues<'_>,
    ) -> Result<Bitmap4, Error> {
        let obj_attributes = fattr4(&values.present(), values);
        let operation = NfsArgop4::OP_SETATTR(Setattr4Args { stateid, obj_attributes });
        self.on(handle, &operation, |results, number| results.take(number))
    }

    /// Reads the access control list (RFC 8881 section 6).
    ///
    /// # Errors
    /// The errors of GETATTR; [`Error::Misuse`] if the server reports no ACL for the object.
    pub fn acl(&mut self, handle: &[u8]) -> Result<Vec<Nfsace4<'static>>, Error> {
        let attributes = self.getattr(handle, Bitmap4::of(&[FATTR4_ACL]))?;
        let list =
            attributes.values()?.acl.ok_or(Error::Misuse("the server tells no access control list"))?;
        Ok(list.into_iter().map(Nfsace4::into_owned).collect())
    }

    /// Sets the access control list.
    ///
    /// # Errors
    /// The errors of SETATTR; NFS4ERR_ATTRNOTSUPP if the server's file system cannot express the
    /// ACL.
    pub fn set_acl(&mut self, handle: &[u8], acl: Vec<Nfsace4<'_>>) -> Result<(), Error> {
        let values = AttributeValues { acl: Some(acl), ..AttributeValues::default() };
        self.setattr(handle, Stateid4::ANONYMOUS, &values).map(drop)
    }

    /// Returns the subset of the ACCESS4 bits in `wanted` that is allowed.
    pub fn access(&mut self, handle: &[u8], wanted: u32) -> Result<Access4Resok, Error> {
        let operation = NfsArgop4::OP_ACCESS(Access4Args { access: wanted });
        self.on(handle, &operation, |results, number| results.take(number))
    }
}
