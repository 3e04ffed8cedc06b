//! A folder of our own in the export as [`Endpoint`]: one file with many requests in flight, and
//! small files.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use client::{CallOptions, Reply};
use nfs4::attributes::fattr4;
use nfs4::*;

use super::{ATTRIBUTES, ExportMount, FILE, last_handle};
use crate::{Endpoint, Finished};

/// The server's preferred sizes of reads and writes.
const OFFER: Bitmap4 = Bitmap4::of(&[FATTR4_MAXREAD, FATTR4_MAXWRITE]);

/// Bytes of directory that one READDIR asks for.
const DIRECTORY_MAX: u32 = 64 << 10;

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

impl ExportMount {
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

impl Endpoint for ExportMount {
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
            return Err(client::Error::Timeout.into());
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
