//! An endpoint without a server: a file in memory that answers out of order and fails on request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};

use crate::{Endpoint, Finished, Tree};

enum FakeRequest {
    PutOff,
    Read { offset: usize, length: usize },
    Write { length: usize },
}

/// The endpoint and its faults.
pub(crate) struct FakeEndpoint {
    pub(crate) file: Vec<u8>,
    pub(crate) depth: usize,
    pub(crate) size: usize,
    pub(crate) deepest: usize,
    pub(crate) commits: u32,
    /// Offsets of all requests, and whether they write.
    pub(crate) places: Vec<(u64, bool)>,
    /// Byte that is wrong in every read that covers it.
    pub(crate) rotten: Option<usize>,
    /// Requests after which the connection is gone.
    pub(crate) breaks_after: Option<usize>,
    /// Requests that are put off once, by their number.
    pub(crate) delayed: BTreeSet<usize>,
    /// How long each poll takes.
    pub(crate) delay: Duration,
    /// The files of the tree, by path.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) folders: BTreeSet<String>,
    requests: Vec<(usize, FakeRequest)>,
    started: usize,
}

impl FakeEndpoint {
    pub(crate) fn new() -> Self {
        Self {
            file: Vec::new(),
            depth: 64,
            size: 1 << 20,
            deepest: 0,
            commits: 0,
            places: Vec::new(),
            rotten: None,
            breaks_after: None,
            delayed: BTreeSet::new(),
            delay: Duration::ZERO,
            files: BTreeMap::new(),
            folders: BTreeSet::new(),
            requests: Vec::new(),
            started: 0,
        }
    }

    fn start(&mut self, tag: usize, request: FakeRequest) -> Result<()> {
        self.started += 1;
        ensure!(self.breaks_after.is_none_or(|count| self.started <= count), "connection lost");
        ensure!(self.requests.len() < self.depth, "too many requests");
        ensure!(self.requests.iter().all(|(other, _)| *other != tag), "tag in use");
        let put_off = self.delayed.remove(&self.started);
        self.requests.push((tag, if put_off { FakeRequest::PutOff } else { request }));
        self.deepest = self.deepest.max(self.requests.len());
        Ok(())
    }
}

impl Endpoint for FakeEndpoint {
    fn depth_max(&self) -> usize {
        self.depth
    }

    fn read_size_max(&self) -> usize {
        self.size
    }

    fn write_size_max(&self) -> usize {
        self.size
    }

    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    fn start_read(&mut self, tag: usize, offset: u64, length: usize) -> Result<()> {
        self.places.push((offset, false));
        self.start(tag, FakeRequest::Read { offset: offset as usize, length })
    }

    fn start_write(&mut self, tag: usize, offset: u64, data: &[u8]) -> Result<()> {
        self.places.push((offset, true));
        let offset = offset as usize;
        self.file.resize(self.file.len().max(offset + data.len()), 0);
        self.file[offset..offset + data.len()].copy_from_slice(data);
        self.start(tag, FakeRequest::Write { length: data.len() })
    }

    fn poll(
        &mut self,
        timeout: Option<Duration>,
        done: &mut dyn FnMut(usize, Finished<'_>) -> Result<()>,
    ) -> Result<usize> {
        std::thread::sleep(self.delay.min(timeout.unwrap_or(self.delay)));
        // The youngest first, and half of them: an order that no workload may depend on.
        let count = self.requests.len().div_ceil(2);
        ensure!(count > 0 || timeout.is_some(), "nothing to wait for");
        for _ in 0..count {
            let (tag, request) = self.requests.pop().ok_or_else(|| anyhow!("nothing there"))?;
            match request {
                FakeRequest::PutOff => done(tag, Finished::Delayed)?,
                FakeRequest::Write { length } => done(tag, Finished::Written(length))?,
                FakeRequest::Read { offset, length } => {
                    let end = (offset + length).min(self.file.len());
                    let mut data = self.file[offset.min(end)..end].to_vec();
                    if let Some(rotten) = self.rotten.and_then(|at| data.get_mut(at.wrapping_sub(offset))) {
                        *rotten ^= 1;
                    }
                    done(tag, Finished::Read(&data))?;
                }
            }
        }
        Ok(count)
    }

    fn commit(&mut self) -> Result<()> {
        self.commits += 1;
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        ensure!(self.files.is_empty(), "files are left");
        Ok(())
    }
}

impl FakeEndpoint {
    /// Fails unless the folder that holds a path is there.
    fn parent(&self, path: &str) -> Result<()> {
        let there = path.rsplit_once('/').is_none_or(|(folder, _)| self.folders.contains(folder));
        ensure!(there, "{path}: no folder");
        Ok(())
    }

    fn below(&self, path: &str) -> usize {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        self.files.keys().chain(&self.folders).filter(|other| other.starts_with(&prefix)).count()
    }
}

impl Tree for FakeEndpoint {
    fn make_folder(&mut self, path: &str) -> Result<()> {
        self.parent(path)?;
        ensure!(self.folders.insert(path.to_owned()), "{path} exists");
        Ok(())
    }

    fn make_file(&mut self, path: &str) -> Result<()> {
        self.write_file(path, &[])
    }

    fn write_file(&mut self, path: &str, data: &[u8]) -> Result<()> {
        self.parent(path)?;
        ensure!(self.files.insert(path.to_owned(), data.to_vec()).is_none(), "{path} exists");
        Ok(())
    }

    fn read_file(&mut self, path: &str) -> Result<Vec<u8>> {
        let mut data = self.files.get(path).cloned().ok_or_else(|| anyhow!("{path} is not there"))?;
        if let Some(rotten) = self.rotten.and_then(|at| data.get_mut(at)) {
            *rotten ^= 1;
        }
        Ok(data)
    }

    fn look_at(&mut self, path: &str) -> Result<()> {
        ensure!(self.files.contains_key(path), "{path} is not there");
        Ok(())
    }

    fn move_file(&mut self, from: &str, to: &str) -> Result<()> {
        self.parent(to)?;
        let data = self.files.remove(from).ok_or_else(|| anyhow!("{from} is not there"))?;
        self.files.insert(to.to_owned(), data);
        Ok(())
    }

    fn list_folder(&mut self, path: &str) -> Result<usize> {
        ensure!(path.is_empty() || self.folders.contains(path), "{path} is not there");
        Ok(self.below(path))
    }

    fn remove_file(&mut self, path: &str) -> Result<()> {
        ensure!(self.files.remove(path).is_some(), "{path} is not there");
        Ok(())
    }

    fn remove_folder(&mut self, path: &str) -> Result<()> {
        ensure!(self.below(path) == 0, "{path} is not empty");
        ensure!(self.folders.remove(path), "{path} is not there");
        Ok(())
    }
}
