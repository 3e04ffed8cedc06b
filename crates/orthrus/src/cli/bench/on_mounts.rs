//! Evaluations on mounts, by fio and git.

use super::evaluate::{self, Asked};
use super::keep;
use super::mounts::{MountArguments, Mounts};
use crate::cli::stop;
use bench::measuring::{Record, Settings};
use bench::mounted::OnMounts;
use std::path::PathBuf;

/// Mounts that are measured, and what is known of their server.
pub struct Target {
    mounts: Mounts,
    label: String,
    server_pid: Option<u32>,
}

impl Target {
    /// Finds the mounts; `None` where the command line names none. The sides of `settings` become theirs.
    ///
    /// # Errors
    /// As [`MountArguments::resolve`].
    pub fn find(
        arguments: &MountArguments,
        port: u16,
        server_pid: Option<u32>,
        settings: &mut Settings,
    ) -> anyhow::Result<Option<Self>> {
        if !arguments.any() {
            return Ok(None);
        }
        let flavors: Vec<bench::Flavor> =
            settings.sides.iter().filter_map(|side| side.parse().ok()).collect();
        let mounts = arguments.resolve(port, &flavors)?;
        settings.sides = mounts.sides();
        settings.baseline = settings.sides.first().cloned().unwrap_or_default();
        Ok(Some(Self { mounts, label: arguments.label(), server_pid }))
    }

    /// Measures, prints the tables, and writes the report.
    ///
    /// # Errors
    /// When no side can be measured or the report cannot be written; and, after the report was written, when the run was
    /// not complete.
    pub fn measure(
        mut self,
        output: Option<PathBuf>,
        resume: Option<PathBuf>,
        asked: Asked<'_>,
    ) -> anyhow::Result<()> {
        let mut record = Record::begin(asked.name, asked.title, asked.settings.clone());
        record.target = self.label;
        let files = evaluate::begin(&mut record, output, resume.as_deref())?;
        let stop = stop::stop_flag()?;
        let places = &mut |side: &str| self.mounts.place(side, &stop);
        let mut driver = OnMounts::new(places, asked.settings.file_size, self.server_pid, &stop);
        evaluate::conduct(&mut record, &mut driver, &files, &stop, asked.evaluation, None)?;
        drop(driver);
        keep::note(&mut record, self.server_pid.is_some());
        keep::note_mounts(&mut record);
        record.notes.push(
            "The loads are those of fio and git through the kernel's client; fio does its I/O past the client's cache (O_DIRECT) on NFS."
                .to_owned(),
        );
        evaluate::publish(&record, &files)
    }
}
