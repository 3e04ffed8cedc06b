//! `orthrus import`: a configuration from that of another server.
//!
//! An import never widens access: an export that Orthrus cannot restrict to the same clients is
//! commented out.

mod exports;
mod ganesha;
mod locations;
mod rules;

use crate::output::out;
use anyhow::{Context, bail};
use clap::ValueEnum;
use rules::ImportedRule;
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a file that is imported; a larger one is refused.
const IMPORT_SIZE_MAX: u64 = 4 << 20;

/// Print a configuration from the exports of the Linux kernel's server or of NFS-Ganesha.
///
/// Clients keep their options, as rules of the export. Options without an equivalent become
/// comments. An export is commented out if a client might get more than before. Read the result,
/// and try it with `orthrus serve --check --config FILE`.
#[derive(clap::Args)]
pub(super) struct ImportConfig {
    /// The file to read, such as /etc/ganesha/ganesha.conf.
    #[arg(default_value = "/etc/exports")]
    file: PathBuf,
    /// The kind of the file (default: recognised by its contents).
    #[arg(long, value_name = "KIND")]
    from: Option<ImportKind>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ImportKind {
    /// The file of exportfs(8).
    Exports,
    /// A file with EXPORT blocks.
    Ganesha,
}

/// Everything that a file of another server says.
#[derive(Debug, Default)]
struct ImportedConfig {
    /// Keys before the first table, with their values.
    settings: Vec<(&'static str, String)>,
    exports: Vec<ImportedExport>,
    /// Sentences about options that have no equivalent.
    notes: Vec<String>,
}

/// An export of another server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ImportedExport {
    /// The keys with their values, in order.
    keys: Vec<(&'static str, String)>,
    /// Rules for clients with different terms; none if all have those of the keys.
    rules: Vec<ImportedRule>,
    /// Sentences about options that have no equivalent.
    notes: Vec<String>,
    /// The reason why the export is commented out.
    off: Option<String>,
}

impl ImportConfig {
    /// Prints the configuration.
    ///
    /// # Errors
    /// The file cannot be read, or its syntax is wrong.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let text = read(&self.file).with_context(|| self.file.display().to_string())?;
        let kind = self.from.unwrap_or_else(|| recognise(&text));
        let imported = match kind {
            ImportKind::Exports => exports::import(&text),
            ImportKind::Ganesha => ganesha::import(&text),
        };
        let imported = imported.with_context(|| self.file.display().to_string())?;
        if imported.exports.is_empty() {
            bail!("{}: it exports nothing", self.file.display());
        }
        out!("{}", imported.text(&self.file));
        Ok(())
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(IMPORT_SIZE_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > IMPORT_SIZE_MAX {
        bail!("it is larger than {IMPORT_SIZE_MAX} bytes");
    }
    String::from_utf8(bytes).context("it is not UTF-8")
}

/// Recognises a file of NFS-Ganesha by its first block.
fn recognise(text: &str) -> ImportKind {
    let plain = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    match plain.filter(|line| !line.is_empty()).any(|line| line.starts_with('{') || line.ends_with('{')) {
        true => ImportKind::Ganesha,
        false => ImportKind::Exports,
    }
}

impl ImportedConfig {
    fn text(&self, file: &Path) -> String {
        let mut text = String::from("# Imported from ");
        let _ = writeln!(text, "{}.", one_line(&file.display().to_string()));
        self.notes.iter().for_each(|note| comment(&mut text, note));
        for (key, value) in &self.settings {
            let _ = writeln!(text, "{key} = {value}");
        }
        for export in &self.exports {
            text.push('\n');
            export.notes.iter().for_each(|note| comment(&mut text, note));
            let mark = match &export.off {
                Some(reason) => {
                    comment(&mut text, &format!("Commented out: {reason}"));
                    "#"
                }
                None => "",
            };
            let _ = writeln!(text, "{mark}[[export]]");
            let set = |text: &mut String, keys: &[(&str, String)]| {
                for (key, value) in keys {
                    let _ = writeln!(text, "{mark}{key} = {value}");
                }
            };
            set(&mut text, &export.keys);
            for rule in &export.rules {
                let _ = writeln!(text, "\n{mark}[[export.rule]]\n{mark}clients = {}", list(&rule.clients));
                set(&mut text, &rule.keys);
            }
        }
        text
    }
}

fn comment(text: &mut String, note: &str) {
    let _ = writeln!(text, "# {}", one_line(note));
}

/// Replaces control characters, which a comment of TOML must not have.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// Returns a string as TOML, on one line whatever is in it.
fn quoted(text: &str) -> String {
    // JSON's escapes are TOML's, but for one character that only TOML escapes.
    serde_json::Value::from(text).to_string().replace('\x7f', "\\u007f")
}

/// Returns a list of strings as TOML.
fn list<S: AsRef<str>>(texts: &[S]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| quoted(text.as_ref())).collect();
    format!("[{}]", texts.join(", "))
}

#[cfg(test)]
mod tests;
