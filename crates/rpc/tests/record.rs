//! Record marking of any stream in any pieces, including invalid streams.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use orthrus_rpc::{RecordError, RecordLimits, RecordMemory, RecordReader, memory, record_mark};
use proptest::prelude::*;

/// Most bytes that a reader allocates beyond four times the bytes that have arrived: the size of a
/// buffer for 64 KiB of data.
const ALLOCATED_MAX: usize = 66 * 1024;

const LIMITS: RecordLimits = RecordLimits { record_size_max: 300_000, fragments_max: 8 };

/// Returns the stream of a record with fragments of these lengths.
fn fragmented(record: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut rest = record;
    for cut in cuts {
        let (now, later) = rest.split_at((*cut).min(rest.len()));
        stream.extend((now.len() as u32).to_be_bytes());
        stream.extend(now);
        rest = later;
    }
    stream.extend(record_mark(rest.len()));
    stream.extend(rest);
    stream
}

/// Feeds a stream in pieces, through `target` like a socket, or only through `push`.
fn feed(stream: &[u8], pieces: &[usize], by_target: bool) -> (Vec<Vec<u8>>, Result<(), RecordError>, usize) {
    let mut reader = RecordReader::new(LIMITS);
    let mut records = Vec::new();
    let (mut rest, mut memory_max) = (stream, 0);
    let mut pieces = pieces.iter().copied().cycle();
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(pieces.next().unwrap_or(1).clamp(1, rest.len()));
        rest = later;
        let target = if by_target { reader.target() } else { &mut [] };
        let direct = target.len().min(piece.len());
        target[..direct].copy_from_slice(&piece[..direct]);
        let fed =
            reader.advance(direct, &mut records).and_then(|()| reader.push(&piece[direct..], &mut records));
        memory_max = memory_max.max(reader.memory());
        if fed.is_err() {
            return (records, fed, memory_max);
        }
    }
    assert!(reader.is_mid_record() || reader.memory() == 0, "memory is held between records");
    (records, Ok(()), memory_max)
}

