//! Files and folders by path, one call after the other, as a kernel makes them for a program that
//! waits for each.

use super::endpoint::{OWNER, open_how};
use super::{ATTRIBUTES, ExportMount};
use crate::Tree;
use anyhow::{Context as _, Result};
use client::{OpenHow, Reply};
use nfs4::{OpenClaim4, StableHow4, Stateid4};

impl ExportMount {
    /// Splits a path into the handle of its folder, which was made before, and the name there.
    fn place<'a>(&self, path: &'a str) -> Result<(Vec<u8>, &'a [u8])> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.folder_of(folder)?, name.as_bytes()))
    }

    fn folder_of(&self, path: &str) -> Result<Vec<u8>> {
        if path.is_empty() {
            return Ok(self.folder_handle.clone());
        }
        self.folders.get(path).cloned().with_context(|| format!("{path} was never made"))
    }

    fn pieces(&self) -> usize {
        use crate::Endpoint;
        self.write_size_max().max(4096)
    }
}

impl Tree for ExportMount {
    fn make_folder(&mut self, path: &str) -> Result<()> {
        let (folder, name) = self.place(path)?;
        let handle = self.client()?.mkdir(&folder, name, 0o755)?;
        self.folders.insert(path.to_owned(), handle.into_owned());
        Ok(())
    }

    fn make_file(&mut self, path: &str) -> Result<()> {
        let ((folder, name), how) = (self.place(path)?, open_how());
        Ok(self.client()?.perform(
            |compound| {
                let claim = OpenClaim4::CLAIM_NULL(name.into());
                compound.putfh(&folder).open(how.arguments(OWNER, claim)).close(Stateid4::CURRENT)
            },
            Reply::check,
        )?)
    }

    fn write_file(&mut self, path: &str, data: &[u8]) -> Result<()> {
        let ((folder, name), size) = (self.place(path)?, self.pieces());
        let client = self.client()?;
        let file = client.open(&folder, name, &OpenHow::create_new(0o644))?;
        // As in kernels: data that fits one WRITE is stable at once, more is committed at the end.
        let stable = if data.len() <= size { StableHow4::FILE_SYNC4 } else { StableHow4::UNSTABLE4 };
        let mut offset = 0;
        while let Some(rest) = data.get(offset..).filter(|rest| !rest.is_empty()) {
            let piece = rest.get(..size.min(rest.len())).unwrap_or_default();
            let written = client.write(&file.handle, file.stateid, offset as u64, stable, piece)?;
            anyhow::ensure!(written.count > 0, "nothing of {path} was written");
            offset += written.count as usize;
        }
        if stable == StableHow4::UNSTABLE4 {
            client.commit(&file.handle, 0, 0)?;
        }
        Ok(client.close_file(&file)?)
    }

    fn read_file(&mut self, path: &str) -> Result<Vec<u8>> {
        let ((folder, name), size) = (self.place(path)?, self.pieces());
        let count = u32::try_from(size)?;
        let client = self.client()?;
        let file = client.open(&folder, name, &OpenHow::read())?;
        let mut data = Vec::new();
        loop {
            let (piece, end) = client.read(&file.handle, file.stateid, data.len() as u64, count)?;
            let nothing = piece.is_empty();
            data.extend(piece);
            if end || nothing {
                break;
            }
        }
        client.close_file(&file)?;
        Ok(data)
    }

    fn look_at(&mut self, path: &str) -> Result<()> {
        let (folder, name) = self.place(path)?;
        self.client()?.lookup(&folder, name)?;
        Ok(())
    }

    fn move_file(&mut self, from: &str, to: &str) -> Result<()> {
        let ((folder, name), (new_folder, new)) = (self.place(from)?, self.place(to)?);
        Ok(self.client()?.rename(&folder, name, &new_folder, new)?)
    }

    fn list_folder(&mut self, path: &str) -> Result<usize> {
        let folder = self.folder_of(path)?;
        Ok(self.client()?.readdir(&folder, ATTRIBUTES)?.len())
    }

    fn remove_file(&mut self, path: &str) -> Result<()> {
        let (folder, name) = self.place(path)?;
        self.client()?.remove(&folder, name)?;
        Ok(())
    }

    fn remove_folder(&mut self, path: &str) -> Result<()> {
        self.remove_file(path)?;
        self.folders.remove(path);
        Ok(())
    }
}
