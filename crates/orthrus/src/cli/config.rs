//! `orthrus config`: explains the configuration file.

use crate::config::{self, FoundKey};
use crate::output::out;
use anyhow::bail;
use serde::Serialize;
use std::fmt::Write as _;

/// Explain the configuration file of `orthrus serve`.
#[derive(clap::Subcommand)]
pub(super) enum ConfigCommand {
    Explain(ExplainKey),
    Example(PrintExample),
}

/// Explain a key of the configuration file, or list all keys.
///
/// Prints the meaning of the key, its allowed values, its default, an example, and whether SIGHUP
/// applies a change. A name without its table, such as `sec`, finds all keys of that name, and the
/// name of a table, such as `export`, lists its keys.
#[derive(clap::Args)]
pub(super) struct ExplainKey {
    /// The key, such as lease_time, export.sec or sec.
    key: Option<String>,
    /// Print a JSON array with an object for each key.
    #[arg(long)]
    json: bool,
}

/// Print a configuration file with every key, explained and commented out.
#[derive(clap::Args)]
pub(super) struct PrintExample {}

/// A key as JSON.
#[derive(Serialize)]
struct KeyReport {
    key: String,
    table: &'static str,
    #[serde(flatten)]
    about: &'static config::ConfigKey,
}

impl ConfigCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// There is no such key.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let text = match self {
            Self::Explain(command) => command.text()?,
            Self::Example(PrintExample {}) => config::example(),
        };
        out!("{text}");
        Ok(())
    }
}

impl ExplainKey {
    fn text(&self) -> anyhow::Result<String> {
        let found = match &self.key {
            Some(name) => config::find_key(name),
            None => config::all_keys().collect(),
        };
        if let Some(name) = &self.key
            && found.is_empty()
        {
            let nearest = config::nearest_key(name).map(|key| format!("the nearest is {key}; "));
            bail!(
                "there is no key {name:?}; {}`orthrus config explain` lists all",
                nearest.unwrap_or_default()
            );
        }
        if self.json {
            let reports: Vec<_> = found
                .into_iter()
                .map(|(table, key)| KeyReport { key: table.full_name(key), table: table.heading, about: key })
                .collect();
            return Ok(serde_json::to_string_pretty(&reports)? + "\n");
        }
        Ok(match &self.key {
            Some(name) if found.iter().all(|(table, _)| table.prefix != name) => {
                found.into_iter().map(explain).collect::<Vec<_>>().join("\n")
            }
            _ => found.into_iter().map(summary).collect(),
        })
    }
}

/// Explains a key in a few lines.
fn explain((table, key): FoundKey) -> String {
    let mut text = format!("{}\n", table.full_name(key));
    if !table.heading.is_empty() {
        let _ = writeln!(text, "  table    {}", table.heading);
    }
    let reload = if key.reloads { "SIGHUP applies a change" } else { "a change needs a restart" };
    for (label, value) in [
        ("meaning", key.meaning),
        ("allowed", key.allowed),
        ("default", key.default.text()),
        ("example", &table.line(key, key.example)),
        ("reload", reload),
    ] {
        let _ = writeln!(text, "  {label:<8} {value}");
    }
    text
}

/// Returns a line with the first sentence about a key.
fn summary((table, key): FoundKey) -> String {
    let (first, _) = key.meaning.split_once(". ").unwrap_or((key.meaning.trim_end_matches('.'), ""));
    format!("{:<28} {first}\n", table.full_name(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(key: &str, json: bool) -> anyhow::Result<String> {
        ExplainKey { key: Some(key.to_owned()), json }.text()
    }

    #[test]
    fn a_key_is_explained_in_words_and_in_json() {
        let said = text("sec", false).unwrap();
        for part in ["export.sec\n", "[[export]]", "krb5p", "example  sec = [\"krb5p\"]", "SIGHUP applies"] {
            assert!(said.contains(part), "{part} is missing: {said}");
        }
        assert!(text("lease_time", false).unwrap().contains("needs a restart"));
        let json: serde_json::Value = serde_json::from_str(&text("timeout", true).unwrap()).unwrap();
        assert_eq!(json[1]["key"], "identity.source.timeout");
        assert_eq!(json[0]["default"], "2");
        assert_eq!(json[0]["reloads"], true);
    }

    #[test]
    fn without_a_key_there_is_a_line_for_each() {
        let all = ExplainKey { key: None, json: false }.text().unwrap();
        assert_eq!(all.lines().count(), config::all_keys().count());
        assert!(all.contains("export.read_only             Refuses changes with NFS4ERR_ROFS\n"), "{all}");
    }

    #[test]
    fn the_keys_of_a_table_are_listed() {
        let keys = text("limits.rule", false).unwrap();
        assert!(
            keys.lines().all(|line| line.starts_with("limits.rule.")) && keys.contains("opens_max"),
            "{keys}"
        );
        let keys = text("export", false).unwrap();
        assert!(keys.contains("export.memory ") && !keys.contains("export.rule."), "{keys}");
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_one() {
        let error = text("read-only", false).unwrap_err().to_string();
        assert!(error.contains("read-only") && error.contains("export.read_only"), "{error}");
    }
}
