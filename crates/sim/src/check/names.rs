//! Exactly once: for each name, some order of its operations, each between its call and its reply,
//! explains every reply. An operation without a reply was executed once or not at all.
//!
//! A power failure may undo the last changes of a name, but none before the last acknowledged one,
//! since a reply leaves only after a sync of its directory.

use crate::disk::SimDisk;
use crate::history::{Act, History, NameOp, Violation};
use crate::trace::line;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// Most operations that are ordered together. A longer row of overlapping operations is cut.
const OPS_TOGETHER: usize = 120;

/// The object of a name: none, or the one created with a tag.
type Held = Option<u64>;

/// A possible state of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct NameState {
    held: Held,
    /// The objects before each change that a power failure may still undo, sorted.
    undo: Vec<Held>,
}

impl NameState {
    /// Returns the state after a change without a reply, which may not be on stable storage.
    fn changed(&self, held: Held) -> Self {
        let mut undo = self.undo.clone();
        if held != self.held
            && let Err(at) = undo.binary_search(&self.held)
        {
            undo.insert(at, self.held);
        }
        Self { held, undo }
    }

    fn stable(held: Held) -> Self {
        Self { held, undo: Vec::new() }
    }
}

/// Checks the operations on each name.
pub(super) fn check(history: &History, disk: &SimDisk) -> Vec<Violation> {
    let mut names: BTreeMap<&str, Vec<NameOp>> = BTreeMap::new();
    for op in &history.names {
        // A lookup without a reply proves nothing.
        if !(op.act == Act::Look && op.done.is_none()) {
            names.entry(&op.path).or_default().push(op.clone());
        }
    }
    let mut violations = Vec::new();
    for (path, mut ops) in names {
        add_power_losses(&mut ops, path, &history.power_losses);
        ops.sort_by_key(|op| op.begin);
        // A last lookup, on the disk itself.
        let at =
            ops.iter().filter_map(|op| op.end).chain(ops.iter().map(|op| op.begin)).max().unwrap_or_default();
        let (act, done) = (Act::Look, Some(disk.exists(path)));
        let begin = at + Duration::from_nanos(1);
        ops.push(NameOp {
            client: usize::MAX,
            path: path.to_owned(),
            act,
            begin,
            end: None,
            done,
            lost: false,
        });
        if let Some(stuck) = first_stuck(&ops) {
            let detail = format!("the replies about {path} fit no order: {}", describe(&ops[stuck]));
            let events =
                ops.iter().take(stuck + 3).map(|op| line(op.begin, format_args!("{}", describe(op))));
            violations.push(Violation { property: "exactly once", detail, events: events.collect() });
        }
    }
    violations
}

/// Adds the power failures that can undo a change.
fn add_power_losses(ops: &mut Vec<NameOp>, path: &str, power_losses: &[Duration]) {
    let Some(first) = ops.iter().filter(|op| op.done.is_none()).map(|op| op.begin).min() else { return };
    ops.extend(power_losses.iter().filter(|at| **at >= first).map(|at| NameOp {
        client: usize::MAX,
        path: path.to_owned(),
        act: Act::PowerLoss,
        begin: *at,
        end: Some(*at),
        done: Some(true),
        lost: false,
    }));
}

/// Returns the first operation that fits in no order.
fn first_stuck(ops: &[NameOp]) -> Option<usize> {
    let mut held: HashSet<NameState> = HashSet::from([NameState::default()]);
    let mut start = 0;
    while start < ops.len() {
        let end = section(ops, start);
        let ways = orders(&ops[start..end], &held);
        match ways {
            Ok(after) => held = after,
            Err(furthest) => return Some(start + furthest),
        }
        start = end;
    }
    None
}

/// Returns the end of a section: no operation of it overlaps a later one.
fn section(ops: &[NameOp], start: usize) -> usize {
    let mut until = Duration::ZERO;
    for (at, op) in ops.iter().enumerate().skip(start) {
        if at > start && (op.begin > until || at - start == OPS_TOGETHER) {
            return at;
        }
        until = until.max(op.end.unwrap_or(Duration::MAX));
    }
    ops.len()
}

