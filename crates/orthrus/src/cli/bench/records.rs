//! `orthrus bench compare` and `orthrus bench report`: what can be done with records.

use super::keep::{self, Files};
use bench::evaluation;
use std::path::PathBuf;

/// Put two runs side by side, and say what differs significantly.
#[derive(clap::Args)]
pub struct Compare {
    /// The JSON of the first run.
    first: PathBuf,
    /// The JSON of the second run.
    second: PathBuf,
}

impl Compare {
    /// Prints the comparison.
    ///
    /// # Errors
    /// A file that is no record.
    pub fn run(self) -> anyhow::Result<()> {
        let (first, second) = (keep::read(&self.first)?, keep::read(&self.second)?);
        let view = evaluation::compare(&first, &second);
        for (name, path, record) in [("first", &self.first, &first), ("second", &self.second, &second)] {
            println!("{name:7} {}: {}, {}", path.display(), record.title, record.target);
            println!("        {}, {}", record.environment.processor, record.environment.program);
        }
        print!("{}", bench::view::tables(&view));
        println!("\n{}", view.headline);
        Ok(())
    }
}

/// Write the page and the tables of a record anew.
#[derive(clap::Args)]
pub struct Report {
    /// The JSON of the run.
    record: PathBuf,
    /// Where the report goes: PREFIX.html, .json, .csv and .md [default: beside the record].
    #[arg(long, value_name = "PREFIX")]
    output: Option<PathBuf>,
}

impl Report {
    /// Writes it.
    ///
    /// # Errors
    /// A file that is no record, a report that cannot be written.
    pub fn run(self) -> anyhow::Result<()> {
        let record = keep::read(&self.record)?;
        Files::new(self.output.unwrap_or_else(|| self.record.with_extension(""))).publish(&record).map(drop)
    }
}
