//! scp or sftp to an SSH server of this run's.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};

use super::carrier::{Carried, Carrier};
use super::on_mount::compare;
use crate::CpuUse;
use crate::link::Link;
use crate::mounted::tools::run;
use crate::mounted::{CopyProgram, Ssh, Sshd, free, remove};

/// Copies over SSH to a folder of this machine.
#[derive(Debug)]
pub struct ByScp {
    sshd: Sshd,
    ssh: Ssh,
    folder: Option<PathBuf>,
}

impl ByScp {
    /// Starts the SSH server, at the other end of the link if there is one; copies go to a fresh
    /// folder in `parent`.
    ///
    /// # Errors
    /// A missing program with its package, or the message of the server.
    pub fn start(parent: &Path, program: CopyProgram, link: Option<&Link>) -> Result<Self> {
        let sshd = Sshd::start(link)?;
        let ssh = sshd.way(program);
        ssh.ensure_installed()?;
        let folder = parent.join(crate::folder_name(Some("scp")));
        std::fs::create_dir(&folder)
            .with_context(|| format!("no folder can be made in {}", parent.display()))?;
        Ok(Self { sshd, ssh, folder: Some(folder) })
    }

    fn path(&self, name: &str) -> Result<PathBuf> {
        Ok(self.folder.as_ref().context("the folder is gone")?.join(name))
    }
}

impl Drop for ByScp {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

impl Carrier for ByScp {
    fn put(&mut self, source: &Path, name: &str, stop: &AtomicBool) -> Result<Option<Carried>> {
        let before = self.sshd.cpu();
        let ran = run(&mut self.ssh.copy(source, &self.path(name)?)?, stop);
        let ran = ran.with_context(|| format!("sshd: {}", self.sshd.said()))?;
        let server = before.zip(self.sshd.cpu()).map(|(from, to)| to.saturating_sub(from));
        let used = |client| CpuUse { client: Some(client), server, stages: None };
        Ok(ran.map(|ran| Carried { time: ran.time, used: used(ran.cpu) }))
    }

    fn compare(&mut self, source: &Path, name: &str, stop: &AtomicBool) -> Result<()> {
        compare(source, &self.path(name)?, stop)
    }

    fn beneath(&self, name: &str) -> Option<PathBuf> {
        self.path(name).ok()
    }

    fn free(&mut self) -> Result<Option<u64>> {
        self.folder.as_ref().map(|folder| free(folder)).transpose()
    }

    fn is_local(&self) -> bool {
        true
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        remove(&self.path(name)?)
    }

    fn finish(&mut self) -> Result<()> {
        self.folder.take().map_or(Ok(()), |folder| remove(&folder))
    }
}
