//! The range algebra against a model with one entry a byte.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Bytes of the model; ranges that reach further are "to the end of the file" and cover the last
/// one.
const BYTES: u64 = 24;

/// The holder of each byte, and the mode of its lock.
type BytewiseModel = BTreeMap<(u8, u64), LockMode>;

#[derive(Clone, Debug)]
enum RangeStep {
    Lock(u8, LockRange, LockMode),
    Unlock(u8, LockRange),
    UnlockAll(u8),
}

fn range() -> impl Strategy<Value = LockRange> {
    let bounded = (0..BYTES, 1..=BYTES)
        .prop_map(|(first, length)| LockRange { first, last: (first + length - 1).min(BYTES - 1) });
    let to_end = (0..BYTES).prop_map(|first| LockRange { first, last: u64::MAX });
    prop_oneof![4 => bounded, 1 => to_end]
}

fn step() -> impl Strategy<Value = RangeStep> {
    let mode = prop_oneof![Just(LockMode::Read), Just(LockMode::Write)];
    prop_oneof![
        6 => (0..3u8, range(), mode).prop_map(|(holder, range, mode)| RangeStep::Lock(holder, range, mode)),
        4 => (0..3u8, range()).prop_map(|(holder, range)| RangeStep::Unlock(holder, range)),
        1 => (0..3u8).prop_map(RangeStep::UnlockAll),
    ]
}

/// The model's byte for u64::MAX is BYTES, one past the bounded ones.
fn bytes(range: LockRange) -> impl Iterator<Item = u64> {
    range.first..=range.last.min(BYTES)
}

fn model_conflicts(model: &BytewiseModel, holder: u8, range: LockRange, mode: LockMode) -> bool {
    model.iter().any(|((other, byte), held)| {
        *other != holder
            && bytes(range).any(|b| b == *byte)
            && (mode == LockMode::Write || *held == LockMode::Write)
    })
}

fn apply(table: &mut RangeTable<u8>, model: &mut BytewiseModel, step: RangeStep) {
    match step {
        RangeStep::Lock(holder, range, mode) => {
            let conflict = table.conflict(holder, range, mode);
            assert_eq!(conflict.is_some(), model_conflicts(model, holder, range, mode));
            match conflict {
                None => {
                    table.lock(holder, range, mode);
                    model.extend(bytes(range).map(|byte| ((holder, byte), mode)));
                }
                // The reported lock exists, belongs to another holder, and conflicts.
                Some(held) => {
                    assert_ne!(held.holder, holder);
                    assert!(
                        bytes(held.range).all(|byte| model.get(&(held.holder, byte)) == Some(&held.mode))
                    );
                    assert!(bytes(held.range).any(|byte| bytes(range).any(|other| other == byte)));
                    assert!(mode == LockMode::Write || held.mode == LockMode::Write);
                }
            }
        }
        RangeStep::Unlock(holder, range) => {
            table.unlock(holder, range);
            model.retain(|(other, byte), _| *other != holder || !bytes(range).any(|b| b == *byte));
        }
        RangeStep::UnlockAll(holder) => {
            table.unlock_all(holder);
            model.retain(|(other, _), _| *other != holder);
        }
    }
}

fn expand(table: &RangeTable<u8>) -> BytewiseModel {
    let ranges = table.holders.iter().flat_map(|(holder, ranges)| {
        ranges.iter().map(|(first, (last, mode))| (*holder, LockRange { first: *first, last: *last }, *mode))
    });
    ranges.flat_map(|(holder, range, mode)| bytes(range).map(move |byte| ((holder, byte), mode))).collect()
}

/// The fewest ranges that can stand for the model: runs of bytes of one holder and mode.
fn runs(model: &BytewiseModel) -> usize {
    model
        .iter()
        .filter(|((holder, byte), mode)| {
            byte.checked_sub(1).and_then(|b| model.get(&(*holder, b))) != Some(mode)
        })
        .count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    // RFC 8881 section 9.3
    fn the_table_locks_the_same_bytes_as_a_model_of_single_bytes(steps in prop::collection::vec(step(), 1..40)) {
        let (mut table, mut model) = (RangeTable::default(), BytewiseModel::new());
        for step in steps {
            apply(&mut table, &mut model, step);
            prop_assert_eq!(&expand(&table), &model);
            prop_assert_eq!(table.len(), runs(&model));
            prop_assert_eq!(table.holders.values().map(BTreeMap::len).sum::<usize>(), table.len());
            prop_assert!(table.holders.values().all(|ranges| !ranges.is_empty()));
        }
    }
}

#[test]
fn an_empty_range_and_one_past_the_end_are_refused() {
    // RFC 8881 section 18.10.3
    assert!(LockRange::new(5, 0).is_err());
    assert!(LockRange::new(u64::MAX - 5, 6).is_err());
    assert!(LockRange::new(u64::MAX, 1).is_err());
    assert!(LockRange::new(1, u64::MAX - 1).is_ok());
    assert!(LockRange::new(2, u64::MAX - 1).is_err());
}

#[test]
fn a_length_of_all_ones_reaches_to_the_end_and_is_reported_as_such() {
    // RFC 8881 section 18.10.3
    let range = LockRange::new(100, u64::MAX).unwrap();
    assert_eq!((range.offset(), range.length()), (100, u64::MAX));
    let bounded = LockRange::new(100, 50).unwrap();
    assert_eq!((bounded.offset(), bounded.length()), (100, 50));
}

#[test]
fn unlocking_the_middle_of_a_range_leaves_both_ends() {
    let mut table = RangeTable::default();
    table.lock(1u8, LockRange::new(0, u64::MAX).unwrap(), LockMode::Write);
    table.unlock(1, LockRange::new(10, 10).unwrap());
    assert_eq!(table.len(), 2);
    assert!(table.conflict(2, LockRange::new(10, 10).unwrap(), LockMode::Write).is_none());
    assert_eq!(
        table.conflict(2, LockRange::new(15, 10).unwrap(), LockMode::Read).unwrap().range.offset(),
        20
    );
}

#[test]
fn a_part_of_a_range_has_no_more_ranges_of_a_holder_than_asked_for() {
    let mut table = RangeTable::default();
    for first in (0..40).step_by(4) {
        table.lock(1, LockRange { first, last: first + 1 }, LockMode::Write);
        table.lock(2, LockRange { first: first + 2, last: first + 2 }, LockMode::Read);
    }
    let range = LockRange { first: 1, last: u64::MAX };
    let part = |max| table.part_with(range, max).last;
    assert_eq!([0, 1, 3, 9, 10, 100].map(part), [3, 3, 11, 35, u64::MAX, u64::MAX]);
}
