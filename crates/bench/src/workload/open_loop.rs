//! Reads and writes on a fixed schedule, independent of the server's speed.
//!
//! The n-th request of all clients is due at the start plus n / rate, and its latency counts from
//! then: a server that stalls pays for all requests that had to wait meanwhile (no coordinated
//! omission). A request without a free slot waits here, as it would in a kernel.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::data::TransferShape;
use super::in_flight::InFlight;
use super::{Conditions, LoadTally, SharedRate};
use crate::Endpoint;

/// The highest rate that is asked for, in requests a second.
const RATE_MAX: f64 = 100_000_000.0;

/// Makes the client's requests of the rate until the time is over, then waits for the requests in
/// flight.
pub(super) fn run(
    shape: TransferShape,
    shared: SharedRate,
    endpoint: &mut dyn Endpoint,
    conditions: &Conditions<'_>,
    tally: &mut LoadTally,
) -> Result<()> {
    let rate = shared.rate;
    ensure!(rate > 0.0 && rate < RATE_MAX, "{rate} requests a second cannot be made");
    let shape = shape.fitted(conditions.file_size);
    let mut in_flight = InFlight::new(shape, endpoint, conditions, shape.seed());
    let end = shared.start + conditions.length;
    let arrivals = shared.arrivals(conditions.length);
    loop {
        let now = Instant::now();
        if now >= end || conditions.stopped() {
            break;
        }
        in_flight.send(endpoint)?;
        while !in_flight.is_full()
            && arrivals.next() <= now
            && let Some((_, due)) = arrivals.take()
        {
            in_flight.start(endpoint, due)?;
        }
        // With all places taken only an answer helps.
        let until = if in_flight.is_full() { end } else { arrivals.next().min(end) };
        let wait = until.saturating_duration_since(Instant::now());
        if in_flight.is_empty() {
            std::thread::sleep(wait);
        } else {
            in_flight.poll(endpoint, tally, Some(wait))?;
        }
    }
    in_flight.drain(endpoint, tally)?;
    arrivals.give_up(tally);
    if shape.writes_at_all() { endpoint.commit() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;
    use crate::workload::fake::FakeEndpoint;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    fn run_at(rate: f64, delay: Duration, depth: usize) -> LoadTally {
        run_on(&mut FakeEndpoint::new(), 4096, rate, delay, depth)
    }

    fn run_on(fake: &mut FakeEndpoint, size: usize, rate: f64, delay: Duration, depth: usize) -> LoadTally {
        let stop = AtomicBool::new(false);
        let length = Duration::from_millis(200);
        let conditions = Conditions { file_size: 2 << 20, pattern: Pattern(3), length, stop: &stop };
        crate::workload::fill(fake, &conditions).unwrap();
        fake.delay = delay;
        let mut tally = LoadTally::default();
        let shape = TransferShape { writes: 50, random: true, depth, size };
        let alone = SharedRate { rate, clients: 1, client: 0, start: Instant::now() };
        run(shape, alone, fake, &conditions, &mut tally).unwrap();
        tally
    }

    #[test]
    fn as_many_are_asked_for_as_are_due() {
        let tally = run_at(500.0, Duration::ZERO, 64);
        assert_eq!(tally.operations + tally.unserved, 100);
    }

    #[test]
    fn a_request_in_pieces_is_due_once_and_counts_once() {
        let mut fake = FakeEndpoint::new();
        (fake.size, fake.depth) = (128 << 10, 3);
        let tally = run_on(&mut fake, 1 << 20, 500.0, Duration::ZERO, 64);
        assert_eq!(tally.operations + tally.unserved, 100);
        assert_eq!(tally.bytes, tally.operations << 20);
    }

    #[test]
    fn requests_to_a_slow_server_count_from_the_time_they_were_due() {
        // At depth 1 and 20 ms each, 200 ms are enough for ten of a hundred requests.
        let tally = run_at(500.0, Duration::from_millis(20), 1);
        assert_eq!(tally.operations + tally.unserved, 100);
        assert!(tally.unserved >= 85, "{}", tally.unserved);
        assert_eq!(tally.latencies.len(), 100);
        // A closed loop would have said 20 ms.
        assert!(tally.latencies.quantile_us(0.5) > 60_000.0, "{}", tally.latencies.quantile_us(0.5));
    }
}
