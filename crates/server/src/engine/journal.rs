//! The journal of clients that may reclaim: one line for each that is added or removed.
//!
//! `+OWNER PRINCIPAL` adds and `-OWNER` removes, in hexadecimal. Earlier versions wrote `+OWNER`
//! alone, which is still accepted.

use super::hex::{hex, unhex};
use state::PrincipalHash;
use std::collections::BTreeMap;

/// Owners of the clients that may reclaim, each with the principal that created it, if known.
pub type JournalOwners = BTreeMap<Vec<u8>, Option<PrincipalHash>>;

/// Returns the line that adds an owner; it ends with a newline.
pub fn journal_line(owner: &[u8], principal: Option<PrincipalHash>) -> String {
    match principal {
        Some(principal) => format!("+{} {}\n", hex(owner), hex(&principal.0)),
        None => format!("+{}\n", hex(owner)),
    }
}

/// Returns the line that removes an owner; it ends with a newline.
pub fn journal_line_gone(owner: &[u8]) -> String {
    format!("-{}\n", hex(owner))
}

/// Parses a journal. A last line that a crash cut short is ignored: it was never synced.
///
/// # Errors
/// Returns the first complete line that is malformed.
pub fn journal_owners(text: &str) -> Result<JournalOwners, &str> {
    let mut owners = BTreeMap::new();
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        match (line.get(..1), line.get(1..)) {
            (Some("+"), Some(record)) => {
                let (owner, principal) = read_record(record).ok_or(line)?;
                owners.insert(owner, principal);
            }
            (Some("-"), Some(owner)) => drop(owners.remove(&unhex(owner).ok_or(line)?)),
            _ => return Err(line),
        }
    }
    Ok(owners)
}

fn read_record(record: &str) -> Option<(Vec<u8>, Option<PrincipalHash>)> {
    match record.split_once(' ') {
        None => Some((unhex(record)?, None)),
        Some((owner, principal)) => {
            let principal = unhex(principal)?.try_into().ok()?;
            Some((unhex(owner)?, Some(PrincipalHash(principal))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Option<PrincipalHash> = Some(PrincipalHash([0xa1; 16]));
    const BOB: Option<PrincipalHash> = Some(PrincipalHash([0xb0; 16]));

    #[test]
    fn clients_that_did_not_leave_are_in_the_journal_with_their_last_principal() {
        let text = [
            journal_line(b"one", ALICE),
            journal_line(b"two", ALICE),
            journal_line_gone(b"one"),
            journal_line(b"two", BOB),
            journal_line(b"old", None),
        ];
        let owners = BTreeMap::from([(b"old".to_vec(), None), (b"two".to_vec(), BOB)]);
        assert_eq!(journal_owners(&text.concat()), Ok(owners));
    }

    #[test]
    fn a_truncated_last_line_is_ignored_and_a_damaged_line_is_an_error() {
        assert_eq!(journal_owners("+6f6e65\n+74776f").unwrap().len(), 1);
        let whole = journal_line(b"one", ALICE);
        for cut in 0..whole.len() {
            assert_eq!(journal_owners(&whole[..cut]).unwrap().len(), 0);
        }
        for damaged in ["?", "+6f6", "+6f 6e", "-6f 6e", "+6f  6e", "+6f zz", "-zz"] {
            assert_eq!(journal_owners(&format!("+6f6e65\n{damaged}\n")), Err(damaged));
        }
        assert_eq!(
            journal_owners(whole.replace("a1a1\n", "a1\n").as_str()),
            Err(whole.replace("a1a1\n", "a1").as_str())
        );
    }
}
