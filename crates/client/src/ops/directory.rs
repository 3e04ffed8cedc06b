//! CREATE, REMOVE, RENAME, LINK, READLINK and READDIR.

use nfs4::attributes::fattr4;
use nfs4::*;

use super::{Attributes, Handle, handle_and_attributes};
use crate::client::Client;
use crate::error::{Error, ResultsError};
use crate::reply::Reply;

/// The largest reply to READDIR in bytes, counting names and attributes.
const READDIR_SIZE: u32 = 64 << 10;

/// The deepest tree that [`Client::remove_all`] follows.
const TREE_DEPTH_MAX: usize = 64;

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name of the entry.
    pub name: Vec<u8>,
    /// The cookie to continue the listing behind this entry.
    pub cookie: u64,
    /// The attributes that were requested.
    pub attributes: Attributes,
}

impl Client {
    /// Creates an object other than a regular file, with the attributes that have a value.
    pub fn create(
        &mut self,
        directory: &[u8],
        name: &[u8],
        kind: Createtype4<'_>,
        values: &AttributeValues<'_>,
    ) -> Result<(Handle, Attributes), Error> {
        let attributes = fattr4(&values.present(), values);
        self.perform(
            |compound| {
                compound.putfh(directory).create(kind.clone(), name, attributes.clone());
                compound.getfh().getattr(Attributes::STAT)
            },
            |reply| {
                let mut results = reply.results();
                results.done(NfsOpnum4::OP_PUTFH)?.take::<Create4Resok>(NfsOpnum4::OP_CREATE)?;
                handle_and_attributes(&mut results)
            },
        )
    }

    /// Creates a directory with `mode`.
    pub fn mkdir(&mut self, directory: &[u8], name: &[u8], mode: u32) -> Result<Handle, Error> {
        let values = AttributeValues { mode: Some(mode), ..AttributeValues::default() };
        self.create(directory, name, Createtype4::NF4DIR, &values).map(|(handle, _)| handle)
    }

    /// Creates a symbolic link to `target`.
    pub fn symlink(&mut self, directory: &[u8], name: &[u8], target: &[u8]) -> Result<Handle, Error> {
        let kind = Createtype4::NF4LNK(target.into());
        self.create(directory, name, kind, &AttributeValues::default()).map(|(handle, _)| handle)
    }

    /// Removes a file or an empty directory.
    pub fn remove(&mut self, directory: &[u8], name: &[u8]) -> Result<ChangeInfo4, Error> {
        let operation = NfsArgop4::OP_REMOVE(Remove4Args { target: name.into() });
        self.on(directory, &operation, |results, number| results.take(number))
    }

    /// Removes a file, or a directory with the objects in it, as [`Client::remove`] does. A missing
    /// name is no error.
    ///
    /// # Errors
    /// The errors of REMOVE and READDIR; NFS4ERR_NOTEMPTY for a tree deeper than 64 directories.
    pub fn remove_all(&mut self, directory: &[u8], name: &[u8]) -> Result<(), Error> {
        self.remove_below(directory, name, TREE_DEPTH_MAX)
    }

    fn remove_below(&mut self, directory: &[u8], name: &[u8], depth: usize) -> Result<(), Error> {
        match self.remove(directory, name) {
            Err(error) if error.is(Nfsstat4::NFS4ERR_NOTEMPTY) && depth > 0 => {}
            Err(error) if error.is(Nfsstat4::NFS4ERR_NOENT) => return Ok(()),
            other => return other.map(drop),
        }
        let (inner, _) = self.lookup(directory, name)?;
        for entry in self.readdir(&inner, Bitmap4::EMPTY)? {
            self.remove_below(&inner, &entry.name, depth - 1)?;
        }
        self.remove(directory, name).map(drop)
    }

    /// Renames `old` in directory `from` to `new` in directory `to`.
    pub fn rename(&mut self, from: &[u8], old: &[u8], to: &[u8], new: &[u8]) -> Result<(), Error> {
        self.perform(|compound| compound.putfh(from).savefh().putfh(to).rename(old, new), Reply::check)
    }

    /// Creates a hard link to a file.
    pub fn link(&mut self, file: &[u8], directory: &[u8], name: &[u8]) -> Result<(), Error> {
        self.perform(|compound| compound.putfh(file).savefh().putfh(directory).link(name), Reply::check)
    }

    /// Reads the target of a symbolic link.
    pub fn readlink(&mut self, handle: &[u8]) -> Result<Vec<u8>, Error> {
        self.on(handle, &NfsArgop4::OP_READLINK, |results, number| {
            Ok(results.take::<Readlink4Resok<'_>>(number)?.link.into_owned())
        })
    }

    /// Reads one chunk of a directory. The first call uses cookie 0 and a verifier of zeros.
    /// Returns the entries, the verifier for the next chunk, and whether this was the last.
    pub fn readdir_piece(
        &mut self,
        directory: &[u8],
        arguments: Readdir4Args,
    ) -> Result<(Vec<Entry>, [u8; 8], bool), Error> {
        let entry = |entry: Entry4<'_>| Entry {
            name: entry.name.into_owned(),
            cookie: entry.cookie,
            attributes: Attributes(entry.attrs.into_owned()),
        };
        self.on(directory, &NfsArgop4::OP_READDIR(arguments), |results, number| {
            let result: Readdir4Resok<'_> = results.take(number)?;
            let entries = result.reply.entries.into_iter().map(entry).collect();
            Ok((entries, result.cookieverf, result.reply.eof))
        })
    }

    /// Reads a whole directory with the attributes in `wanted`.
    ///
    /// # Errors
    /// The errors of READDIR; [`Error::Results`] if the server returns chunks without an entry or
    /// an end.
    pub fn readdir(&mut self, directory: &[u8], wanted: Bitmap4) -> Result<Vec<Entry>, Error> {
        let mut found = Vec::new();
        let mut arguments = Readdir4Args {
            cookie: 0,
            cookieverf: [0; 8],
            dircount: READDIR_SIZE / 4,
            maxcount: READDIR_SIZE.min(self.read_size_max()),
            attr_request: wanted,
        };
        loop {
            let (entries, verifier, end) = self.readdir_piece(directory, arguments)?;
            let last = entries.last().map(|entry| entry.cookie);
            found.extend(entries);
            match last {
                _ if end => return Ok(found),
                Some(cookie) => arguments = Readdir4Args { cookie, cookieverf: verifier, ..arguments },
                None => return Err(ResultsError::Missing(NfsOpnum4::OP_READDIR).into()),
            }
        }
    }
}
