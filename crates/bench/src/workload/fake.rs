//! An endpoint without a server: a file in memory that answers out of order and can be told to go wrong.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow, ensure};

use crate::{Endpoint, Finished};

enum Request {
    Read { offset: usize, length: usize },
    Write { length: usize },
}

/// See the module.
pub(crate) struct Fake {
    pub(crate) file: Vec<u8>,
    pub(crate) depth: usize,
    pub(crate) size: usize,
    pub(crate) deepest: usize,
    pub(crate) commits: u32,
    /// Byte that is wrong in every read that covers it.
    pub(crate) rotten: Option<usize>,
    /// Requests after which the connection is gone.
    pub(crate) breaks_after: Option<usize>,
    names: BTreeSet<String>,
    requests: Vec<(usize, Request)>,
    started: usize,
}

impl Fake {
    pub(crate) fn new() -> Self {
        Self {
            file: Vec::new(),
            depth: 64,
            size: 1 << 20,
            deepest: 0,
            commits: 0,
            rotten: None,
            breaks_after: None,
            names: BTreeSet::new(),
            requests: Vec::new(),
            started: 0,
        }
    }

    fn start(&mut self, tag: usize, request: Request) -> Result<()> {
        self.started += 1;
        ensure!(self.breaks_after.is_none_or(|count| self.started <= count), "connection lost");
        ensure!(self.requests.len() < self.depth, "too many requests");
        ensure!(self.requests.iter().all(|(other, _)| *other != tag), "tag in use");
        self.requests.push((tag, request));
        self.deepest = self.deepest.max(self.requests.len());
        Ok(())
    }
}

impl Endpoint for Fake {
    fn depth_max(&self) -> usize {
        self.depth
    }

    fn io_size_max(&self, _write: bool) -> usize {
        self.size
    }

    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    fn start_read(&mut self, tag: usize, offset: u64, length: usize) -> Result<()> {
        self.start(tag, Request::Read { offset: offset as usize, length })
    }

    fn start_write(&mut self, tag: usize, offset: u64, data: &[u8]) -> Result<()> {
        let offset = offset as usize;
        self.file.resize(self.file.len().max(offset + data.len()), 0);
        self.file[offset..offset + data.len()].copy_from_slice(data);
        self.start(tag, Request::Write { length: data.len() })
    }

    fn wait(&mut self, done: &mut dyn FnMut(usize, Finished<'_>) -> Result<()>) -> Result<()> {
        // The youngest first, and half of them: an order that no workload may depend on.
        let count = self.requests.len().div_ceil(2);
        ensure!(count > 0, "nothing to wait for");
        for _ in 0..count {
            let (tag, request) = self.requests.pop().ok_or_else(|| anyhow!("nothing there"))?;
            match request {
                Request::Write { length } => done(tag, Finished::Written(length))?,
                Request::Read { offset, length } => {
                    let end = (offset + length).min(self.file.len());
                    let mut data = self.file[offset.min(end)..end].to_vec();
                    if let Some(rotten) = self.rotten.and_then(|at| data.get_mut(at.wrapping_sub(offset))) {
                        *rotten ^= 1;
                    }
                    done(tag, Finished::Read(&data))?;
                }
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.commits += 1;
        Ok(())
    }

    fn create(&mut self, name: &str) -> Result<()> {
        ensure!(self.names.insert(name.to_owned()), "exists");
        Ok(())
    }

    fn stat(&mut self, name: &str) -> Result<()> {
        ensure!(self.names.contains(name), "not there");
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        ensure!(self.names.remove(from), "not there");
        self.create(to)
    }

    fn list(&mut self) -> Result<usize> {
        Ok(self.names.len())
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        ensure!(self.names.remove(name), "not there");
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        ensure!(self.names.is_empty(), "files are left");
        Ok(())
    }
}