fn record() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 1..600),
        1 => (1usize..300_000, any::<u8>()).prop_map(|(len, seed)| {
            (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn records_come_out_as_they_went_in_however_they_are_cut( // RFC 5531 section 11
        content in prop::collection::vec((record(), prop::collection::vec(0usize..700, 0..7)), 1..6),
        pieces in prop::collection::vec(prop_oneof![1usize..10, 1usize..2000, 1usize..300_000], 1..20),
        by_target in any::<bool>(),
    ) {
        let stream: Vec<u8> = content.iter().flat_map(|(record, cuts)| fragmented(record, cuts)).collect();
        let (records, result, _) = feed(&stream, &pieces, by_target);
        prop_assert_eq!(result, Ok(()));
        let sent: Vec<Vec<u8>> = content.into_iter().map(|(record, _)| record).collect();
        prop_assert!(records == sent);
    }

    #[test]
    fn random_bytes_neither_panic_nor_take_more_than_the_limit(
        stream in prop::collection::vec(prop_oneof![4 => Just(0u8), 1 => Just(0x80), 1 => any::<u8>()], 0..3000),
        pieces in prop::collection::vec(1usize..500, 1..10),
        by_target in any::<bool>(),
    ) {
        let (records, _, memory) = feed(&stream, &pieces, by_target);
        prop_assert!(records.iter().all(|record| !record.is_empty() && record.len() <= LIMITS.record_size_max));
        prop_assert!(memory <= ALLOCATED_MAX + 4 * stream.len());
    }
}

#[test]
fn a_record_above_the_limit_ends_the_stream_at_its_mark() // RFC 5531 section 11
{
    let (_, result, memory) = feed(&record_mark(LIMITS.record_size_max + 1), &[4], false);
    let (size, max) = (LIMITS.record_size_max + 1, LIMITS.record_size_max);
    assert_eq!(result, Err(RecordError::TooLarge { size, max }));
    assert_eq!(memory, 0);
}

#[test]
fn fragments_cannot_sum_up_beyond_the_limit() {
    let stream = fragmented(&vec![7; LIMITS.record_size_max + 4], &[LIMITS.record_size_max]);
    let (records, result, _) = feed(&stream, &[65_536], true);
    assert!(matches!(result, Err(RecordError::TooLarge { .. })));
    assert!(records.is_empty());
}

#[test]
fn empty_fragments_are_counted() {
    let (_, result, _) = feed(&[0; 400], &[400], false);
    assert_eq!(result, Err(RecordError::TooManyFragments { max: 8 }));
}

#[test]
fn an_empty_record_ends_the_stream() {
    assert_eq!(feed(&record_mark(0), &[4], false).1, Err(RecordError::Empty));
}

#[test]
fn a_mark_alone_reserves_little() {
    let mut reader = RecordReader::new(LIMITS);
    let mut records = Vec::new();
    reader.push(&record_mark(LIMITS.record_size_max), &mut records).unwrap();
    assert_eq!(reader.memory(), 0);
    assert_eq!(reader.target().len(), 64 * 1024);
    assert!(reader.is_mid_record());
}

#[test]
fn a_fragment_of_64_kib_takes_the_buffer_of_its_size() {
    let stream = [&record_mark(64 << 10)[..], &[7]].concat();
    let (records, result, memory) = feed(&stream, &[4, 1], true);
    assert_eq!((records.len(), result, memory), (0, Ok(()), ALLOCATED_MAX));
}

#[test]
fn the_memory_of_a_large_record_that_came_in_pieces_is_used_for_the_next() {
    orthrus_rpc::memory::keep(4 << 20);
    let mut reader = RecordReader::new(RecordLimits::default());
    let mut bytes = record_mark((1 << 20) + 150).to_vec();
    bytes.resize(4 + (1 << 20) + 150, 7);
    let mut places = Vec::new();
    for _ in 0..2 {
        let mut records = Vec::new();
        let (first, second) = bytes.split_at(300 << 10);
        reader.push(first, &mut records).unwrap();
        reader.push(second, &mut records).unwrap();
        places.push(records[0].as_ptr());
        records.into_iter().for_each(orthrus_rpc::memory::give);
    }
    assert_eq!(places[0], places[1]);
    assert!(orthrus_rpc::memory::take_kept(1 << 20).is_some());
}

#[test]
fn a_reader_of_new_memory_leaves_kept_buffers_to_others() {
    const LENGTH: usize = 1 << 20;
    memory::keep(4 << 20);
    let mut reader = RecordReader::new(RecordLimits::default());
    for (source, taken) in [(RecordMemory::New, false), (RecordMemory::Kept, true)] {
        memory::give(memory::take(LENGTH));
        reader.set_memory(source);
        let mut records = Vec::new();
        reader.push(&[&record_mark(LENGTH)[..], &[7]].concat(), &mut records).unwrap();
        assert!(!reader.target().is_empty());
        assert_eq!(memory::take_kept(LENGTH).is_none(), taken, "{source:?}");
        assert!(taken || reader.memory() <= 64 << 10);
        // The record is complete, independent of the buffer that it began with.
        reader.push(&vec![7; LENGTH - 1], &mut records).unwrap();
        assert_eq!(records, [vec![7; LENGTH]]);
    }
}

#[test]
fn a_record_that_comes_in_pieces_takes_no_more_memory_than_it_declares() {
    const LENGTH: usize = (1 << 20) + (128 << 10);
    for piece in [1 << 10, 16 << 10, 64 << 10, 100_000] {
        let mut reader = RecordReader::new(RecordLimits { record_size_max: LENGTH, ..Default::default() });
        reader.set_memory(RecordMemory::New);
        let mut records = Vec::new();
        reader.push(&record_mark(LENGTH), &mut records).unwrap();
        let mut arrived = 0;
        while arrived < LENGTH - piece {
            reader.push(&vec![7; piece], &mut records).unwrap();
            arrived += piece;
            let allowed = (2 * arrived).min(LENGTH);
            assert!(reader.memory() <= allowed, "{} bytes for {arrived} in {piece}", reader.memory());
        }
    }
}
