use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::fake::Fake;
use super::*;

fn conditions(stop: &AtomicBool) -> Conditions<'_> {
    Conditions {
        file_size: 5 << 20,
        pattern: Pattern(3),
        length: Duration::from_millis(20),
        stop,
        server_cpu: &|| None,
    }
}

#[test]
fn every_workload_measures_something_and_checks_what_it_reads() {
    let stop = AtomicBool::new(false);
    let (mut fake, conditions) = (Fake::new(), conditions(&stop));
    fill(&mut fake, &conditions).unwrap();
    assert_eq!(fake.file.len(), 5 << 20);
    assert_eq!(Pattern(3).mismatch(0, &fake.file), None);
    for workload in Workload::ALL {
        fake.deepest = 0;
        let one = repeat(workload, 4, &mut fake, &conditions).unwrap().unwrap();
        assert!(one.operations > 0 && one.round == 4 && one.seconds >= 0.02, "{one:?}");
        assert!(one.p50_us <= one.p99_us && one.p99_us > 0.0, "{one:?}");
        assert_eq!(one.server_cpu_seconds, None);
        let (size, depth) = match workload {
            Workload::SequentialRead | Workload::SequentialWrite => (1 << 20, SEQUENTIAL_DEPTH),
            Workload::Metadata => (0, 0),
            Workload::RandomReadDepth1 | Workload::RandomWriteDepth1 => (4096, 1),
            _ => (4096, 64),
        };
        assert_eq!((one.bytes, fake.deepest), (one.operations * size, depth), "{workload:?}");
    }
    // Filling, and one for each workload that writes.
    assert_eq!(fake.commits, 4);
    assert_eq!(Pattern(3).mismatch(0, &fake.file), None);
    fake.finish().unwrap();
}

#[test]
fn wrong_data_ends_a_run_and_names_the_place() {
    let stop = AtomicBool::new(false);
    let (mut fake, conditions) = (Fake::new(), conditions(&stop));
    fill(&mut fake, &conditions).unwrap();
    fake.rotten = Some(1_234_567);
    let error = repeat(Workload::SequentialRead, 0, &mut fake, &conditions).unwrap_err();
    assert!(error.to_string().contains("byte 1234560 of the file"), "{error}");
}

#[test]
fn a_short_read_ends_a_run() {
    let stop = AtomicBool::new(false);
    let (mut fake, conditions) = (Fake::new(), conditions(&stop));
    fill(&mut fake, &conditions).unwrap();
    fake.file.truncate(4 << 20);
    let error = repeat(Workload::SequentialRead, 0, &mut fake, &conditions).unwrap_err();
    assert!(error.to_string().starts_with("0 of 1048576 bytes"), "{error}");
}

#[test]
fn a_repetition_that_was_stopped_does_not_count() {
    let stop = AtomicBool::new(true);
    let (mut fake, conditions) = (Fake::new(), conditions(&stop));
    assert_eq!(repeat(Workload::RandomReadDepth64, 0, &mut fake, &conditions).unwrap(), None);
}

#[test]
fn a_server_that_offers_less_gets_as_many_bytes_in_more_requests() {
    let stop = AtomicBool::new(false);
    let (mut fake, conditions) = (Fake::new(), conditions(&stop));
    fake.size = 256 << 10;
    fill(&mut fake, &conditions).unwrap();
    fake.deepest = 0;
    let one = repeat(Workload::SequentialRead, 0, &mut fake, &conditions).unwrap().unwrap();
    assert_eq!((one.bytes, fake.deepest), (one.operations * (256 << 10), 4 * SEQUENTIAL_DEPTH));
}

#[test]
fn a_client_with_few_slots_runs_less_deep() {
    let stop = AtomicBool::new(false);
    let (mut fake, conditions) = (Fake::new(), conditions(&stop));
    fake.depth = 5;
    fill(&mut fake, &conditions).unwrap();
    repeat(Workload::RandomReadDepth64, 0, &mut fake, &conditions).unwrap();
    assert_eq!(fake.deepest, 5);
}
