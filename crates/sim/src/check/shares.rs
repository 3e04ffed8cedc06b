//! Share and delegation exclusion (RFC 8881 sections 9.7 and 10.4).

use crate::history::{DelegationHold, History, ShareHold, SizeLook, Violation};
use crate::trace::line;
use std::time::Duration;

/// Access and deny bits.
const READ: u32 = 1;
const WRITE: u32 = 2;

/// Checks all opens, delegations and sizes.
pub(super) fn check(history: &History) -> Vec<Violation> {
    let (opens, delegations) = (&history.shares, &history.delegations);
    let mut violations = Vec::new();
    for (at, one) in opens.iter().enumerate() {
        if let Some(other) = opens[at + 1..].iter().find(|other| denies(one, other)) {
            violations.push(violation("share exclusion", describe_open(one), describe_open(other)));
        }
    }
    for (at, held) in delegations.iter().enumerate() {
        if let Some(other) = delegations[at + 1..].iter().find(|other| excludes(held, other)) {
            violations.push(violation("delegation exclusion", describe(held), describe(other)));
        }
        if let Some(open) = opens.iter().find(|open| excludes_open(held, open)) {
            violations.push(violation("delegation exclusion", describe(held), describe_open(open)));
        }
        if let Some(look) = history.sizes.iter().find(|look| misses(held, look)) {
            let detail = format!("{:?} sees a size of {}", look.client, look.size);
            let seen = line(look.begin, format_args!("{detail}"));
            violations.push(violation("the holder's size is seen", describe(held), seen));
        }
    }
    violations
}

fn violation(property: &'static str, one: String, other: String) -> Violation {
    let detail = format!("{} / {}", one.trim_start(), other.trim_start());
    Violation { property, detail, events: vec![one, other] }
}

/// Returns whether two intervals overlap. An interval that ends at its start is empty.
fn overlap(one: (Duration, Duration), other: (Duration, Duration)) -> bool {
    one.0.max(other.0) < one.1.min(other.1)
}

fn time_of(open: &ShareHold) -> (Duration, Duration) {
    (open.from, open.until.unwrap_or(Duration::MAX))
}

fn denies(one: &ShareHold, other: &ShareHold) -> bool {
    one.file == other.file
        && one.owner != other.owner
        && (one.access & other.deny != 0 || one.deny & other.access != 0)
        && overlap(time_of(one), time_of(other))
}

fn excludes(one: &DelegationHold, other: &DelegationHold) -> bool {
    one.file == other.file
        && one.client != other.client
        && (one.write || other.write)
        && overlap((one.from, one.until), (other.from, other.until))
}

fn excludes_open(held: &DelegationHold, open: &ShareHold) -> bool {
    held.file == open.file
        && held.client != (open.owner.0, open.owner.1)
        && (held.write || open.access & WRITE != 0 || open.deny & READ != 0)
        && overlap((held.from, held.until), time_of(open))
}

/// Returns whether another client has read a size other than that of the holder of a write
/// delegation.
fn misses(held: &DelegationHold, look: &SizeLook) -> bool {
    held.file == look.file
        && held.client != look.client
        && held.write
        && held.from < look.begin
        && look.end < held.until
        && look.size != held.size
}

fn describe_open(open: &ShareHold) -> String {
    let ShareHold { owner, access, deny, .. } = open;
    let until = open.until.map_or("the end".to_owned(), |until| format!("{:.6}", until.as_secs_f64()));
    line(open.from, format_args!("{owner:?} has the file open for {access}, denies {deny}, until {until}"))
}

fn describe(held: &DelegationHold) -> String {
    let kind = if held.write { "write" } else { "read" };
    let until = held.until.as_secs_f64();
    line(held.from, format_args!("{:?} has a {kind} delegation until {until:.6}", held.client))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    fn open(host: usize, (access, deny): (u32, u32), from: u64, until: u64) -> ShareHold {
        let (from, until) = (Duration::from_secs(from), Some(Duration::from_secs(until)));
        ShareHold { owner: (host, 0, 5), file: 1, access, deny, from, until }
    }

    fn delegation(host: usize, write: bool, from: u64, until: u64) -> DelegationHold {
        let (from, until) = (Duration::from_secs(from), Duration::from_secs(until));
        DelegationHold { client: (host, 0), file: 1, write, size: 7, from, until }
    }

    fn found(shares: &[ShareHold], delegations: &[DelegationHold]) -> usize {
        let (shares, delegations) = (shares.to_vec(), delegations.to_vec());
        check(&History { shares, delegations, ..History::default() }).len()
    }

    #[test]
    fn opens_that_deny_each_other_do_not_overlap() {
        assert_eq!(found(&[open(0, (READ, WRITE), 0, 5), open(1, (READ, 0), 1, 4)], &[]), 0);
        assert_eq!(found(&[open(0, (READ, WRITE), 0, 5), open(1, (WRITE, 0), 5, 9)], &[]), 0);
        assert_eq!(found(&[open(0, (READ, WRITE), 0, 5), open(1, (WRITE, 0), 4, 9)], &[]), 1);
        assert_eq!(found(&[open(0, (READ, WRITE), 0, 5), open(0, (WRITE, 0), 4, 9)], &[]), 0);
        assert_eq!(found(&[open(0, (READ, WRITE), 0, 5), open(1, (WRITE, 0), 4, 4)], &[]), 0);
    }

    #[test]
    fn a_delegation_excludes_conflicting_opens_of_other_clients() {
        let (read, write) = (delegation(0, false, 0, 5), delegation(0, true, 0, 5));
        assert_eq!(found(&[open(1, (READ, 0), 1, 2)], from_ref(&read)), 0);
        assert_eq!(found(&[open(1, (WRITE, 0), 1, 2)], from_ref(&read)), 1);
        assert_eq!(found(&[open(1, (READ, 0), 1, 2)], from_ref(&write)), 1);
        assert_eq!(found(&[open(0, (READ, 0), 1, 2)], from_ref(&write)), 0);
        assert_eq!(found(&[open(1, (READ, 0), 5, 6)], from_ref(&write)), 0);
        assert_eq!(found(&[], &[read, delegation(1, false, 1, 2)]), 0);
        assert_eq!(found(&[], &[write, delegation(1, false, 1, 2)]), 1);
    }

    #[test]
    fn other_clients_see_the_size_of_the_holder() {
        let look = |size| {
            let (begin, end) = (Duration::from_secs(2), Duration::from_secs(3));
            let sizes = vec![SizeLook { client: (1, 0), file: 1, size, begin, end }];
            let delegations = vec![delegation(0, true, 0, 5)];
            check(&History { sizes, delegations, ..History::default() }).len()
        };
        assert_eq!((look(7), look(0)), (0, 1));
    }
}
