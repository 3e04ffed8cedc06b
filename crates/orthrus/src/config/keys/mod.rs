//! The keys of the configuration file in words: one table for `orthrus config` and its example.
//!
//! Tests compare the table with the parser: the names of keys, defaults, ranges, and the keys that
//! a reload applies.

mod tables;

use serde::{Serialize, Serializer};
use std::fmt::Write;

/// A table of the file.
pub(crate) struct ConfigTable {
    /// The line that opens it; empty for the keys before the first table.
    pub(crate) heading: &'static str,
    /// The part of a key's full name before the last dot.
    pub(crate) prefix: &'static str,
    /// The purpose of the table.
    pub(crate) about: &'static str,
    /// A line that the example needs before the keys.
    first: &'static str,
    /// Its keys, in the order of the example.
    pub(crate) keys: &'static [ConfigKey],
}

/// A key of the file.
#[derive(Serialize)]
pub(crate) struct ConfigKey {
    /// The name in its table.
    #[serde(skip)]
    pub(super) name: &'static str,
    /// One or more sentences; the first serves as a summary.
    pub(crate) meaning: &'static str,
    /// The allowed values, in words.
    pub(crate) allowed: &'static str,
    /// The value of a file without the key.
    pub(crate) default: KeyDefault,
    /// A value that is not the default, as it stands in the file.
    pub(crate) example: &'static str,
    /// Whether SIGHUP applies a change.
    pub(crate) reloads: bool,
}

/// The value of a key that a file does not have.
#[derive(Clone, Copy)]
pub(crate) enum KeyDefault {
    /// A value, as it would stand in the file.
    Literal(&'static str),
    /// A value that follows from others, or none.
    Absent(&'static str),
}

impl KeyDefault {
    /// Returns the text for people.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Literal(text) | Self::Absent(text) => text,
        }
    }
}

impl Serialize for KeyDefault {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.text())
    }
}

impl ConfigTable {
    /// Returns the full name of one of its keys, such as `export.sec`.
    pub(crate) fn full_name(&self, key: &ConfigKey) -> String {
        if self.prefix.is_empty() { key.name.to_owned() } else { format!("{}.{}", self.prefix, key.name) }
    }

    /// Returns a line of the file that sets a key.
    pub(crate) fn line(&self, key: &ConfigKey, value: &str) -> String {
        match self.heading {
            "[principals]" => format!("\"admin@EXAMPLE.ORG\" = {value}"),
            _ => format!("{} = {value}", key.name),
        }
    }
}

/// A key with its table.
pub(crate) type FoundKey = (&'static ConfigTable, &'static ConfigKey);

/// Returns all keys in the order of the example.
pub(crate) fn all() -> impl Iterator<Item = FoundKey> {
    tables::all().flat_map(|table| table.keys.iter().map(move |key| (table, key)))
}

/// Returns the key with a full name, or else all keys with this last part, such as `sec`, or else
/// all keys of the table, such as `export`.
pub(crate) fn find(name: &str) -> Vec<FoundKey> {
    let of = |wanted: &dyn Fn(&FoundKey) -> bool| all().filter(wanted).collect::<Vec<_>>();
    let mut found = of(&|(table, key)| table.full_name(key) == name);
    if found.is_empty() {
        found = of(&|(_, key)| key.name == name);
    }
    if found.is_empty() && !name.is_empty() {
        found = of(&|(table, _)| table.prefix == name);
    }
    found
}

/// Returns the table with a prefix, such as `export.rule`.
pub(super) fn table(prefix: &str) -> Option<&'static ConfigTable> {
    tables::all().find(|table| !prefix.is_empty() && table.prefix == prefix)
}

/// Returns the full name of the key that is most like a wrong name; `None` if none is like it.
pub(crate) fn nearest(name: &str) -> Option<String> {
    let near = |(table, key): FoundKey| {
        let full = table.full_name(key);
        (distance(name, key.name).min(distance(name, &full)), full)
    };
    let (distance, full) = all().map(near).min_by_key(|(distance, _)| *distance)?;
    is_alike(name, distance).then_some(full)
}