/// Returns the possible states of a name after a section, or the number of operations with a reply
/// that fit at most.
fn orders(ops: &[NameOp], before: &HashSet<NameState>) -> Result<HashSet<NameState>, usize> {
    let must: u128 = ops.iter().enumerate().filter(|(_, op)| op.done.is_some()).map(|(at, _)| 1 << at).sum();
    let mut after = HashSet::new();
    // A state with more possible undos includes one with fewer.
    let mut seen: HashMap<(u128, Held), Vec<Vec<Held>>> = HashMap::new();
    let mut furthest = 0;
    let mut open: Vec<(u128, NameState)> = before.iter().map(|way| (0, way.clone())).collect();
    while let Some((done, way)) = open.pop() {
        let known = seen.entry((done, way.held)).or_default();
        if known.iter().any(|undo| way.undo.iter().all(|held| undo.contains(held))) {
            continue;
        }
        known.push(way.undo.clone());
        if done & must == must {
            after.insert(way.clone());
        }
        let left = must & !done;
        furthest = furthest.max(if left == 0 { 0 } else { left.trailing_zeros() as usize });
        // An operation precedes all operations that were called after its reply.
        let first_end = ops
            .iter()
            .enumerate()
            .filter(|(at, op)| done & 1 << at == 0 && op.done.is_some())
            .filter_map(|(_, op)| op.end)
            .min()
            .unwrap_or(Duration::MAX);
        for (at, op) in ops.iter().enumerate() {
            if done & 1 << at == 0 && op.begin <= first_end {
                open.extend(apply(op, &way).into_iter().map(|next| (done | 1 << at, next)));
            }
        }
    }
    if after.is_empty() { Err(furthest) } else { Ok(after) }
}

/// Returns the states after an operation; none if they contradict its reply.
fn apply(op: &NameOp, way: &NameState) -> Vec<NameState> {
    if op.act == Act::PowerLoss {
        return way.undo.iter().chain([&way.held]).map(|held| NameState::stable(*held)).collect();
    }
    let next = held_after(op, way.held).map(|held| match op.done {
        // Its sync has put all earlier changes on stable storage as well.
        Some(true) if op.act != Act::Look => NameState::stable(held),
        _ => way.changed(held),
    });
    next.into_iter().collect()
}

/// Returns the object of a name after an operation; `None` if it contradicts the reply.
fn held_after(op: &NameOp, held: Held) -> Option<Held> {
    let (done, ok) = (op.done, op.done != Some(false));
    match op.act {
        Act::PowerLoss => None,
        Act::Look => (done == Some(held.is_some())).then_some(held),
        Act::Create { tag, repeats } => match held {
            None => ok.then_some(Some(tag)),
            Some(of) if repeats && of == tag => ok.then_some(held),
            Some(_) => (done != Some(true)).then_some(held),
        },
        Act::Put { tag } => ok.then_some(Some(tag)),
        Act::Take => match held {
            Some(_) => ok.then_some(None),
            None => (done != Some(true)).then_some(None),
        },
    }
}

