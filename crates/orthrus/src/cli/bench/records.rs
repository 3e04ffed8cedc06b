//! `orthrus bench compare` and `orthrus bench report`: commands on records.

use super::keep::{self, Files};
use crate::output::out;
use report::Compared;
use std::path::{Path, PathBuf};
use terminal::{escape_lines, shell_word};

/// Show two runs side by side with their significant differences.
#[derive(clap::Args)]
pub(crate) struct Compare {
    /// The JSON of the first run.
    first: PathBuf,
    /// The JSON of the second run.
    second: PathBuf,
    /// Write the comparison to PREFIX.html, .json and .md [default: print it only].
    #[arg(long, value_name = "PREFIX")]
    output: Option<PathBuf>,
}

impl Compare {
    /// Prints the comparison, and writes it where that is asked for.
    ///
    /// # Errors
    /// A file that is no record, a comparison that cannot be written.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let (first, second) = (keep::read(&self.first)?, keep::read(&self.second)?);
        let names = names(&self.first, &self.second);
        let compared = Compared::of([&names[0], &names[1]], [&first, &second]);
        let mut out = String::new();
        for (name, path, record) in [(&names[0], &self.first, &first), (&names[1], &self.second, &second)] {
            out += &format!("{name}: {}: {}, {}\n", path.display(), record.title, record.target);
            out += &format!("    {}, {}\n", record.environment.processor, record.environment.program);
        }
        let shown = compared.view([&first, &second]);
        out += &format!("{}\n{}\n", report::tables(&shown), shown.headline);
        compared.notes.iter().for_each(|note| out += &format!("{note}\n"));
        out!("{}", escape_lines(&out));
        let Some(prefix) = self.output else { return Ok(()) };
        let command = format!(
            "orthrus bench compare {} {} --output {}",
            shell_word(&self.first.to_string_lossy()),
            shell_word(&self.second.to_string_lossy()),
            shell_word(&prefix.to_string_lossy())
        );
        Files::new(prefix).publish_comparison(&compared, [&first, &second], &command)
    }
}

/// Names two runs by their files; if the names are equal, by their folders too.
fn names(first: &Path, second: &Path) -> [String; 2] {
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    match (stem(first), stem(second)) {
        (one, other) if one != other => [one, other],
        _ => [first.with_extension(""), second.with_extension("")].map(|path| path.display().to_string()),
    }
}

/// Write the page and the tables of a run again.
#[derive(clap::Args)]
pub(crate) struct Report {
    /// The JSON of the run.
    record: PathBuf,
    /// Write the report to PREFIX.html, .json, .csv and .md [default: beside the record].
    #[arg(long, value_name = "PREFIX")]
    output: Option<PathBuf>,
}

impl Report {
    /// Writes it.
    ///
    /// # Errors
    /// A file that is no record, a report that cannot be written.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut record = keep::read(&self.record)?;
        // An older program may have drawn fewer figures from the same samples.
        record.summarise();
        Files::new(self.output.unwrap_or_else(|| self.record.with_extension(""))).publish(&record).map(drop)
    }
}
