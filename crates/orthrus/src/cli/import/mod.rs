//! `orthrus import`: a configuration from that of another server.
//!
//! An import never widens access: an export that Orthrus cannot restrict to the same clients is
//! commented out.

mod blocks;
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
/// The file that exportfs(8) reads, with those of a folder.
const EXPORTS: &str = "/etc/exports";

/// Print a configuration from the exports of the Linux kernel's server or of NFS-Ganesha.
///
/// Clients keep their options, as rules of the export. Options without an equivalent become
/// comments. An export is commented out if a client might get more than before. Read the result,
/// and try it with `orthrus serve --check --config FILE`.
#[derive(clap::Args)]
pub(super) struct ImportConfig {
    /// The file to read, such as /etc/ganesha/ganesha.conf. /etc/exports stands for
    /// /etc/exports.d/*.exports, too.
    #[arg(default_value = EXPORTS)]
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

impl ImportKind {
    fn name(self) -> &'static str {
        match self {
            Self::Exports => "exports(5)",
            Self::Ganesha => "a file of NFS-Ganesha",
        }
    }
}

/// Everything that a file of another server says.
#[derive(Debug, Default)]
struct ImportedConfig {
    /// Keys before the first table, with their values.
    settings: Vec<(&'static str, String)>,
    exports: Vec<ImportedExport>,
    /// Sentences about options that have no equivalent.
    notes: Vec<String>,
    /// The other files that the file names and that cannot be read.
    unread: Vec<String>,
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
        let imported = import(&self.file, self.from, Path::new(exports::FURTHER_EXPORTS))?;
        if imported.exports.is_empty() {
            bail!("{}: {}", self.file.display(), imported.without_exports());
        }
        out!("{}", imported.text(&self.file));
        Ok(())
    }
}

/// Imports a file, and with that of exportfs(8) those of a folder.
fn import(file: &Path, kind: Option<ImportKind>, further: &Path) -> anyhow::Result<ImportedConfig> {
    let text = read(file).with_context(|| file.display().to_string())?;
    let recognised = kind.unwrap_or_else(|| recognise(&text));
    let imported = match recognised {
        ImportKind::Exports => {
            let mut files = vec![(file.to_owned(), text)];
            let further =
                if file == Path::new(EXPORTS) { exports::further_files(further) } else { Vec::new() };
            for other in further {
                let text = read(&other).with_context(|| other.display().to_string())?;
                files.push((other, text));
            }
            exports::import(&files)
        }
        ImportKind::Ganesha => ganesha::import(file, &text).with_context(|| file.display().to_string()),
    };
    match kind {
        Some(_) => imported,
        None => imported.context(format!("read as {}; --from names another kind", recognised.name())),
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

/// Recognises a file of NFS-Ganesha by a brace, or by its directives. A path in exports(5) with a
/// brace begins with a slash.
fn recognise(text: &str) -> ImportKind {
    let plain = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let is_block = |line: &str| {
        let before = line.split_once('{').map(|(before, _)| before);
        line.starts_with('%') || before.is_some_and(|before| !before.contains(['/', '"', '(']))
    };
    if plain.into_iter().any(is_block) { ImportKind::Ganesha } else { ImportKind::Exports }
}

impl ImportedConfig {
    /// Returns the reason why there is no export.
    fn without_exports(&self) -> String {
        match &self.unread[..] {
            [] => "it exports nothing".to_owned(),
            unread => format!(
                "it exports nothing itself, and this is not read: {}; write each to a file, as by `rados get`, and name \
                 that by %include",
                unread.join(", ")
            ),
        }
    }

    fn text(&self, file: &Path) -> String {
        let mut text = String::from("# Imported from ");
        let _ = writeln!(text, "{}.", one_line(&file.display().to_string()));
        self.notes.iter().for_each(|note| comment(&mut text, note));
        self.unread.iter().for_each(|other| comment(&mut text, &format!("Not read: {other}.")));
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
    // JSON's escapes are TOML's, except for one character that only TOML escapes.
    serde_json::Value::from(text).to_string().replace('\x7f', "\\u007f")
}

/// Returns a list of strings as TOML.
fn list<S: AsRef<str>>(texts: &[S]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| quoted(text.as_ref())).collect();
    format!("[{}]", texts.join(", "))
}

#[cfg(test)]
mod tests;
