//! The findings that the tree still has, by file, and the type names that it still defines twice.
//! Both may only shrink.

use anyhow::Context;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// How many findings of each rule a file has.
pub(super) type FindingCounts = BTreeMap<String, BTreeMap<String, usize>>;

/// Reads lines of the form `NAME RULE=COUNT RULE=COUNT`; a missing file is empty.
///
/// # Errors
/// If a line has another form.
pub(super) fn read(path: &Path) -> anyhow::Result<FindingCounts> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| entry(line).with_context(|| format!("{}: {line:?}", path.display()))).collect()
}

fn entry(line: &str) -> anyhow::Result<(String, BTreeMap<String, usize>)> {
    let mut words = line.split_whitespace();
    let name = words.next().context("the name is missing")?;
    let counts = words.map(|word| {
        let (rule, count) = word.split_once('=').context("expected RULE=COUNT")?;
        Ok((rule.to_owned(), count.parse()?))
    });
    Ok((name.to_owned(), counts.collect::<anyhow::Result<_>>()?))
}

/// Writes one sorted line for each name, so that merges conflict only where two changes meet.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn write(path: &Path, counts: &FindingCounts) -> anyhow::Result<()> {
    let mut text = String::new();
    for (name, rules) in counts {
        text.push_str(name);
        for (rule, count) in rules {
            let _ = write!(text, " {rule}={count}");
        }
        text.push('\n');
    }
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

/// Sums the findings of a rule over all names.
pub(super) fn total(counts: &FindingCounts, rule: &str) -> usize {
    counts.values().filter_map(|rules| rules.get(rule)).sum()
}

/// Returns the findings of a rule in one file, or the definitions of one type.
pub(super) fn count(counts: &FindingCounts, name: &str, rule: &str) -> usize {
    counts.get(name).and_then(|rules| rules.get(rule)).copied().unwrap_or(0)
}

/// A count above its baseline.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Growth {
    /// The file or the type, or [`NEW`].
    pub name: String,
    /// The rule that the findings break.
    pub rule: String,
    /// The count in the baseline.
    pub allowed: usize,
    /// The count in the tree.
    pub now: usize,
}

/// The name under which [`growth`] reports all files that the baseline does not list.
pub(super) const NEW: &str = "new files";

/// Lists the counts that grew. New files together may have as many findings as listed ones have
/// lost, so that moved code needs no update.
pub(super) fn growth(allowed: &FindingCounts, now: &FindingCounts) -> Vec<Growth> {
    let mut found = Vec::new();
    let mut new: BTreeMap<&String, usize> = BTreeMap::new();
    for (name, rules) in now {
        for (rule, &count) in rules {
            let listed = self::count(allowed, name, rule);
            if !allowed.contains_key(name) {
                *new.entry(rule).or_default() += count;
            } else if count > listed {
                found.push(Growth { name: name.clone(), rule: rule.clone(), allowed: listed, now: count });
            }
        }
    }
    for (rule, count) in new {
        let lost = |name| self::count(allowed, name, rule).saturating_sub(self::count(now, name, rule));
        let lost = allowed.keys().map(|name| lost(name)).sum();
        if count > lost {
            found.push(Growth { name: NEW.to_owned(), rule: rule.clone(), allowed: lost, now: count });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(entries: &[(&str, usize)]) -> FindingCounts {
        let width = |count| [("width".to_owned(), count)].into();
        entries.iter().map(|(name, count)| ((*name).to_owned(), width(*count))).collect()
    }

    #[test]
    fn a_baseline_survives_writing_and_reading() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let before = counts(&[("b.rs", 2), ("a.rs", 1)]);
        write(path.path(), &before).unwrap();
        assert_eq!(std::fs::read_to_string(path.path()).unwrap(), "a.rs width=1\nb.rs width=2\n");
        assert_eq!(read(path.path()).unwrap(), before);
        std::fs::write(path.path(), "a.rs <<<<<<<\n").unwrap();
        assert!(read(path.path()).is_err());
    }

    #[test]
    fn a_listed_file_may_not_grow_and_a_new_one_takes_what_others_lost() {
        let before = counts(&[("a.rs", 2), ("b.rs", 1)]);
        assert_eq!(growth(&before, &counts(&[("a.rs", 2), ("b.rs", 1)])), []);
        assert_eq!(growth(&before, &counts(&[("b.rs", 1), ("moved.rs", 2)])), []);
        assert_eq!(growth(&before, &counts(&[("a.rs", 1), ("b.rs", 2)])).len(), 1);
        assert_eq!(growth(&before, &counts(&[("a.rs", 2), ("b.rs", 1), ("new.rs", 1)])).len(), 1);
    }
}
