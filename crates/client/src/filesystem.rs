//! Reads and writes whole files by path.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use nfs4::*;

use crate::client::Client;
use crate::compound::Compound;
use crate::engine::{CallOptions, Ticket};
use crate::error::Error;
use crate::ops::{Attributes, Entry, Handle, OpenFile, OpenHow, read_result, write_result};
use crate::options::Options;

/// Requests in flight while a file is read or written.
const PIPELINE: usize = 16;

/// A part of a file in flight to the server.
struct FilePiece<'a> {
    offset: u64,
    data: &'a [u8],
    ticket: Ticket,
}

/// An export as a file system. Paths are relative to it and separated by `/`.
///
/// # Errors
/// A method fails with the errors of LOOKUP for the path, and of the operations that it calls.
#[derive(Debug)]
pub struct Filesystem {
    client: Client,
    root: String,
}

impl Filesystem {
    /// Connects and looks up `export`.
    ///
    /// # Errors
    /// Any of [`Client::connect`], and those of LOOKUP.
    pub fn mount(options: Options, export: &str) -> Result<Self, Error> {
        let mut client = Client::connect(options)?;
        client.lookup_path(export)?;
        Ok(Self { client, root: export.trim_end_matches('/').to_owned() })
    }

    /// Returns the underlying client.
    pub const fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Ends the session.
    ///
    /// # Errors
    /// The same as [`Client::close`].
    pub fn unmount(self) -> Result<(), Error> {
        self.client.close()
    }

    /// Returns the same file system with paths relative to a directory of it.
    #[must_use]
    pub fn below(self, path: &str) -> Self {
        Self { root: self.full(path), client: self.client }
    }

    fn full(&self, path: &str) -> String {
        format!("{}/{}", self.root, path.trim_start_matches('/'))
    }

