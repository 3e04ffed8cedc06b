//! Compares the sequence window with a model that remembers every number.

use orthrus_rpc::{MAXSEQ, SequenceWindow, WindowOutcome};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The definition of the window (RFC 2203 section 5.3.3.1), implemented directly.
#[derive(Default)]
struct WindowModel {
    seen: BTreeSet<u32>,
}

impl WindowModel {
    fn check(&mut self, sequence: u32, size: u32) -> WindowOutcome {
        let highest = self.seen.last().copied();
        if sequence > MAXSEQ {
            WindowOutcome::BeyondMaxseq
        } else if highest.is_some_and(|highest| u64::from(sequence) + u64::from(size) <= u64::from(highest)) {
            WindowOutcome::TooOld
        } else if self.seen.insert(sequence) {
            WindowOutcome::Accepted
        } else {
            WindowOutcome::Replayed
        }
    }
}

/// The start of a window: zero, in the middle, or near the last number.
fn start() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), 0..10_000u32, any::<u32>(), MAXSEQ - 20_000..=MAXSEQ, Just(MAXSEQ)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_window_decides_as_the_rfc_defines_it( // RFC 2203 section 5.3.3.1
        size in prop_oneof![Just(64u32), Just(128), Just(4096), Just(8192)],
        start in start(),
        steps in prop::collection::vec(
            prop_oneof![8 => -300i64..300, 2 => -9000i64..9000, 1 => any::<i32>().prop_map(i64::from)],
            1..400,
        ),
    ) {
        let (mut window, mut model) = (SequenceWindow::new(size), WindowModel::default());
        prop_assert_eq!(window.size(), size);
        let mut number = i64::from(start);
        for step in steps {
            let sequence = number.clamp(0, i64::from(u32::MAX)) as u32;
            prop_assert_eq!(window.check(sequence), model.check(sequence, size), "number {}", sequence);
            number = (number + step).clamp(0, i64::from(u32::MAX));
        }
    }
}

#[test]
fn the_first_calls_of_a_context_pass_in_any_order() // RFC 2203 section 5.3.3.1
{
    let mut window = SequenceWindow::default();
    for sequence in (0..window.size()).rev() {
        assert_eq!(window.check(sequence), WindowOutcome::Accepted, "{sequence}");
    }
    assert_eq!(window.check(0), WindowOutcome::Replayed);
}

#[test]
fn the_lowest_number_of_the_window_passes_and_the_one_below_does_not() // RFC 2203 section 5.3.3.1
{
    let mut window = SequenceWindow::new(4096);
    assert_eq!(window.check(10_000), WindowOutcome::Accepted);
    assert_eq!(window.check(10_000 - 4095), WindowOutcome::Accepted);
    assert_eq!(window.check(10_000 - 4096), WindowOutcome::TooOld);
}

#[test]
fn the_last_number_of_all_is_maxseq() // RFC 2203 section 5.3.3.1
{
    let mut window = SequenceWindow::default();
    assert_eq!(window.check(MAXSEQ), WindowOutcome::Accepted);
    assert_eq!(window.check(MAXSEQ + 1), WindowOutcome::BeyondMaxseq);
    assert_eq!(window.check(u32::MAX), WindowOutcome::BeyondMaxseq);
    assert_eq!(window.check(MAXSEQ), WindowOutcome::Replayed);
    assert_eq!(window.check(MAXSEQ - 1), WindowOutcome::Accepted);
}

#[test]
fn a_number_beyond_maxseq_does_not_move_the_window() {
    let mut window = SequenceWindow::default();
    assert_eq!(window.check(1), WindowOutcome::Accepted);
    assert_eq!(window.check(u32::MAX), WindowOutcome::BeyondMaxseq);
    assert_eq!(window.check(2), WindowOutcome::Accepted);
}

#[test]
fn sizes_are_rounded_up_and_bounded() {
    assert_eq!(SequenceWindow::new(0).size(), 64);
    assert_eq!(SequenceWindow::new(4097).size(), 8192);
    assert_eq!(SequenceWindow::new(u32::MAX).size(), SequenceWindow::SIZE_MAX);
    assert!(SequenceWindow::default().size() >= 4096);
}

#[test]
fn the_lag_is_the_distance_to_the_highest_number_before() // RFC 2203 section 5.3.3.1
{
    let mut window = SequenceWindow::default();
    assert_eq!(window.lag(500), 0);
    for (sequence, lag) in [(500, 0), (501, 0), (499, 2), (900, 0), (502, 398)] {
        assert_eq!(window.lag(sequence), lag, "number {sequence}");
        assert_eq!(window.check(sequence), WindowOutcome::Accepted);
    }
}
