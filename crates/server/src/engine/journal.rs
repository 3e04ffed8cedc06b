//! The text in which the owners of clients that may reclaim are kept: a line for each that came or went.

use super::hex::{hex, unhex};
use std::collections::BTreeSet;

/// Returns the line that says whether an owner may reclaim; it ends with a newline.
pub fn journal_line(owner: &[u8], present: bool) -> String {
    let sign = if present { '+' } else { '-' };
    format!("{sign}{}\n", hex(owner))
}

/// Reads a journal. A last line that a crash cut short was never promised to anybody.
///
/// # Errors
/// The first whole line that is none of a journal.
pub fn journal_owners(text: &str) -> Result<BTreeSet<Vec<u8>>, &str> {
    let mut owners = BTreeSet::new();
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        match (line.get(..1), line.get(1..).and_then(unhex)) {
            (Some("+"), Some(owner)) => drop(owners.insert(owner)),
            (Some("-"), Some(owner)) => drop(owners.remove(&owner)),
            _ => return Err(line),
        }
    }
    Ok(owners)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_and_did_not_go_is_in_the_journal() {
        let text: String =
            [(b"one", true), (b"two", true), (b"one", false)].map(|(o, p)| journal_line(o, p)).concat();
        assert_eq!(journal_owners(&text), Ok(BTreeSet::from([b"two".to_vec()])));
    }

    #[test]
    fn a_line_cut_short_is_not_there_and_a_damaged_one_is_told() {
        assert_eq!(journal_owners("+6f6e65\n+74776f").unwrap().len(), 1);
        assert_eq!(journal_owners("+6f6e65\n?\n"), Err("?"));
        assert_eq!(journal_owners("+6f6\n"), Err("+6f6"));
    }
}
