//! Evaluations on mounts, by fio and git.

use super::arguments::TargetArguments;
use super::evaluate::{self, RunRequest};
use super::keep;
use super::mounts::{MountArguments, Mounts};
use crate::cli::stop;
use anyhow::ensure;
use bench::ServerProbe;
use bench::measuring::{Record, Settings};
use bench::mounted::{self, MountPlace, MountPlaces, OnMounts};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// The measured mounts, and the facts about their server.
pub(super) struct Target {
    mounts: Mounts,
    label: String,
    server: ServerProbe,
    by_connections: bool,
}

/// The mounts, with the signal that stops mounting.
struct UntilStopped<'a> {
    mounts: &'a mut Mounts,
    stop: &'a AtomicBool,
}

impl MountPlaces for UntilStopped<'_> {
    fn place(&mut self, variant: &str, connections: Option<u32>) -> anyhow::Result<MountPlace> {
        self.mounts.place(variant, connections, self.stop)
    }

    fn unmount(&mut self) -> anyhow::Result<()> {
        self.mounts.unmount()
    }
}

impl Target {
    /// Finds the mounts; `None` where the command line names none. The sides of `settings` become
    /// theirs.
    ///
    /// # Errors
    /// As [`MountArguments::resolve`].
    pub(super) fn find(
        arguments: &MountArguments,
        target: &TargetArguments,
        settings: &mut Settings,
    ) -> anyhow::Result<Option<Self>> {
        if !arguments.any() {
            return Ok(None);
        }
        let flavors: Vec<bench::Flavor> =
            settings.variants.iter().filter_map(|variant| variant.parse().ok()).collect();
        let mounts = arguments.resolve(target.port(), &flavors)?;
        settings.variants = mounts.variants();
        settings.baseline = settings.variants.first().cloned().unwrap_or_default();
        let (label, server) = (arguments.label(), target.probe());
        Ok(Some(Self { mounts, label, server, by_connections: false }))
    }

    /// Mounts anew for each number of connections, one among them.
    ///
    /// # Errors
    /// For folders that somebody else mounted.
    pub(super) fn by_connections(self) -> anyhow::Result<Self> {
        ensure!(
            self.mounts.are_own(),
            "a mount has one number of connections: name SERVER:/EXPORT, as root, which is mounted with each"
        );
        Ok(Self { by_connections: true, ..self })
    }

    /// Measures, prints the tables, and writes the report.
    ///
    /// # Errors
    /// When no side can be measured or the report cannot be written; and, after the report was
    /// written, when the run was not complete.
    pub(super) fn measure(
        mut self,
        output: Option<PathBuf>,
        resume: Option<PathBuf>,
        request: RunRequest<'_>,
    ) -> anyhow::Result<()> {
        let mut record = Record::begin(request.name, request.title, request.settings.clone());
        record.target = self.label;
        let files = evaluate::begin(&mut record, output, resume.as_deref())?;
        let stop = stop::stop_flag()?;
        let places = &mut UntilStopped { mounts: &mut self.mounts, stop: &stop };
        let mut driver = OnMounts::new(places, request.settings.file_size, self.server.clone(), &stop);
        if self.by_connections {
            driver = driver.by_connections();
        }
        evaluate::conduct(&mut record, &mut driver, &files, &stop, request.evaluation, None)?;
        drop(driver);
        keep::note(&mut record, self.server.pid.is_some());
        keep::note_mounts(&mut record);
        record.notes.extend(mounted::notes(&record));
        evaluate::publish(&record, &files)
    }
}
