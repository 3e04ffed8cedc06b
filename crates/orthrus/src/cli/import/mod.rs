//! `orthrus import`: a configuration from that of another server.
//!
//! An import never widens access: an export that Orthrus cannot restrict to the same clients is
//! commented out.

mod exports;
mod ganesha;

use crate::output::out;
use anyhow::{Context, bail};
use clap::ValueEnum;
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a file that is imported; a larger one is refused.
const IMPORT_SIZE_MAX: u64 = 4 << 20;

/// Print a configuration from the exports of the Linux kernel's server or of NFS-Ganesha.
///
/// Options without an equivalent become comments. An export is commented out if its clients cannot
/// be restricted as before, since Orthrus knows networks but neither host names nor netgroups.
/// Read the result, and try it with `orthrus serve --check --config FILE`.
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
            for (key, value) in &export.keys {
                let _ = writeln!(text, "{mark}{key} = {value}");
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

/// Clients of an export, as far as Orthrus can tell them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ImportedClients {
    /// Whether the export is for all.
    everybody: bool,
    networks: Vec<String>,
    /// Host names, patterns and netgroups.
    unknown: Vec<String>,
}

impl ImportedClients {
    fn add(&mut self, client: &str) {
        match network(client) {
            _ if client == "*" => self.everybody = true,
            Some(network) => self.networks.push(network),
            None => self.unknown.push(client.to_owned()),
        }
    }

    /// Sets `clients` of an export, or comments the export out.
    fn apply(&self, export: &mut ImportedExport) {
        if !self.unknown.is_empty() {
            let names = self.unknown.join(", ");
            export.notes.push(format!(
                "No equivalent for clients by name: {names}. Add their addresses or networks to `clients`."
            ));
        }
        if self.everybody {
            return;
        }
        if self.networks.is_empty() {
            export.off = Some("without `clients` it would be open to all.".to_owned());
        } else {
            export.keys.push(("clients", list(&self.networks)));
        }
    }
}

/// Returns a network as Orthrus writes it; `None` for other clients.
fn network(client: &str) -> Option<String> {
    let is_valid = |text: &str| text.parse::<vfs::Network>().is_ok();
    if is_valid(client) {
        return Some(client.to_owned());
    }
    // 10.0.0.0/255.0.0.0
    let (address, mask) = client.split_once('/')?;
    let mask = u32::from(mask.parse::<std::net::Ipv4Addr>().ok()?);
    let bits = mask.leading_ones();
    let prefix = format!("{address}/{bits}");
    (mask.count_ones() == bits && is_valid(&prefix)).then_some(prefix)
}

#[cfg(test)]
mod tests;
