//! An export of a real server as [`Endpoint`], over the project's own client.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use client::{CallOptions, Client, Completion, IdentityId, Options, Reply};
use krb5::Enctype;
use nfs4::attributes::fattr4;
use nfs4::*;

use crate::{Endpoint, Finished};

mod tree;

const FILE: &str = "data";

/// What READDIR and stat ask for, much as `ls -l` does.
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

/// How large reads and writes the server wishes for.
const OFFER: Bitmap4 = Bitmap4::of(&[FATTR4_MAXREAD, FATTR4_MAXWRITE]);

/// The wait before a call that the server has put off is made again.
const DELAY: Duration = Duration::from_millis(50);

/// Bytes of directory that one READDIR asks for.
const DIRECTORY_MAX: u32 = 64 << 10;

/// A session, a folder of its own in an export, and an open file in it.
pub struct Mount {
    client: Option<Client>,
    path: String,
    folder: String,
    parent_handle: Vec<u8>,
    folder_handle: Vec<u8>,
    file_handle: Vec<u8>,
    stateid: Stateid4,
    /// Bytes of a read and of a write that the server wishes for with this flavor: its maxread and maxwrite.
    offered: [u64; 2],
    timeout: Duration,
    done: Vec<Completion>,
    /// Handles of the folders that were made below, by path.
    folders: BTreeMap<String, Vec<u8>>,
    /// Bytes of the file that were filled.
    file_size: u64,
}

