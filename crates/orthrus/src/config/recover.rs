//! Finds all mistakes of a file at once: leaves out each key that is wrong, and reads on.

use super::faults::missing_key;
use super::{ConfigError, Settings};
use serde::Deserialize;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

/// The most wrong keys of a file that are reported.
const WRONG_KEYS_MAX: usize = 100;

/// Returns the settings of `text`, the contents of `file`, without the exports and other keys that
/// are wrong, and an error for each wrong key. There are no settings if the rest cannot be told
/// apart.
pub(super) fn read(file: &Path, text: &str) -> (Option<Settings>, Vec<ConfigError>) {
    let (mut table, mut errors) = DeTable::parse_recoverable(text);
    errors.sort_by_key(|error| error.span().map(|span| span.start));
    let mut errors: Vec<_> = errors.iter().map(|error| ConfigError::from_toml(file, text, error)).collect();
    if !errors.is_empty() {
        return (None, errors);
    }
    let mut wrong_exports = Vec::new();
    while errors.len() < WRONG_KEYS_MAX {
        let error = match Settings::deserialize(Deserializer::from(table.clone())) {
            Ok(mut settings) => {
                settings.exports.retain(|export| !wrong_exports.contains(&export.offset));
                return (Some(settings), errors);
            }
            Err(error) => error,
        };
        let found = ConfigError::from_toml(file, text, &error);
        if !follows(&found, &errors, text) {
            errors.push(found);
        }
        let Some(span) = error.span() else { break };
        match remove_from_exports(table.get_mut(), &span) {
            Some(export) => wrong_exports.push(export),
            None if remove(table.get_mut(), &span) => {}
            None => break,
        }
    }
    (None, errors)
}

/// Returns whether a key is missing only because it is wrong and was removed from the table.
fn follows(error: &ConfigError, earlier: &[ConfigError], text: &str) -> bool {
    let ConfigError::At { line, message, .. } = error else { return false };
    let begins_table = |wrong: usize| {
        let above: Vec<_> = text.lines().take(wrong).collect();
        above.iter().rposition(|line| line.trim_start().starts_with('[')).map_or(wrong, |index| index + 1)
    };
    earlier.iter().any(|earlier| match earlier {
        ConfigError::At { line: wrong, key, .. } => {
            message.starts_with(&missing_key(key)) && begins_table(*wrong) == *line
        }
        _ => false,
    })
}

/// Removes the key at `span` from the table of its export, and returns the place of that table;
/// `None` if no export has it.
fn remove_from_exports(table: &mut DeTable<'_>, span: &Range<usize>) -> Option<usize> {
    let DeValue::Array(exports) = table.get_mut("export")?.get_mut() else { return None };
    let place = exports.iter().find(|export| export.span() == *span).map(|export| export.span().start);
    if let Some(start) = place {
        keep(exports, |export| export.span().start != start);
        return place;
    }
    exports.iter_mut().find_map(|export| {
        let start = export.span().start;
        remove_below(export.get_mut(), span).then_some(start)
    })
}

/// Removes the innermost key at `span`, or the element of an array of tables.
fn remove(table: &mut DeTable<'_>, span: &Range<usize>) -> bool {
    if table.iter_mut().any(|(_, value)| remove_below(value.get_mut(), span)) {
        return true;
    }
    let holds = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
    let wrong = table.iter().find(|(key, value)| holds(key.span()) || holds(value.span()));
    let wrong = wrong.map(|(key, _)| key.clone());
    wrong.is_some_and(|key| table.remove(&key).is_some())
}

fn remove_below(value: &mut DeValue<'_>, span: &Range<usize>) -> bool {
    match value {
        DeValue::Table(table) => remove(table, span),
        DeValue::Array(items) => remove_element(items, span),
        _ => false,
    }
}

fn remove_element(items: &mut DeArray<'_>, span: &Range<usize>) -> bool {
    let is_wrong = |item: &Spanned<DeValue<'_>>| item.get_ref().is_table() && item.span() == *span;
    let before = items.len();
    keep(items, |item| !is_wrong(item));
    items.len() < before || items.iter_mut().any(|item| remove_below(item.get_mut(), span))
}

fn keep<'i>(items: &mut DeArray<'i>, wanted: impl FnMut(&Spanned<DeValue<'i>>) -> bool) {
    *items = std::mem::replace(items, DeArray::new()).into_iter().filter(wanted).collect();
}
