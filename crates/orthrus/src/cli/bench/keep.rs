//! Keeps a record and its reports in files.

use crate::output::{errln, outln};
use anyhow::{Context, bail};
use bench::link::LinkSpec;
use bench::measuring::Record;
use bench::mounted::missing_enctypes;
use report::{
    Compared, compared_markdown, compared_page, csv, generator_notes, markdown, other_load_note, page,
    slots_notes, stages_note, terminal, view,
};
use std::cell::OnceCell;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where the files of a run go.
pub(crate) struct Files {
    prefix: PathBuf,
    /// Where they go since the first that could not be written, and why it could not.
    elsewhere: OnceCell<(PathBuf, String)>,
}

impl Files {
    /// Files that begin with `prefix`.
    pub(crate) fn new(prefix: PathBuf) -> Self {
        Self { prefix, elsewhere: OnceCell::new() }
    }

    /// Writes a file; where that fails, it and all later ones go to the folder of temporary files
    /// instead, so that no measurement is lost to a full disk.
    fn write(&self, extension: &str, content: &str) -> anyhow::Result<PathBuf> {
        if let Some((prefix, cause)) = self.elsewhere.get() {
            return write(prefix, extension, content).with_context(|| cause.clone());
        }
        let Err(error) = write(&self.prefix, extension, content) else {
            return Ok(path(&self.prefix, extension));
        };
        let name = self.prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let cause = format!("{error:#}");
        // In a folder of its own: others can place links in that of all temporary files.
        let folder = private::temporary(&format!("{name}-")).with_context(|| cause.clone())?;
        let prefix = folder.keep().join(name);
        let written = write(&prefix, extension, content).with_context(|| cause.clone())?;
        errln!("orthrus: {cause}; the report goes to {} instead", written.display());
        let _ = self.elsewhere.set((prefix, cause));
        Ok(written)
    }

    /// Saves the present measurements.
    ///
    /// # Errors
    /// A full disk and the like, if the fallback fails as well.
    pub(crate) fn save(&self, record: &Record) -> anyhow::Result<()> {
        self.write("json", &record.json()?).map(drop)
    }

    /// Checks that a report can be written there, before anything is measured.
    ///
    /// # Errors
    /// When it cannot.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.prefix.is_dir() {
            let folder = self.prefix.display();
            bail!("{folder} is a folder; name the files in it with --output, such as {folder}/report");
        }
        let part = path(&self.prefix, "json.part");
        let tried = new_file(&part).and_then(|_| std::fs::remove_file(&part));
        tried.with_context(|| {
            format!("the report cannot be written to {}; name another place with --output", part.display())
        })
    }

    /// Writes all forms of the report, prints the tables and where it is, and returns where the
    /// record is.
    ///
    /// # Errors
    /// A full disk, and the like; where the report went to another place, that is said after it was
    /// written there.
    pub(crate) fn publish(&self, record: &Record) -> anyhow::Result<PathBuf> {
        let view = view(record);
        outln!("{}", terminal(record, &view));
        let data = self.write("json", &record.json()?)?;
        let shown = self.write("html", &page(record, &view))?;
        let table = self.write("md", &markdown(record, &view))?;
        let samples = self.write("csv", &csv(record))?;
        let said = [
            ("report to look at", shown),
            ("figures as JSON", data.clone()),
            ("tables as Markdown", table),
            ("samples as CSV", samples),
        ];
        said.iter().for_each(|(name, path)| outln!("{:20}{}", format!("{name}:"), path.display()));
        match self.elsewhere.get() {
            Some((_, cause)) => bail!("{cause}; the report is in {} and beside it", data.display()),
            None => Ok(data),
        }
    }

    /// Writes all forms of a comparison, and prints where they are.
    ///
    /// # Errors
    /// A full disk, and the like.
    pub(crate) fn publish_comparison(
        &self,
        compared: &Compared,
        records: [&Record; 2],
        command: &str,
    ) -> anyhow::Result<()> {
        let shown = self.write("html", &compared_page(compared, records, command))?;
        let data = self.write("json", &compared.json()?)?;
        let table = self.write("md", &compared_markdown(compared, records, command))?;
        let said =
            [("comparison to look at", shown), ("figures as JSON", data), ("tables as Markdown", table)];
        said.iter().for_each(|(name, path)| outln!("{:24}{}", format!("{name}:"), path.display()));
        Ok(())
    }
}