impl Mount {
    /// Makes a session; `path` is the export as the server names it, `folder` what is to be made in it.
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
        };
        mount.parent_handle = mount.find_path()?;
        Ok(mount)
    }

    /// The encryption type of the session's Kerberos context; `None` with AUTH_SYS.
    pub fn enctype(&self) -> Option<&'static str> {
        let context = self.client.as_ref()?.context(IdentityId::USER)?;
        Some(enctype_name(context.keys().enctype()))
    }

    /// What the session has done and what has happened to it; nothing after its end.
    pub fn statistics(&self) -> client::Statistics {
        self.client.as_ref().map(Client::statistics).unwrap_or_default()
    }

    /// Where in the export the file is that reads and writes go to.
    pub fn file(&self) -> PathBuf {
        Path::new(&self.folder).join(FILE)
    }

    /// Notes how many bytes the file has.
    pub fn filled(&mut self, file_size: u64) {
        self.file_size = file_size;
    }

    /// How many bytes the file has, as far as [`Mount::filled`] knows.
    pub fn file_size(&self) -> u64 {
        self.file_size
    }

    /// The name of the folder in the export.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Reads and writes as much at once as the session allows, whatever the server wishes for.
    pub fn exceed_offer(&mut self) {
        self.offered = [u64::MAX; 2];
    }

    fn client(&mut self) -> Result<&mut Client> {
        self.client.as_mut().context("the session has ended")
    }

    /// Makes one call and checks that all of it succeeded. A server in its grace period is waited for.
    fn call(&mut self, build: impl Fn(&mut client::Compound)) -> Result<Reply> {
        let client = self.client()?;
        let end = Instant::now() + client.options().delay_max;
        loop {
            let mut compound = client.compound();
            build(&mut compound);
            let reply = client.call(compound)?;
            match reply.check() {
                Ok(()) => return Ok(reply),
                Err(error) if error.is_temporary() && Instant::now() < end => std::thread::sleep(DELAY),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn find_path(&mut self) -> Result<Vec<u8>> {
        let path = self.path.clone();
        let reply = self
            .call(|compound| {
                compound.putrootfh().lookup_path(&path).getfh();
            })
            .with_context(|| format!("{path} cannot be looked up"))?;
        last_handle(&reply)
    }

    fn start(&mut self, tag: usize, write: bool, build: impl FnOnce(&mut client::Compound)) -> Result<()> {
        let client = self.client()?;
        let mut compound = client.compound();
        build(&mut compound);
        let tag = (tag as u64) << 1 | u64::from(write);
        client.submit_with(compound, CallOptions { tag, ..CallOptions::default() })?;
        Ok(())
    }

    fn names(&mut self) -> Result<Vec<Vec<u8>>> {
        let handle = self.folder_handle.clone();
        let (mut names, mut cookie, mut cookieverf) = (Vec::new(), 0, [0; 8]);
        loop {
            let reply = self.call(|compound| {
                compound.putfh(&handle).readdir(Readdir4Args {
                    cookie,
                    cookieverf,
                    dircount: DIRECTORY_MAX,
                    maxcount: DIRECTORY_MAX,
                    attr_request: ATTRIBUTES,
                });
            })?;
            let mut results = reply.results();
            let listed: Readdir4Resok<'_> = results.done(NfsOpnum4::OP_PUTFH)?.take(NfsOpnum4::OP_READDIR)?;
            cookieverf = listed.cookieverf;
            let before = names.len();
            for entry in listed.reply.entries {
                cookie = entry.cookie;
                names.push(entry.name.into_owned());
            }
            if listed.reply.eof {
                return Ok(names);
            }
            ensure!(names.len() > before, "the listing does not come to an end");
        }
    }

    fn remove_from(&mut self, handle: &[u8], name: &[u8]) -> Result<()> {
        self.call(|compound| {
            compound.putfh(handle).remove(name);
        })?;
        Ok(())
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

/// Returns what the GETFH at the end of a reply gave.
fn last_handle(reply: &Reply) -> Result<Vec<u8>> {
    let mut results = reply.results();
    let mut handle = None;
    while let Some(result) = results.any()? {
        if let NfsResop4::OP_GETFH(Getfh4Res::NFS4_OK(found)) = result {
            handle = Some(found.object.into_owned());
        }
    }
    handle.context("no filehandle in the reply")
}

fn created(mode: u32) -> Fattr4<'static> {
    fattr4(&attributes::SETTABLE, &AttributeValues { mode: Some(mode), ..AttributeValues::default() })
}

fn open_arguments(name: &str) -> Open4Args<'_> {
    Open4Args {
        seqid: 0,
        share_access: OPEN4_SHARE_ACCESS_BOTH | OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
        share_deny: OPEN4_SHARE_DENY_NONE,
        owner: StateOwner4 { clientid: 0, owner: b"bench".as_slice().into() },
        openhow: Openflag4::OPEN4_CREATE(Createhow4::UNCHECKED4(created(0o644))),
        claim: OpenClaim4::CLAIM_NULL(name.as_bytes().into()),
    }
}

impl Endpoint for Mount {
    fn depth_max(&self) -> usize {
        self.client.as_ref().map_or(1, |client| client.slots() as usize)
    }

    fn io_size_max(&self, write: bool) -> usize {
        let Some(client) = &self.client else { return 0 };
        let [read, written] = self.offered;
        let (session, offered) =
            if write { (client.write_size_max(), written) } else { (client.read_size_max(), read) };
        offered.min(session.into()) as usize
    }

    fn prepare(&mut self) -> Result<()> {
        let (parent, folder) = (self.parent_handle.clone(), self.folder.clone());
        let made = self.call(|compound| {
            compound.putfh(&parent).create(Createtype4::NF4DIR, folder.as_bytes(), created(0o755)).getfh();
        });
        self.folder_handle =
            last_handle(&made.with_context(|| format!("no folder can be made in {}", self.path))?)?;
        let folder = self.folder_handle.clone();
        let opened = self.call(|compound| {
            compound.putfh(&folder).open(open_arguments(FILE)).getfh().getattr(OFFER);
        })?;
        let mut results = opened.results();
        let open: Open4Resok<'_> = results.done(NfsOpnum4::OP_PUTFH)?.take(NfsOpnum4::OP_OPEN)?;
        self.stateid = open.stateid;
        self.file_handle = results.take::<Getfh4Resok<'_>>(NfsOpnum4::OP_GETFH)?.object.into_owned();
        let offer = results.take::<Getattr4Resok<'_>>(NfsOpnum4::OP_GETATTR)?.obj_attributes;
        let offer = attributes::decode_fattr4(&offer, attributes::Purpose::Learn, &attributes::KNOWN)?;
        self.offered = [offer.maxread, offer.maxwrite].map(|most| most.unwrap_or(u64::MAX));
        Ok(())
    }

    fn start_read(&mut self, tag: usize, offset: u64, length: usize) -> Result<()> {
        let (handle, stateid) = (std::mem::take(&mut self.file_handle), self.stateid);
        let count = u32::try_from(length)?;
        let started = self.start(tag, false, |compound| {
            compound.putfh(&handle).read(stateid, offset, count);
        });
        self.file_handle = handle;
        started
    }

    fn start_write(&mut self, tag: usize, offset: u64, data: &[u8]) -> Result<()> {
        let (handle, stateid) = (std::mem::take(&mut self.file_handle), self.stateid);
        let started = self.start(tag, true, |compound| {
            compound.putfh(&handle).write(stateid, offset, StableHow4::UNSTABLE4, data);
        });
        self.file_handle = handle;
        started
    }

    fn poll(
        &mut self,
        timeout: Option<Duration>,
        done: &mut dyn FnMut(usize, Finished<'_>) -> Result<()>,
    ) -> Result<usize> {
        let mut completions = std::mem::take(&mut self.done);
        let wait = timeout.unwrap_or(self.timeout);
        let client = self.client()?;
        if client.poll(wait, &mut completions)? == 0 && timeout.is_none() {
            bail!("no answer in time");
        }
        let count = completions.len();
        for completion in completions.drain(..) {
            let reply = completion.result?;
            hand_over(completion.tag, &reply, done)?;
            client.recycle(reply);
        }
        self.done = completions;
        Ok(count)
    }

    fn commit(&mut self) -> Result<()> {
        let handle = self.file_handle.clone();
        self.call(|compound| {
            compound.putfh(&handle).commit(0, 0);
        })?;
        Ok(())
    }

    fn create(&mut self, name: &str) -> Result<()> {
        let folder = self.folder_handle.clone();
        self.call(|compound| {
            compound.putfh(&folder).open(open_arguments(name)).close(Stateid4::CURRENT);
        })?;
        Ok(())
    }

    fn stat(&mut self, name: &str) -> Result<()> {
        let folder = self.folder_handle.clone();
        self.call(|compound| {
            compound.putfh(&folder).lookup(name.as_bytes()).getfh().getattr(ATTRIBUTES);
        })?;
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let folder = self.folder_handle.clone();
        self.call(|compound| {
            compound.putfh(&folder).savefh().rename(from.as_bytes(), to.as_bytes());
        })?;
        Ok(())
    }

    fn list(&mut self) -> Result<usize> {
        Ok(self.names()?.len())
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        let folder = self.folder_handle.clone();
        self.remove_from(&folder, name.as_bytes())
    }

    fn finish(&mut self) -> Result<()> {
        if !self.file_handle.is_empty() {
            let (handle, stateid) = (std::mem::take(&mut self.file_handle), self.stateid);
            self.call(|compound| {
                compound.putfh(&handle).close(stateid);
            })?;
        }
        if !self.folder_handle.is_empty() {
            for name in self.names()? {
                let folder = self.folder_handle.clone();
                self.remove_from(&folder, &name)?;
            }
            let (parent, folder) = (self.parent_handle.clone(), self.folder.clone());
            self.remove_from(&parent, folder.as_bytes())?;
            self.folder_handle.clear();
        }
        match self.client.take() {
            Some(client) => Ok(client.close()?),
            None => Ok(()),
        }
    }
}

fn hand_over(tag: u64, reply: &Reply, done: &mut dyn FnMut(usize, Finished<'_>) -> Result<()>) -> Result<()> {
    let mut results = reply.results();
    let results = results.done(NfsOpnum4::OP_PUTFH)?;
    let own = usize::try_from(tag >> 1)?;
    if tag & 1 == 1 {
        let written: Write4Resok = results.take(NfsOpnum4::OP_WRITE)?;
        done(own, Finished::Written(written.count as usize))
    } else {
        let read: Read4Resok<'_> = results.take(NfsOpnum4::OP_READ)?;
        done(own, Finished::Read(&read.data))
    }
}
