//! Manual pages and completions, from the definition of the command line.

use super::Arguments;
use crate::output::{out, outln};
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use std::fs;

use std::path::{Path, PathBuf};

/// Print the completions of a shell
///
/// The shell reads them at its start:
///   orthrus completions bash > /etc/bash_completion.d/orthrus
///   orthrus completions zsh > /usr/local/share/zsh/site-functions/_orthrus
///   orthrus completions fish > /etc/fish/completions/orthrus.fish
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArguments {
    /// The shell that completes.
    shell: Shell,
}

impl CompletionsArguments {
    /// Prints the completions to standard output.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "orthrus", &mut text);
        out!("{}", String::from_utf8_lossy(&text));
        Ok(())
    }
}

/// Write the manual pages, one for each command, such as orthrus-serve.1.
#[derive(clap::Args)]
pub(crate) struct ManArguments {
    /// An existing folder, such as /usr/local/share/man/man1.
    folder: PathBuf,
}

impl ManArguments {
    /// Writes them.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut command = Arguments::command();
        // Each command gets its full name and the options that all have.
        command.build();
        let count = write_pages(&command, "orthrus", &self.folder)?;
        outln!("{count} manual pages in {}", self.folder.display());
        Ok(())
    }
}

/// Writes the page of a command and the pages of its subcommands, and returns their number.
fn write_pages(command: &clap::Command, name: &str, folder: &Path) -> anyhow::Result<usize> {
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone().display_name(name)).render(&mut page)?;
    fs::write(&path, page).with_context(|| path.display().to_string())?;
    let shown = |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
    let mut count = 1;
    for subcommand in command.get_subcommands().filter(shown) {
        count += write_pages(subcommand, &format!("{name}-{}", subcommand.get_name()), folder)?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_its_options() {
        let folder = tempfile::tempdir().unwrap();
        ManArguments { folder: folder.path().to_owned() }.run().unwrap();
        let page = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(page("orthrus-serve.1").contains("keytab"));
        assert!(page("orthrus-bench-lanl.1").contains("repetitions"));
        assert!(page("orthrus.1").contains("orthrus\\-serve(1)"));
    }

    #[test]
    fn completions_know_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "orthrus", &mut text);
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("doctor") && text.contains("keytab"), "{shell}");
        }
    }
}
