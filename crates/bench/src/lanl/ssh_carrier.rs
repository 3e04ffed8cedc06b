//! Copies over SSH by scp or sftp: to an SSH server of this run's, or to another host with the
//! keys, agent and known hosts that the user has for it.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};

use super::carrier::{Carried, Carrier};
use super::on_mount::compare;
use crate::CpuUse;
use crate::link::Link;
use crate::mounted::{CopyProgram, Ssh, Sshd, ensure_room, free, remove};
use crate::tools::run;

/// A fresh folder at the other end.
#[derive(Debug)]
pub struct SshCarrier {
    ssh: Ssh,
    /// The server of this run, whose folder is on this machine. The processor time of another host
    /// is not known.
    own: Option<Sshd>,
    /// None when it has been removed.
    folder: Option<PathBuf>,
    /// Names that are, or may be, on the other host.
    there: Vec<String>,
}

impl SshCarrier {
    /// Starts an SSH server, at the other end of the link if there is one; copies go to a fresh
    /// folder in `parent`.
    ///
    /// # Errors
    /// A missing program with its package, or the message of the server.
    pub fn to_own_server(parent: &Path, program: CopyProgram, link: Option<&Link>) -> Result<Self> {
        let sshd = Sshd::start(link)?;
        let ssh = sshd.way(program);
        ssh.ensure_installed()?;
        let folder = parent.join(crate::folder_name(Some("scp")));
        std::fs::create_dir(&folder)
            .with_context(|| format!("no folder can be made in {}", parent.display()))?;
        Ok(Self { ssh, own: Some(sshd), folder: Some(folder), there: Vec::new() })
    }

    /// Makes the folder in `parent` of another host.
    ///
    /// # Errors
    /// A missing program with its package; a host that does not let the user in without a question,
    /// or not write there.
    pub fn to_host(ssh: Ssh, parent: &Path) -> Result<Self> {
        let folder = parent.join(crate::folder_name(Some("scp")));
        ssh.make_folder(&folder)?;
        Ok(Self { ssh, own: None, folder: Some(folder), there: Vec::new() })
    }

    fn path(&self, name: &str) -> Result<PathBuf> {
        Ok(self.folder.as_ref().context("the folder is gone")?.join(name))
    }
}

impl Drop for SshCarrier {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

impl Carrier for SshCarrier {
    fn put(&mut self, source: &Path, name: &str, stop: &AtomicBool) -> Result<Option<Carried>> {
        let mut command = self.ssh.copy(source, &self.path(name)?)?;
        if !self.there.iter().any(|known| known == name) {
            self.there.push(name.to_owned());
        }
        let before = self.own.as_ref().and_then(Sshd::cpu);
        let ran = run(&mut command, stop);
        let said = || self.own.as_ref().map_or("scp".to_owned(), |sshd| format!("sshd: {}", sshd.said()));
        let ran = ran.with_context(said)?;
        let server =
            before.zip(self.own.as_ref().and_then(Sshd::cpu)).map(|(from, to)| to.saturating_sub(from));
        let used = |client| CpuUse { client: Some(client), server, machine: None, stages: None };
        Ok(ran.map(|ran| Carried { time: ran.time, used: used(ran.cpu) }))
    }

    /// Copies the file back to compare it, if it is on another host.
    fn compare(&mut self, source: &Path, name: &str, stop: &AtomicBool) -> Result<()> {
        if self.own.is_some() {
            return compare(source, &self.path(name)?, stop);
        }
        let back = private::temporary("orthrus-back-")?;
        ensure_room(back.path(), size(source)?, "the copies that come back to be compared")?;
        let copy = back.path().join("copy");
        let fetched = run(&mut self.ssh.fetch(&self.path(name)?, &copy)?, stop);
        if fetched.context("bringing the copy back to compare it")?.is_none() {
            return Ok(());
        }
        compare(source, &copy, stop)
    }

    fn beneath(&self, name: &str) -> Option<PathBuf> {
        self.own.as_ref().and_then(|_| self.path(name).ok())
    }

    fn free(&mut self) -> Result<Option<u64>> {
        match (&self.folder, &self.own) {
            (None, _) => Ok(None),
            (Some(folder), Some(_)) => free(folder).map(Some),
            (Some(folder), None) => Ok(self.ssh.free(folder)),
        }
    }

    fn remove(&mut self, name: &str) -> Result<()> {
        match self.own {
            Some(_) => remove(&self.path(name)?)?,
            None => self.ssh.remove(&[self.path(name)?], None)?,
        }
        self.there.retain(|known| known != name);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let Some(folder) = self.folder.take() else { return Ok(()) };
        if self.own.is_some() {
            return remove(&folder);
        }
        let left: Vec<PathBuf> = self.there.iter().map(|name| folder.join(name)).collect();
        let removed = self.ssh.remove(&left, Some(&folder));
        removed.with_context(|| format!("{}:{} stays", self.ssh.host, folder.display()))
    }
}

/// Bytes of a file, or of the files of a folder, in whole blocks.
fn size(path: &Path) -> Result<u64> {
    let found = path.metadata()?;
    if !found.is_dir() {
        return Ok(found.len().next_multiple_of(4096));
    }
    std::fs::read_dir(path)?.map(|entry| size(&entry?.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{SCP, SFTP, SSH, SSH_KEYGEN, SSHD};

    #[test]
    fn copies_go_to_a_host_come_back_to_be_compared_and_leave_nothing() {
        for tool in [SSHD, SSH_KEYGEN, SSH, SCP, SFTP] {
            if let Err(missing) = tool.find() {
                return eprintln!("skipped: {missing}");
            }
        }
        let sshd = Sshd::start(None).unwrap();
        let (dir, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
        let (source, there) = (dir.path().join("source"), dir.path().join("there"));
        std::fs::create_dir(&source).unwrap();
        std::fs::create_dir(&there).unwrap();
        std::fs::write(source.join("a"), b"contents").unwrap();
        for program in [CopyProgram::Scp, CopyProgram::Sftp] {
            let mut carrier = SshCarrier::to_host(sshd.way(program), &there).unwrap();
            for name in ["copy-0", "copy-1"] {
                let carried = carrier.put(&source, name, &stop).unwrap().unwrap();
                assert!(carried.used.client.is_some() && carried.used.server.is_none());
            }
            carrier.put(&source.join("a"), "copy-2", &stop).unwrap().unwrap();
            carrier.compare(&source, "copy-0", &stop).unwrap();
            carrier.compare(&source.join("a"), "copy-2", &stop).unwrap();
            std::fs::write(carrier.path("copy-1/a").unwrap(), b"damaged!").unwrap();
            assert!(carrier.compare(&source, "copy-1", &stop).is_err(), "a damaged copy");
            assert!(carrier.free().unwrap().is_some());
            carrier.remove("copy-0").unwrap();
            assert!(!carrier.path("copy-0").unwrap().exists());
            carrier.finish().unwrap();
            assert_eq!(std::fs::read_dir(&there).unwrap().count(), 0);
        }
        let refused =
            SshCarrier::to_host(sshd.way(CopyProgram::Scp), &dir.path().join("nothing")).unwrap_err();
        assert!(format!("{refused:#}").contains("no folder can be made"), "{refused:#}");
    }
}