fn path(prefix: &Path, extension: &str) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    PathBuf::from(name)
}

/// Writes a file atomically: the former one stays until the new one is on the disk.
fn write(prefix: &Path, extension: &str, content: &str) -> anyhow::Result<PathBuf> {
    let (path, part) = (path(prefix, extension), path(prefix, &format!("{extension}.part")));
    let all = || -> std::io::Result<()> {
        let mut file = new_file(&part)?;
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&part, &path)
    };
    let written = all();
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written.with_context(|| {
        format!(
            "the report cannot be written to {}; make room or name another place with --output",
            path.display()
        )
    })?;
    Ok(path)
}

/// Makes a file in place of one that an earlier run has left. A link at its name is not followed.
fn new_file(path: &Path) -> std::io::Result<File> {
    let _ = std::fs::remove_file(path);
    File::create_new(path)
}

/// Reads a record from its file.
///
/// # Errors
/// When it is not there or no record.
pub(super) fn read(path: &Path) -> anyhow::Result<Record> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    Record::parse(&text).with_context(|| format!("{} cannot be used", path.display()))
}

/// Notes the mount options of the measured mounts in a record.
pub(super) fn note_mounts(record: &mut Record) {
    let mounts: Vec<String> =
        record.environment.mounts.iter().map(|facts| format!("{}.", facts.words())).collect();
    record.notes.extend(mounts);
    record.notes.extend(missing_enctypes(&record.environment.mounts));
}

/// Adds a record's notes on its own conditions.
pub(super) fn note(record: &mut Record, local: bool) {
    if local {
        let cores = record.environment.cores;
        record.notes.push(format!(
            "Client and server shared this machine and its {cores} cores: what one of them uses the other cannot. Figures of two machines are higher."
        ));
    }
    if let Some(link) = record.environment.link {
        record.notes.push(link_note(link));
    }
    let notes = other_load_note(record, local).into_iter().chain(generator_notes(record));
    let notes: Vec<String> = notes.chain(slots_notes(record)).chain(stages_note(record)).collect();
    record.notes.extend(notes);
}

/// Describes a simulated link for the reader.
fn link_note(link: LinkSpec) -> String {
    let delay = match link.delay_us {
        0 => {
            "it adds no delay, where a real network's switches and cards add some 10 to 100 µs, beside which the latency of protection would be less"
        }
        _ => "its delay is added to what client and server take",
    };
    format!(
        "Between client and server was a link of {link}, made in the kernel: it limits the rate as Ethernet does, and {delay}. \
         After an idle time {} KiB pass at once. Client, server and link had the same cores.",
        link.burst() >> 10
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_link_at_the_name_of_a_part_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let victim = folder.path().join("victim");
        std::fs::write(&victim, "kept").expect("it is written");
        let files = Files::new(folder.path().join("report"));
        let link = || symlink(&victim, folder.path().join("report.json.part")).expect("it is free");
        link();
        files.check().expect("the folder is writable");
        link();
        assert_eq!(files.write("json", "new").expect("it is written"), folder.path().join("report.json"));
        assert_eq!(std::fs::read_to_string(&victim).expect("it is there"), "kept");
    }

    #[test]
    fn a_report_without_its_place_goes_to_a_folder_of_its_own() {
        let files = Files::new(PathBuf::from("/no/such/folder/report"));
        let first = files.write("json", "{}").expect("there is another place");
        let second = files.write("md", "").expect("it is the same place");
        let folder = first.parent().expect("it has one");
        let mode = std::fs::metadata(folder).expect("it is there").permissions().mode();
        assert_eq!((second.parent(), mode & 0o777), (Some(folder), 0o700));
        std::fs::remove_dir_all(folder).expect("it is ours");
    }
}