/// Returns the table whose heading is most like a wrong name, if possible one in the table with
/// `prefix`; `None` if none is like it.
pub(super) fn nearest_table(prefix: &str, name: &str) -> Option<&'static ConfigTable> {
    let named = tables::all().filter_map(|table| {
        let heading = table.heading.trim_matches(['[', ']']);
        let (outer, last) = heading.rsplit_once('.').unwrap_or(("", heading));
        Some((table, outer, distance(name, last))).filter(|_| !heading.is_empty())
    });
    let alike = named.filter(|(_, _, distance)| is_alike(name, *distance));
    alike.min_by_key(|(_, outer, distance)| (*outer != prefix, *distance)).map(|(table, ..)| table)
}

/// Returns the last part of the heading of a table.
fn last_name(table: &ConfigTable) -> &str {
    table.prefix.rsplit('.').next().unwrap_or_default()
}

/// Returns whether a known name at this distance is worth naming.
fn is_alike(name: &str, distance: usize) -> bool {
    distance * 2 <= name.len()
}

/// Returns the key, or the table, that is most like a wrong name in the table with `prefix`; `None`
/// if none is like it.
pub(super) fn nearest_in(
    prefix: &str,
    name: &str,
) -> Option<(&'static ConfigTable, Option<&'static ConfigKey>)> {
    let keys = all().map(|(table, key)| (key.name, table, Some(key)));
    let found = keys.chain(tables::all().map(|table| (last_name(table), table, None)));
    let alike = found.map(|(known, table, key)| (distance(name, known), table, key));
    let alike = alike.filter(|(distance, ..)| is_alike(name, *distance));
    alike
        .min_by_key(|(distance, table, _)| (*distance, table.prefix != prefix))
        .map(|(_, table, key)| (table, key))
}

/// Returns how unlike a wrong name and a known one are.
fn distance(name: &str, known: &str) -> usize {
    // A part of a name is more often short for it than a misspelt other one, if it is no syllable.
    let edits = edits(name, known);
    if name.len() > 2 && known.contains(name) { edits.min(1) } else { edits }
}

/// Counts the characters to insert, remove or replace between two names (Levenshtein's distance).
fn edits(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (index, a) in one.chars().enumerate() {
        let mut diagonal = index;
        let mut left = index + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(other.chars()) {
            let above = *cell;
            left = (diagonal + usize::from(a != b)).min(above + 1).min(left + 1);
            (diagonal, *cell) = (above, left);
        }
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

/// Returns a configuration file with every key, explained and commented out. A line without a blank
/// behind its `#` is a setting.
pub(crate) fn example() -> String {
    let mut text = String::from(
        "# The configuration of `orthrus serve`, usually /etc/orthrus/orthrus.toml.\n\
         #\n\
         # Lines that begin with \"#\" and no blank are settings: remove the \"#\". They show the default, or an\n\
         # example where there is no fixed one. A table needs its heading in brackets, too.\n\
         # `orthrus config explain KEY` explains a key, `orthrus serve --check --config FILE` tries the file,\n\
         # and SIGHUP (systemctl reload orthrus) applies changes, except those marked \"restart\".\n",
    );
    for table in tables::all() {
        if !table.heading.is_empty() {
            text.push('\n');
            comment(&mut text, table.about);
            let _ = writeln!(text, "#{}", table.heading);
        }
        if !table.first.is_empty() {
            let _ = writeln!(text, "#{}", table.first);
        }
        for key in table.keys {
            let (default, value) = match key.default {
                KeyDefault::Literal(value) => (String::new(), value),
                KeyDefault::Absent(default) => (format!(" Default: {default}."), key.example),
            };
            let restart = if key.reloads { "" } else { " (restart)" };
            text.push('\n');
            comment(&mut text, &format!("{} Allowed: {}.{default}{restart}", key.meaning, key.allowed));
            let _ = writeln!(text, "#{}", table.line(key, value));
        }
    }
    text
}

/// Columns of a comment in the example.
const COLUMNS: usize = 100;

/// Appends lines of a comment.
fn comment(text: &mut String, sentences: &str) {
    let mut line = String::from("#");
    for word in sentences.split(' ') {
        if line.len() + 1 + word.len() > COLUMNS {
            let _ = writeln!(text, "{line}");
            line = String::from("#");
        }
        let _ = write!(line, " {word}");
    }
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests;