fn describe(op: &NameOp) -> String {
    let act = match op.act {
        Act::Create { repeats: false, .. } => "makes",
        Act::Create { repeats: true, .. } => "makes (exclusive)",
        Act::Put { .. } => "renames to",
        Act::Take => "removes or renames",
        Act::Look => "looks up",
        Act::PowerLoss => return "the machine loses its power".to_owned(),
    };
    let done = match op.done {
        Some(true) => "done",
        Some(false) => "not done",
        None => "no answer",
    };
    let end = op.end.map_or("the end".to_owned(), |end| format!("{:.6}", end.as_secs_f64()));
    match op.client {
        usize::MAX => format!(
            "{} is {} on the disk at the end",
            op.path,
            if op.done == Some(true) { "there" } else { "not there" }
        ),
        client => format!("client {client} {act} {}: {done}, by {end}", op.path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(act: Act, begin: u64, end: u64, done: Option<bool>) -> NameOp {
        let (begin, end) = (Duration::from_secs(begin), Some(Duration::from_secs(end)));
        NameOp { client: 0, path: "p/n".to_owned(), act, begin, end, done, lost: false }
    }

    const MAKE: Act = Act::Create { tag: 1, repeats: false };

    #[test]
    fn one_of_two_that_make_a_name_at_once_succeeds() {
        assert_eq!(first_stuck(&[op(MAKE, 0, 5, Some(true)), op(MAKE, 1, 4, Some(false))]), None);
        assert!(first_stuck(&[op(MAKE, 0, 5, Some(true)), op(MAKE, 1, 4, Some(true))]).is_some());
    }

    fn power_loss(at: u64) -> NameOp {
        op(Act::PowerLoss, at, at, Some(true))
    }

    #[test]
    fn a_power_failure_undoes_what_was_not_acknowledged() {
        let looks = |act| [op(MAKE, 0, 9, None), op(Act::Look, 1, 2, Some(true)), power_loss(3), act];
        assert_eq!(first_stuck(&looks(op(Act::Look, 4, 5, Some(false)))), None);
        assert_eq!(first_stuck(&looks(op(Act::Look, 4, 5, Some(true)))), None);
        let twice = [op(MAKE, 0, 9, None), op(Act::Look, 1, 2, Some(true)), op(Act::Look, 4, 5, Some(false))];
        assert_eq!(first_stuck(&twice), Some(2), "nothing is undone without a power failure");
    }

    #[test]
    fn a_power_failure_undoes_nothing_that_was_acknowledged() {
        let made = [op(MAKE, 0, 1, Some(true)), power_loss(3), op(Act::Look, 4, 5, Some(false))];
        assert!(first_stuck(&made).is_some());
        // The reply to the second operation acknowledges the first one.
        let put = op(Act::Put { tag: 2 }, 3, 4, Some(true));
        let ops = [op(MAKE, 0, 9, None), op(Act::Look, 1, 2, Some(true)), put, power_loss(5)];
        let look = op(Act::Look, 6, 7, Some(false));
        assert!(first_stuck(&[&ops[..], &[look]].concat()).is_some());
    }

    #[test]
    fn a_power_failure_undoes_several_changes_at_once_and_leaves_any_state_between() {
        let take = op(Act::Take, 2, 20, None);
        let again = Act::Create { tag: 2, repeats: true };
        let ops =
            |last| [op(MAKE, 0, 1, Some(true)), take.clone(), op(again, 3, 20, None), power_loss(9), last];
        let create = |tag, done| op(Act::Create { tag, repeats: true }, 10, 11, Some(done));
        assert_eq!(first_stuck(&ops(create(1, true))), None, "both are undone");
        assert_eq!(first_stuck(&ops(create(2, true))), None, "none is undone");
        assert_eq!(first_stuck(&ops(op(Act::Look, 10, 11, Some(false)))), None, "one is undone");
    }

    #[test]
    fn an_operation_that_ran_twice_is_found() {
        // The first copy of the REMOVE has removed the name, and the second one found none.
        let ops = [op(MAKE, 0, 1, Some(true)), op(Act::Take, 2, 3, Some(false))];
        assert_eq!(first_stuck(&ops), Some(1));
    }

    #[test]
    fn an_unanswered_operation_ran_after_its_call_or_never() {
        let lost = op(MAKE, 0, 10, None);
        assert_eq!(first_stuck(&[lost.clone(), op(Act::Look, 11, 12, Some(true))]), None);
        assert_eq!(first_stuck(&[lost, op(Act::Look, 11, 12, Some(false))]), None);
        assert!(first_stuck(&[op(Act::Look, 0, 1, Some(true)), op(MAKE, 2, 10, None)]).is_some());
    }
}
