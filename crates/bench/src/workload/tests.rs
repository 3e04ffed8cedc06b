use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::fake::FakeEndpoint;
use super::*;

fn conditions(stop: &AtomicBool) -> Conditions<'_> {
    Conditions { file_size: 5 << 20, pattern: Pattern(3), length: Duration::from_millis(20), stop }
}

const SEQUENTIAL_READ: TransferShape = TransferShape { writes: 0, random: false, depth: 8, size: 1 << 20 };
const RANDOM_READ: TransferShape = TransferShape { writes: 0, random: true, depth: 64, size: 4096 };

fn transfer(
    shape: TransferShape,
    fake: &mut FakeEndpoint,
    conditions: &Conditions<'_>,
) -> Result<Option<Sample>> {
    measure(conditions.stop, &ServerProbe::default(), "", |tally| load(shape, None, fake, conditions, tally))
}

#[test]
fn every_load_measures_something_and_checks_what_it_reads() {
    let stop = AtomicBool::new(false);
    let conditions = conditions(&stop);
    let mut fake = filled(&conditions);
    assert_eq!(fake.file.len(), 5 << 20);
    assert_eq!(Pattern(3).mismatch(0, &fake.file), None);
    for (random, depth, size) in [(false, 8, 1 << 20), (true, 1, 4096), (true, 64, 4096)] {
        for writes in [0, 100] {
            fake.deepest = 0;
            let shape = TransferShape { writes, random, depth, size };
            let one = transfer(shape, &mut fake, &conditions).unwrap().unwrap();
            check(&one);
            assert_eq!((one.bytes, fake.deepest), (one.operations * size as u64, depth), "{shape:?}");
        }
    }
    let one = measure(&stop, &ServerProbe::default(), "", |tally| metadata(&mut fake, &conditions, tally));
    let one = one.unwrap().unwrap();
    check(&one);
    assert_eq!(one.bytes, 0);
    // Filling, and one for each load that writes.
    assert_eq!(fake.commits, 4);
    assert_eq!(Pattern(3).mismatch(0, &fake.file), None);
    fake.finish().unwrap();
}

fn check(one: &Sample) {
    assert!(one.operations > 0 && one.seconds >= 0.02, "{one:?}");
    assert!(one.p50_us() <= one.p99_us() && one.p99_us() > Some(0.0), "{one:?}");
    assert!(one.client_cpu_seconds.is_some() && one.server_cpu_seconds.is_none(), "{one:?}");
}

/// Returns an endpoint whose file is full of its pattern.
fn filled(conditions: &Conditions<'_>) -> FakeEndpoint {
    let mut fake = FakeEndpoint::new();
    fill(&mut fake, conditions).unwrap();
    fake
}

#[test]
fn wrong_data_ends_a_run_and_names_the_place() {
    let stop = AtomicBool::new(false);
    let conditions = conditions(&stop);
    let mut fake = filled(&conditions);
    fake.rotten = Some(1_234_567);
    let error = transfer(SEQUENTIAL_READ, &mut fake, &conditions).unwrap_err();
    assert!(error.to_string().contains("byte 1234560 of the file"), "{error}");
}

#[test]
fn a_short_read_ends_a_run() {
    let stop = AtomicBool::new(false);
    let conditions = conditions(&stop);
    let mut fake = filled(&conditions);
    fake.file.truncate(4 << 20);
    let error = transfer(SEQUENTIAL_READ, &mut fake, &conditions).unwrap_err();
    assert!(error.to_string().starts_with("0 of 1048576 bytes"), "{error}");
}

#[test]
fn a_repetition_that_was_stopped_does_not_count() {
    let stop = AtomicBool::new(true);
    let (mut fake, conditions) = (FakeEndpoint::new(), conditions(&stop));
    assert_eq!(transfer(RANDOM_READ, &mut fake, &conditions).unwrap(), None);
}