    /// Returns the directory of a path, and the name in it.
    fn place<'a>(&mut self, path: &'a str) -> Result<(Handle, &'a [u8]), Error> {
        let (directory, name) = path.trim_end_matches('/').rsplit_once('/').unwrap_or(("", path));
        let (handle, _) = self.lookup(directory)?;
        Ok((handle, name.as_bytes()))
    }

    /// Looks up a path.
    pub fn lookup(&mut self, path: &str) -> Result<(Handle, Attributes), Error> {
        let full = self.full(path);
        self.client.lookup_path(&full)
    }

    /// Returns the attributes of a path.
    pub fn stat(&mut self, path: &str) -> Result<Attributes, Error> {
        self.lookup(path).map(|(_, attributes)| attributes)
    }

    /// Returns the attributes of the file system: sizes, counts and limits.
    pub fn statfs(&mut self, path: &str) -> Result<Attributes, Error> {
        let (handle, _) = self.lookup(path)?;
        self.client.getattr(&handle, Attributes::STATFS)
    }

    /// Returns whether a path exists.
    ///
    /// # Errors
    /// The errors of LOOKUP other than NFS4ERR_NOENT.
    pub fn exists(&mut self, path: &str) -> Result<bool, Error> {
        match self.lookup(path) {
            Ok(_) => Ok(true),
            Err(error) if error.is(Nfsstat4::NFS4ERR_NOENT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens a file, or creates it.
    pub fn open(&mut self, path: &str, how: &OpenHow) -> Result<OpenFile, Error> {
        let (directory, name) = self.place(path)?;
        self.client.open(&directory, name, how)
    }

    /// Closes a file that [`Filesystem::open`] returned.
    pub fn close(&mut self, file: &OpenFile) -> Result<(), Error> {
        self.client.close_file(file)
    }

    /// Reads a whole file.
    pub fn read_file(&mut self, path: &str) -> Result<Vec<u8>, Error> {
        let file = self.open(path, &OpenHow::read())?;
        let data = self.read_all(&file);
        self.close(&file)?;
        data
    }

    /// Reads an open file from beginning to end, with several requests in flight.
    pub fn read_all(&mut self, file: &OpenFile) -> Result<Vec<u8>, Error> {
        let piece = self.client.read_size_max();
        let mut data = Vec::new();
        self.read_pieces(file, piece, |offset, bytes| {
            // The rest of a short read is read below.
            if offset == data.len() as u64 {
                data.extend_from_slice(bytes);
            }
            Ok::<_, Error>(ControlFlow::Continue(()))
        })?;
        // Handles short reads and a file that has grown.
        loop {
            let (more, end) = self.client.read(&file.handle, file.stateid, data.len() as u64, piece)?;
            data.extend_from_slice(&more);
            if end || more.is_empty() {
                return Ok(data);
            }
        }
    }

    /// Reads an open file up to the size that it had at its open, in requests of `piece` bytes of
    /// which several are in flight. Passes the offset and the data of each reply to `take`, in
    /// order, until that breaks off.
    ///
    /// # Errors
    /// The errors of READ, and those of `take`.
    pub fn read_pieces<E: From<Error>>(
        &mut self,
        file: &OpenFile,
        piece: u32,
        mut take: impl FnMut(u64, &[u8]) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let size = file.attributes.values()?.size.unwrap_or(0);
        let (mut next, mut ahead) = (0, VecDeque::new());
        let mut read = || loop {
            while next < size && ahead.len() < PIPELINE {
                let options = CallOptions::default();
                let ticket = self.client.submit_read(&file.handle, file.stateid, next, piece, options)?;
                ahead.push_back((next, ticket));
                next += u64::from(piece);
            }
            let Some((offset, ticket)) = ahead.pop_front() else { return Ok(()) };
            let again = |compound: &mut Compound| {
                compound.putfh(&file.handle).read(file.stateid, offset, piece);
            };
            let flow = self.client.conclude(ticket, again, |reply| {
                let read = read_result(reply)?;
                Ok(take(offset, &read.data))
            })??;
            if flow.is_break() {
                return Ok(());
            }
        };
        let outcome = read();
        for (_, ticket) in ahead {
            self.client.abandon(ticket);
        }
        outcome
    }

    /// Creates or replaces a file, and commits it.
    pub fn write_file(&mut self, path: &str, data: &[u8]) -> Result<(), Error> {
        let file = self.open(path, &OpenHow::create(0o644))?;
        let written = self.write_all(&file, 0, data);
        self.close(&file)?;
        written
    }

    /// Writes `data` at `offset` of an open file with several requests in flight, and commits it.
    /// Repeats writes that a server restart may have lost.
    pub fn write_all(&mut self, file: &OpenFile, offset: u64, data: &[u8]) -> Result<(), Error> {
        loop {
            let verifiers = self.write_pieces(file, offset, data)?;
            let Some(first) = verifiers.first() else { return Ok(()) };
            let committed = self.client.commit(&file.handle, 0, 0)?;
            if *first == committed && verifiers.iter().all(|verifier| verifier == first) {
                return Ok(());
            }
        }
    }

    /// Writes all pieces and returns their write verifiers.
    fn write_pieces(&mut self, file: &OpenFile, offset: u64, data: &[u8]) -> Result<Vec<[u8; 8]>, Error> {
        let size = (self.client.write_size_max() as usize).max(1);
        let chunks = data.chunks(size).enumerate();
        let mut pieces: VecDeque<_> =
            chunks.map(|(at, chunk)| (offset + (at * size) as u64, chunk)).collect();
        let mut ahead = VecDeque::new();
        let mut verifiers = Vec::new();
        let written = loop {
            match self.write_ahead(file, &mut pieces, &mut ahead) {
                Ok(Some(verifier)) => verifiers.push(verifier),
                Ok(None) => break Ok(verifiers),
                Err(error) => break Err(error),
            }
        };
        for piece in ahead {
            self.client.abandon(piece.ticket);
        }
        written
    }

    /// Submits pieces and waits for the oldest one in flight.
    fn write_ahead<'a>(
        &mut self,
        file: &OpenFile,
        pieces: &mut VecDeque<(u64, &'a [u8])>,
        ahead: &mut VecDeque<FilePiece<'a>>,
    ) -> Result<Option<[u8; 8]>, Error> {
        while ahead.len() < PIPELINE
            && let Some((offset, data)) = pieces.pop_front()
        {
            let (stable, options) = (StableHow4::UNSTABLE4, CallOptions::default());
            let ticket =
                self.client.submit_write(&file.handle, file.stateid, offset, stable, data, options)?;
            ahead.push_back(FilePiece { offset, data, ticket });
        }
        let Some(FilePiece { offset, data, ticket }) = ahead.pop_front() else { return Ok(None) };
        let again = |compound: &mut Compound| {
            compound.putfh(&file.handle).write(file.stateid, offset, StableHow4::UNSTABLE4, data);
        };
        let written = self.client.conclude(ticket, again, write_result)?;
        let count = (written.count as usize).min(data.len());
        if count == 0 {
            return Err(Error::Nfs { operation: NfsOpnum4::OP_WRITE, status: Nfsstat4::NFS4ERR_IO });
        }
        if let Some(rest) = data.get(count..).filter(|rest| !rest.is_empty()) {
            pieces.push_front((offset + count as u64, rest));
        }
        Ok(Some(written.writeverf))
    }

    /// Returns the names in a directory, sorted.
    pub fn list(&mut self, path: &str) -> Result<Vec<String>, Error> {
        let entries = self.list_entries(path, Bitmap4::of(&[FATTR4_FILEID]))?;
        let mut names: Vec<_> =
            entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect();
        names.sort();
        Ok(names)
    }

    /// Returns the entries of a directory with the attributes in `wanted`.
    pub fn list_entries(&mut self, path: &str, wanted: Bitmap4) -> Result<Vec<Entry>, Error> {
        let (handle, _) = self.lookup(path)?;
        self.client.readdir(&handle, wanted)
    }

    /// Creates a directory with mode 0755.
    pub fn mkdir(&mut self, path: &str) -> Result<Handle, Error> {
        let (directory, name) = self.place(path)?;
        self.client.mkdir(&directory, name, 0o755)
    }

    /// Creates a symbolic link at `path`.
    pub fn symlink(&mut self, target: &str, path: &str) -> Result<Handle, Error> {
        let (directory, name) = self.place(path)?;
        self.client.symlink(&directory, name, target.as_bytes())
    }

    /// Reads the target of a symbolic link.
    pub fn readlink(&mut self, path: &str) -> Result<Vec<u8>, Error> {
        let (handle, _) = self.lookup(path)?;
        self.client.readlink(&handle)
    }

    /// Creates the hard link `new` to the file at `path`.
    pub fn link(&mut self, path: &str, new: &str) -> Result<(), Error> {
        let (file, _) = self.lookup(path)?;
        let (directory, name) = self.place(new)?;
        self.client.link(&file, &directory, name)
    }

    /// Renames a file or directory.
    pub fn rename(&mut self, old: &str, new: &str) -> Result<(), Error> {
        let (from, old) = self.place(old)?;
        let (to, new) = self.place(new)?;
        self.client.rename(&from, old, &to, new)
    }

    /// Removes a file or an empty directory.
    pub fn remove(&mut self, path: &str) -> Result<(), Error> {
        let (directory, name) = self.place(path)?;
        self.client.remove(&directory, name).map(drop)
    }

    /// Sets the attributes of a path that have a value.
    pub fn setattr(&mut self, path: &str, values: &AttributeValues<'_>) -> Result<(), Error> {
        let (handle, _) = self.lookup(path)?;
        self.client.setattr(&handle, Stateid4::ANONYMOUS, values).map(drop)
    }
}
