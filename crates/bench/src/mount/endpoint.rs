//! A folder of our own in the export as [`Endpoint`]: one file with many requests in flight, and
//! small files.

use std::time::Duration;

use anyhow::{Context as _, Result};
use client::{CallOptions, Client, Compound, Create, OpenHow, Reply, read_result, write_result};
use nfs4::*;

use super::{ExportMount, FILE};
use crate::{Endpoint, Finished};

/// The server's preferred sizes of reads and writes, and its lease.
const OFFER: Bitmap4 = Bitmap4::of(&[FATTR4_LEASE_TIME, FATTR4_MAXREAD, FATTR4_MAXWRITE]);

/// The open-owner of files that are opened beside others of the same request.
pub(super) const OWNER: &[u8] = b"bench";

/// Opens for reading and writing, and makes the file if it is not there.
pub(super) fn open_how() -> OpenHow {
    let values = AttributeValues { mode: Some(0o644), ..AttributeValues::default() };
    OpenHow { create: Create::Unchecked(Box::new(values)), ..OpenHow::write() }.owner(OWNER)
}

/// Submits a read or write; the lowest bit of the completion's tag says which.
fn start(
    client: Option<&mut Client>,
    tag: usize,
    write: bool,
    build: impl FnOnce(&mut Compound) -> &mut Compound,
) -> Result<()> {
    let client = client.context("the session has ended")?;
    let mut compound = client.compound();
    build(&mut compound);
    let tag = (tag as u64) << 1 | u64::from(write);
    client.submit_with(compound, CallOptions { tag, ..CallOptions::default() })?;
    Ok(())
}

/// Passes on the result of a request that has the tag `tag` of [`start`].
fn finish(reply: &Reply, tag: u64, done: &mut dyn FnMut(usize, Finished<'_>) -> Result<()>) -> Result<()> {
    let own = usize::try_from(tag >> 1)?;
    match tag & 1 {
        1 => done(own, Finished::Written(write_result(reply)?.count as usize)),
        _ => done(own, Finished::Read(&read_result(reply)?.data)),
    }
}

/// Returns whether the server asks to try a request later (RFC 8881 section 15.1.1.3).
fn is_delayed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<client::Error>().is_some_and(client::Error::is_temporary)
}

impl Endpoint for ExportMount {
    fn depth_max(&self) -> usize {
        self.client.as_ref().map_or(1, |client| client.slots() as usize)
    }

    fn read_size_max(&self) -> usize {
        let [offered, _] = self.offered;
        self.client.as_ref().map_or(0, |client| offered.min(client.read_size_max().into()) as usize)
    }

    fn write_size_max(&self) -> usize {
        let [_, offered] = self.offered;
        self.client.as_ref().map_or(0, |client| offered.min(client.write_size_max().into()) as usize)
    }

    fn prepare(&mut self) -> Result<()> {
        let (parent, folder) = (self.parent_handle.clone(), self.folder.clone());
        let made = self.client()?.mkdir(&parent, folder.as_bytes(), 0o755);
        self.folder_handle =
            made.with_context(|| format!("no folder can be made in {}", self.path))?.into_owned();
        let folder = self.folder_handle.clone();
        let file = self.client()?.open(&folder, FILE.as_bytes(), &open_how())?;
        self.stateid = file.stateid;
        self.file_handle = file.handle.into_owned();
        let handle = self.file_handle.clone();
        let offer = self.client()?.getattr(&handle, OFFER)?;
        let offer = offer.values()?;
        self.offered = [offer.maxread, offer.maxwrite].map(|most| most.unwrap_or(u64::MAX));
        self.lease = offer.lease_time.map_or(self.lease, |seconds| Duration::from_secs(seconds.into()));
        Ok(())
    }

    fn start_read(&mut self, tag: usize, offset: u64, length: usize) -> Result<()> {
        let count = u32::try_from(length)?;
        start(self.client.as_mut(), tag, false, |compound| {
            compound.putfh(&self.file_handle).read(self.stateid, offset, count)
        })
    }

    fn start_write(&mut self, tag: usize, offset: u64, data: &[u8]) -> Result<()> {
        start(self.client.as_mut(), tag, true, |compound| {
            compound.putfh(&self.file_handle).write(self.stateid, offset, StableHow4::UNSTABLE4, data)
        })
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
        let (count, mut delays) = (completions.len(), 0);
        for completion in completions.drain(..) {
            let finished = completion.result.map_err(anyhow::Error::from).and_then(|reply| {
                let finished = finish(&reply, completion.tag, done);
                client.recycle(reply);
                finished
            });
            match finished {
                Err(error) if is_delayed(&error) => {
                    delays += 1;
                    done(usize::try_from(completion.tag >> 1)?, Finished::Delayed)?;
                }
                other => other?,
            }
        }
        self.done = completions;
        self.delays += delays;
        Ok(count)
    }

    fn commit(&mut self) -> Result<()> {
        let handle = self.file_handle.clone();
        self.client()?.commit(&handle, 0, 0)?;
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        if !self.file_handle.is_empty() {
            let (handle, stateid) = (std::mem::take(&mut self.file_handle), self.stateid);
            self.client()?.perform(|compound| compound.putfh(&handle).close(stateid), Reply::check)?;
        }
        if !self.folder_handle.is_empty() {
            let (folder, own) = (self.folder_handle.clone(), self.folder.clone());
            for entry in self.client()?.readdir(&folder, Bitmap4::EMPTY)? {
                self.client()?.remove(&folder, &entry.name)?;
            }
            let parent = self.parent_handle.clone();
            self.client()?.remove(&parent, own.as_bytes())?;
            self.folder_handle.clear();
        }
        match self.client.take() {
            Some(client) => Ok(client.close()?),
            None => Ok(()),
        }
    }
}
