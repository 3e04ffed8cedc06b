//! An export of a real server, mounted by the project's own client. `endpoint` makes the requests
//! of workloads, `tree` the requests of programs that work with paths.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::measuring::ClientLayout;
use anyhow::{Context as _, Result};
use client::{Client, Completion, Options, Reply};
use krb5::Enctype;
use nfs4::*;

mod endpoint;
mod tree;

const FILE: &str = "data";

/// The lease of a server that does not tell its own.
const LEASE_DEFAULT: Duration = Duration::from_secs(60);

/// Attributes for READDIR and stat, close to the needs of `ls -l`.
const ATTRIBUTES: Bitmap4 = Bitmap4::of(&[
    FATTR4_TYPE,
    FATTR4_CHANGE,
    FATTR4_SIZE,
    FATTR4_FSID,
    FATTR4_FILEID,
    FATTR4_MODE,
    FATTR4_NUMLINKS,
    FATTR4_OWNER,
    FATTR4_OWNER_GROUP,
    FATTR4_SPACE_USED,
    FATTR4_TIME_ACCESS,
    FATTR4_TIME_METADATA,
    FATTR4_TIME_MODIFY,
]);

/// A session, a folder of its own in an export, and an open file in it.
pub struct ExportMount {
    client: Option<Client>,
    path: String,
    folder: String,
    parent_handle: Vec<u8>,
    folder_handle: Vec<u8>,
    file_handle: Vec<u8>,
    stateid: Stateid4,
    /// Bytes of a read and of a write that the server wishes for with this flavor: its maxread and
    /// maxwrite.
    offered: [u64; 2],
    timeout: Duration,
    done: Vec<Completion>,
    /// Handles of the folders that were made below, by path.
    folders: BTreeMap<String, Vec<u8>>,
    /// Bytes of the file that were filled.
    file_size: u64,
    /// Reads and writes that the server put off.
    delays: u64,
    lease: Duration,
}

impl ExportMount {
    /// Makes a session. `path` is the server's name of the export, `folder` the folder to make in
    /// it.
    ///
    /// # Errors
    /// When the server cannot be reached, refuses the flavor or does not have the path.
    pub fn connect(options: Options, path: &str, folder: &str) -> Result<Self> {
        let timeout = options.call_timeout;
        let client = Client::connect(options).context("no session")?;
        let mut mount = Self {
            client: Some(client),
            path: path.to_owned(),
            folder: folder.to_owned(),
            parent_handle: Vec::new(),
            folder_handle: Vec::new(),
            file_handle: Vec::new(),
            stateid: Stateid4::ANONYMOUS,
            offered: [u64::MAX; 2],
            timeout,
            done: Vec::new(),
            folders: BTreeMap::new(),
            file_size: 0,
            delays: 0,
            lease: LEASE_DEFAULT,
        };
        let found = mount.client()?.lookup_path(path);
        let (parent, _) = found.with_context(|| format!("{path} cannot be looked up"))?;
        mount.parent_handle = parent.into_owned();
        Ok(mount)
    }

    /// The encryption type of the session's Kerberos context; `None` with AUTH_SYS.
    pub fn enctype(&self) -> Option<&'static str> {
        let context = self.client.as_ref()?.context()?;
        Some(enctype_name(context.keys().enctype()))
    }

    /// Returns the statistics of the session; `None` after its end.
    pub fn statistics(&self) -> client::Statistics {
        let statistics = self.client.as_ref().map(Client::statistics).unwrap_or_default();
        client::Statistics { delays: statistics.delays + self.delays, ..statistics }
    }

    /// Returns the server's lease: a session that makes no call for longer may be lost.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// Where in the export the file is that reads and writes go to.
    pub fn file(&self) -> PathBuf {
        Path::new(&self.folder).join(FILE)
    }

    /// Notes how many bytes the file has.
    pub fn filled(&mut self, file_size: u64) {
        self.file_size = file_size;
    }

    /// How many bytes the file has, as far as [`ExportMount::filled`] knows.
    pub fn file_size(&self) -> u64 {
        self.file_size
    }

    /// The name of the folder in the export.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Reads and writes at most so many bytes at once: as the server prefers, or as the session
    /// allows beyond that, but no more than `rsize` and `wsize`.
    pub(crate) fn limit(&mut self, layout: &ClientLayout) {
        if layout.exceeds_offer {
            self.offered = [u64::MAX; 2];
        }
        for (offered, size) in self.offered.iter_mut().zip([layout.rsize, layout.wsize]) {
            *offered = size.map_or(*offered, |size| u64::from(size).min(*offered));
        }
    }

    fn client(&mut self) -> Result<&mut Client> {
        self.client.as_mut().context("the session has ended")
    }

    /// Sends the requests that were started, and reads no replies.
    ///
    /// # Errors
    /// The session has ended.
    pub fn flush(&mut self) -> Result<()> {
        Ok(self.client()?.flush()?)
    }

    /// Renews the lease by a call that does nothing else.
    ///
    /// # Errors
    /// When the session is gone, or does not answer.
    pub fn renew(&mut self) -> Result<()> {
        Ok(self.client()?.perform(|compound| compound, Reply::check)?)
    }

    /// Removes a folder of the export with all that is in it. One that is not there is no error.
    ///
    /// # Errors
    /// The server's.
    pub fn remove_all(&mut self, folder: &str) -> Result<()> {
        let parent = self.parent_handle.clone();
        Ok(self.client()?.remove_all(&parent, folder.as_bytes())?)
    }
}

/// Returns the name that MIT's configuration uses.
pub(crate) fn enctype_name(enctype: Enctype) -> &'static str {
    match enctype {
        Enctype::Aes128CtsHmacSha1_96 => "aes128-cts-hmac-sha1-96",
        Enctype::Aes256CtsHmacSha1_96 => "aes256-cts-hmac-sha1-96",
        Enctype::Aes128CtsHmacSha256_128 => "aes128-cts-hmac-sha256-128",
        Enctype::Aes256CtsHmacSha384_192 => "aes256-cts-hmac-sha384-192",
    }
}
