//! Pages of the documentation that a command generates from the sources.

use anyhow::{Context, bail};

/// The task of a command for a generated page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageTask {
    /// Writes the page into the repository.
    Write,
    /// Fails if the page in the repository is another one.
    Check,
}

/// Writes or checks the page at a path of the repository, which `cargo xtask COMMAND` generates.
///
/// # Errors
/// The page cannot be written, or is not current.
pub(crate) fn apply(task: PageTask, path: &str, page: &str, command: &str) -> anyhow::Result<()> {
    let file = steps::root().join(path);
    match task {
        PageTask::Write => std::fs::write(&file, page).with_context(|| file.display().to_string()),
        PageTask::Check if std::fs::read_to_string(&file).unwrap_or_default() == page => Ok(()),
        PageTask::Check => bail!("{path} is not current; run `cargo xtask {command}` and commit it"),
    }
}
