//! The parser's errors in the words of the table of keys.

use super::SourceSettings;
use super::error::key_of;
use super::keys::{self, FoundKey};
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue, Deserializer};

/// The longest value that a message repeats.
const SHOWN_VALUE_MAX: usize = 40;

/// Returns the place of the parser's error in `text` and a message that names allowed values or
/// keys; `None` if the parser's own message does.
pub(super) fn explain(text: &str, error: &toml::de::Error) -> Option<(Range<usize>, String)> {
    let span = error.span()?;
    let Ok(file) = DeTable::parse(text) else { return explain_syntax(text, span) };
    let message = error.message();
    let mut path = Vec::new();
    locate(file.get_ref(), &span, &mut path);
    if let Some(name) = quoted_after(message, "missing field ") {
        let known = key_at(&format!("{}.{name}", names(&path))).map(|key| format!("; {}", allowed(key)));
        return Some((span, missing_key(name) + &known.unwrap_or_default()));
    }
    if names(&path) == "identity.source" {
        path.extend(wrong_source_key(file.get_ref(), &span, message));
    }
    if let Some(name) = quoted_after(message, "unknown field ") {
        let at = path.last().map_or(span, |place| place.key.clone());
        path.pop_if(|place| place.name == name);
        let table = names(&path);
        let above = text.get(..at.start).unwrap_or_default();
        let is_heading = above.lines().next_back().is_some_and(|line| line.trim_start().starts_with('['));
        let nearest = is_heading.then(|| unknown_table(&table, name)).flatten();
        return Some((at, nearest.unwrap_or_else(|| unknown_key(&table, name))));
    }
    let kinds = ["invalid type", "invalid value", "unknown variant"];
    if !kinds.iter().any(|kind| message.starts_with(kind)) {
        let own = path.last().filter(|_| names(&path).starts_with("identity.source."))?;
        return Some((own.value.clone(), message.to_owned()));
    }
    let value = path.last().map_or(&span, |place| &place.value);
    let holds = value.start <= span.start && span.end <= value.end;
    let at = if holds { span } else { value.clone() };
    let message = wrong_value(&names(&path), text.get(at.clone()).unwrap_or_default())?;
    Some((at, message))
}

/// Returns the first word in backticks behind `prefix`.
fn quoted_after<'a>(message: &'a str, prefix: &str) -> Option<&'a str> {
    message.strip_prefix(prefix)?.split('`').nth(1)
}

/// Returns the message for a key that a table needs and does not have.
pub(super) fn missing_key(name: &str) -> String {
    format!("`{name}` is missing")
}

/// A key on the way from the top of the file to an error.
struct KeyPlace {
    name: String,
    key: Range<usize>,
    value: Range<usize>,
}

fn key_place(key: &Spanned<DeString<'_>>, value: &Spanned<DeValue<'_>>) -> KeyPlace {
    KeyPlace { name: key.get_ref().to_string(), key: key.span(), value: value.span() }
}

fn names(path: &[KeyPlace]) -> String {
    path.iter().map(|place| &*place.name).collect::<Vec<_>>().join(".")
}

/// Appends the keys of `table` that lead to `span`, and returns whether there are any. The span of
/// a table may be that of its heading, so the keys in it are searched first.
fn locate(table: &DeTable<'_>, span: &Range<usize>, path: &mut Vec<KeyPlace>) -> bool {
    let holds = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
    for (key, value) in table {
        path.push(key_place(key, value));
        let inside = match value.get_ref() {
            DeValue::Table(inner) => locate(inner, span, path),
            DeValue::Array(items) => items.iter().any(|item| match item.get_ref() {
                DeValue::Table(inner) => locate(inner, span, path) || holds(item.span()),
                _ => false,
            }),
            _ => false,
        };
        if inside {
            return true;
        }
        path.pop();
    }
    let own = table.iter().find(|(key, value)| holds(key.span()) || holds(value.span()));
    path.extend(own.map(|(key, value)| key_place(key, value)));
    own.is_some()
}

/// Returns the key for which the source at `span` is refused. The parser knows the place of the
/// source alone; a key is wrong if the source is refused for the same reason without the others.
fn wrong_source_key(file: &DeTable<'_>, span: &Range<usize>, message: &str) -> Option<KeyPlace> {
    let sources = file.get("identity")?.get_ref().get("source")?.get_ref().as_array()?;
    let source = sources.iter().find(|source| source.span() == *span)?.get_ref().as_table()?;
    let refused = |name: &str| {
        let known = source.iter().filter(|(key, _)| ["kind", name].contains(&&**key.get_ref()));
        let alone: DeTable<'_> = known.map(|(key, value)| (key.clone(), value.clone())).collect();
        let read = SourceSettings::deserialize(Deserializer::from(Spanned::new(0..0, alone)));
        read.is_err_and(|error| error.message() == message)
    };
    let mut names = std::iter::once("kind").chain(source.keys().map(|key| &**key.get_ref()));
    let wrong = names.find(|name| refused(name))?;
    source.get_key_value(wrong).map(|(key, value)| key_place(key, value))
}