#[test]
fn a_server_that_offers_less_gets_the_same_requests_in_pieces() {
    let stop = AtomicBool::new(false);
    let (mut fake, conditions) = (FakeEndpoint::new(), conditions(&stop));
    fake.size = 256 << 10;
    fill(&mut fake, &conditions).unwrap();
    fake.deepest = 0;
    let one = transfer(SEQUENTIAL_READ, &mut fake, &conditions).unwrap().unwrap();
    assert_eq!((one.bytes, fake.deepest), (one.operations << 20, 4 * 8));
}

#[test]
fn the_pieces_of_a_request_are_neighbours_and_the_places_do_not_depend_on_them() {
    let stop = AtomicBool::new(false);
    let conditions = Conditions { length: Duration::from_millis(200), ..conditions(&stop) };
    let shape = TransferShape { writes: 50, random: true, depth: 2, size: 1 << 20 };
    let requests = |piece: usize, depth: usize| {
        let mut fake = filled(&conditions);
        (fake.size, fake.depth) = (piece, depth);
        fake.places.clear();
        transfer(shape, &mut fake, &conditions).unwrap().unwrap();
        let whole: Vec<(u64, bool)> = fake.places.iter().copied().step_by((1 << 20) / piece).collect();
        for (&(offset, write), pieces) in whole.iter().zip(fake.places.chunks((1 << 20) / piece)) {
            let offsets = (offset..offset + (1 << 20)).step_by(piece);
            assert!(pieces.iter().copied().eq(offsets.map(|offset| (offset, write))), "{pieces:?}");
        }
        whole[..4].to_vec()
    };
    let whole = requests(1 << 20, 64);
    assert_eq!(requests(128 << 10, 64), whole);
    // With fewer places than pieces.
    assert_eq!(requests(128 << 10, 3), whole);
}

#[test]
fn a_request_in_pieces_takes_as_long_as_all_of_them() {
    let stop = AtomicBool::new(false);
    let (mut fake, conditions) = (FakeEndpoint::new(), conditions(&stop));
    (fake.size, fake.depth) = (256 << 10, 1);
    fill(&mut fake, &conditions).unwrap();
    fake.delay = Duration::from_millis(5);
    let shape = TransferShape { depth: 1, ..SEQUENTIAL_READ };
    let one = transfer(shape, &mut fake, &conditions).unwrap().unwrap();
    assert_eq!(one.bytes, one.operations << 20);
    assert!(one.p50_us() >= Some(4.0 * 5000.0), "{one:?}");
}

#[test]
fn no_request_is_larger_than_the_file() {
    let stop = AtomicBool::new(false);
    let conditions = conditions(&stop);
    let shape = TransferShape { size: 16 << 20, ..SEQUENTIAL_READ };
    let one = transfer(shape, &mut filled(&conditions), &conditions).unwrap().unwrap();
    assert_eq!(one.bytes, one.operations * (4 << 20));
}

#[test]
fn a_request_that_the_server_puts_off_is_made_again() {
    let stop = AtomicBool::new(false);
    let conditions = conditions(&stop);
    for shape in [SEQUENTIAL_READ, TransferShape { depth: 1, writes: 100, ..RANDOM_READ }] {
        let mut fake = filled(&conditions);
        fake.places.clear();
        fake.delayed = [6, 7].into();
        let one = transfer(shape, &mut fake, &conditions).unwrap().unwrap();
        assert!(fake.delayed.is_empty());
        assert_eq!(fake.places.len() as u64, one.operations + 2);
    }
}

#[test]
fn a_client_with_few_slots_runs_less_deep() {
    let stop = AtomicBool::new(false);
    let (mut fake, conditions) = (FakeEndpoint::new(), conditions(&stop));
    fake.depth = 5;
    fill(&mut fake, &conditions).unwrap();
    transfer(RANDOM_READ, &mut fake, &conditions).unwrap();
    assert_eq!(fake.deepest, 5);
}
