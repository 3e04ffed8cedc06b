//! The time of a record in progress.

use super::*;
use rpc::record_mark;

/// Returns an input with the begin of a record, and the time after it.
fn begun(length: usize) -> (Input, Instant) {
    let mut input = Input::new(1 << 20);
    input.push(&record_mark(1 << 20));
    input.push(&vec![0; length]);
    input.note_time();
    (input, Instant::now())
}

#[test]
fn a_large_record_stalls_unless_a_part_of_it_arrives_in_time() {
    let (mut input, begin) = begun(2 * LARGE_MIN);
    let end = begin + STALL_TIME_MAX;
    assert!(input.is_stalled(end + Duration::from_nanos(1)));
    input.push(&[0; 1]);
    input.note_time();
    assert!(input.is_stalled(end + Duration::from_nanos(1)), "a single byte is no progress");
    input.push(&[0; PROGRESS_MIN]);
    input.note_time();
    assert!(!input.is_stalled(end), "progress came after the begin");
}

#[test]
fn a_record_with_little_memory_or_that_is_not_read_does_not_stall() {
    let (input, begin) = begun(100);
    assert!(!input.is_stalled(begin + 2 * STALL_TIME_MAX));
    let (mut input, begin) = begun(2 * LARGE_MIN);
    input.stop_time();
    assert!(!input.is_stalled(begin + 2 * STALL_TIME_MAX));
}

#[test]
fn a_record_begins_when_the_one_before_it_ends() {
    let mut input = Input::new(1 << 20);
    input.push(&record_mark(8)[..]);
    input.note_time();
    let first = input.record_since().expect("a record is in progress");
    while Instant::now() <= first {
        std::thread::yield_now();
    }
    input.push(&[&[0; 8][..], &record_mark(8)[..2]].concat());
    assert_eq!(input.records().count(), 1);
    input.note_time();
    assert!(input.record_since().is_some_and(|since| since > first));
}