/// Returns the message for a value that the key at `path`, or the table, does not allow.
fn wrong_value(path: &str, value: &str) -> Option<String> {
    if let Some(table) = keys::table(path) {
        return Some(format!("write {} on a line of its own, and its keys below", table.heading));
    }
    key_at(path).map(|found| not_allowed(found, value))
}

fn not_allowed((table, key): FoundKey, value: &str) -> String {
    let shown = value.len() <= SHOWN_VALUE_MAX && !value.contains('\n');
    let value = if shown { format!("`{value}`") } else { "the value".to_owned() };
    format!("{value} is not allowed here; {}", allowed((table, key)))
}

fn allowed((table, key): FoundKey) -> String {
    format!("allowed: {}; such as {}", key.allowed, table.line(key, key.example))
}

/// Returns the key that a path leads to, or leads through: a table of users has names of its own.
fn key_at(path: &str) -> Option<FoundKey> {
    let exact = keys::all().find(|(table, key)| table.full_name(key) == path);
    exact.or_else(|| key_at(path.rsplit_once('.')?.0))
}

/// Options of exports(5) with another name here, and the line that stands for each.
const OPTIONS: &[(&str, &str)] = &[
    ("ro", "read_only = true"),
    ("rw", "read_only = false, the default"),
    ("insecure", "secure = false"),
    ("root_squash", "squash = \"root\", the default"),
    ("no_root_squash", "squash = \"none\""),
    ("all_squash", "squash = \"all\""),
    ("crossmnt", "nested = \"show\""),
    ("nohide", "nested = \"show\""),
];

/// Returns the message for the heading of a table that the one with the prefix `path` does not
/// have, if another is like it.
fn unknown_table(path: &str, name: &str) -> Option<String> {
    let nearest = keys::nearest_table(path, name)?;
    Some(format!("there is no key `{name}`; the nearest is {}", nearest.heading))
}

/// Returns the message for a key that the table with the prefix `path` does not have.
fn unknown_key(path: &str, name: &str) -> String {
    if let Some(found) = key_at(path) {
        return not_allowed(found, name);
    }
    if let Some((_, line)) = OPTIONS.iter().find(|(option, _)| *option == name) {
        return format!("there is no key `{name}`; write {line}");
    }
    let belongs = |(table, _): &FoundKey| match table.heading {
        "" => "above the first [table]".to_owned(),
        _ if table.prefix == path => "to a source of another kind".to_owned(),
        heading => format!("to {heading}"),
    };
    let mut places: Vec<_> =
        keys::all().filter(|(_, key)| key.name == name).map(|found| belongs(&found)).collect();
    places.dedup();
    if !places.is_empty() {
        return format!("`{name}` belongs {}", places.join(" or "));
    }
    let nearest = match keys::nearest_in(path, name) {
        Some((table, Some(key))) if table.prefix == path => format!("the nearest is `{}`", key.name),
        Some((table, Some(key))) => {
            format!("the nearest is `{}`, which belongs {}", key.name, belongs(&(table, key)))
        }
        Some((table, None)) => format!("the nearest is {}", table.heading),
        None => "`orthrus config explain` lists all".to_owned(),
    };
    format!("there is no key `{name}`; {nearest}")
}

/// Explains a line that is not TOML, such as a word without quotes.
fn explain_syntax(text: &str, span: Range<usize>) -> Option<(Range<usize>, String)> {
    let above = text.get(..span.start)?;
    let start = above.rfind('\n').map_or(0, |end| end + 1);
    let (above, line) = (text.get(..start)?, text.get(start..)?.lines().next()?);
    if let Some(message) = inner_table_first(above, line) {
        return Some((span, message));
    }
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim(), value.split('#').next()?.trim());
    if name.contains('@') && !name.contains(['"', '\'']) {
        return Some((span, format!("the principal needs quotes, such as \"{name}\" = {value}")));
    }
    let is_toml = toml::from_str::<toml::Table>(&format!("value = {value}")).is_ok();
    if is_toml || value.is_empty() || value.contains(['"', '\'', '{']) {
        return None;
    }
    let heading = above.lines().rfind(|line| line.trim_start().starts_with('['));
    let table = heading.map(key_of).unwrap_or_default();
    let found = key_at(format!("{table}.{name}").trim_start_matches('.'))?;
    let message = match found.1.example.contains('"') {
        true if value.contains(TYPOGRAPHIC_QUOTES) => {
            format!("the quotes must be straight; {}", allowed(found))
        }
        true => format!("the value needs quotes; {}", allowed(found)),
        false if value.contains('[') => return None,
        false => not_allowed(found, value),
    };
    Some((span, message))
}

/// Quotes of word processors and web pages.
const TYPOGRAPHIC_QUOTES: [char; 8] = ['“', '”', '„', '‘', '’', '‚', '«', '»'];

/// Explains a heading such as `[[export]]` below that of a table in it.
fn inner_table_first(above: &str, line: &str) -> Option<String> {
    let name = line.trim().strip_prefix("[[")?.strip_suffix("]]")?;
    let headings = || above.lines().filter(|line| line.trim_start().starts_with('[')).map(key_of);
    let inner = headings().find(|heading| heading.starts_with(&format!("{name}.")))?;
    let is_first = headings().all(|heading| heading != name);
    is_first.then(|| format!("[[{inner}]] stands above, and belongs below its [[{name}]]"))
}
