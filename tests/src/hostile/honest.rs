//! The honest client: reads in flight, an open file and a lock that it must keep.

use client::{CallOptions, Client, Completion, Lock, OpenFile, OpenHow, Options, read_result};
use nfs4::NfsLockType4;
use std::time::{Duration, Instant};

/// Number of reads in flight.
const DEPTH: u64 = 16;
/// Bytes of a read.
const READ_SIZE: u32 = 4096;
/// How long to wait for completions before the clock is looked at.
const POLL: Duration = Duration::from_millis(20);
/// Time between two looks at the server.
const LOOK: Duration = Duration::from_millis(200);
/// Losses that are reported of one client.
const LOSSES_MAX: usize = 5;

/// Counts and latencies of answered requests.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    latencies_us: Vec<u32>,
    time: Duration,
}

impl Pace {
    /// Returns the number of requests a second.
    pub fn rate(&self) -> f64 {
        self.latencies_us.len() as f64 / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The 99th percentile of the latency in milliseconds; 0 without a request.
    pub fn p99_ms(&self) -> f64 {
        let mut sorted = self.latencies_us.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() * 99 / 100).map_or(0.0, |us| f64::from(*us) / 1000.0)
    }
}

/// An honest client at work.
pub(super) struct Honest {
    client: Client,
    file: OpenFile,
    lock: Lock,
    began: Instant,
    in_flight: u64,
    sent: u64,
    losses: Vec<String>,
}

impl Honest {
    /// Connects, opens `/export/file` and locks a range of it.
    pub(super) fn connect(options: Options) -> Self {
        let mut client = Client::connect(options).expect("the honest client is admitted");
        let how = OpenHow { access: nfs4::OPEN4_SHARE_ACCESS_BOTH, ..OpenHow::read() };
        let file = client.open_path("/export/file", &how).expect("the file is its own");
        let locked = client.lock(&file, b"honest", NfsLockType4::WRITE_LT, 0, 100);
        let lock = locked.expect("the lock is answered").expect("the range is free");
        Self { client, file, lock, began: Instant::now(), in_flight: 0, sent: 0, losses: Vec::new() }
    }

    /// Keeps reads in flight for `time`, and calls `look` now and then.
    pub(super) fn work(&mut self, time: Duration, pace: &mut Pace, mut look: impl FnMut()) {
        let (begin, mut looked) = (Instant::now(), Instant::now());
        let mut done = Vec::new();
        while begin.elapsed() < time {
            self.fill();
            self.reap(&mut done, pace);
            if looked.elapsed() > LOOK {
                look();
                looked = Instant::now();
            }
        }
        pace.time += begin.elapsed();
        // The answers of this phase do not count for the next one.
        while self.in_flight > 0 {
            self.reap(&mut done, &mut Pace::default());
        }
    }

    fn fill(&mut self) {
        while self.in_flight < DEPTH {
            let offset = (self.sent.wrapping_mul(0x9e37_79b9) % 256) * u64::from(READ_SIZE);
            let options =
                CallOptions { tag: self.began.elapsed().as_micros() as u64, ..CallOptions::default() };
            let (handle, stateid) = (&self.file.handle, self.file.stateid);
            match self.client.submit_read(handle, stateid, offset, READ_SIZE, options) {
                Ok(_) => self.in_flight += 1,
                Err(error) => return self.lose(format!("a request could not be sent: {error}")),
            }
            self.sent += 1;
        }
    }

    fn reap(&mut self, done: &mut Vec<Completion>, pace: &mut Pace) {
        if let Err(error) = self.client.poll(POLL, done) {
            self.lose(format!("the client failed: {error}"));
            self.in_flight = 0;
        }
        let now = self.began.elapsed().as_micros() as u64;
        for completion in done.drain(..) {
            self.in_flight = self.in_flight.saturating_sub(1);
            match completion.result {
                Ok(reply) => {
                    match read_result(&reply).map(|read| read.data.len()) {
                        Ok(length) if length == READ_SIZE as usize => {
                            pace.latencies_us.push(u32::try_from(now - completion.tag).unwrap_or(u32::MAX));
                        }
                        other => self.losses.push(format!("a read was answered {other:?}")),
                    }
                    self.client.recycle(reply);
                }
                Err(error) => self.lose(format!("a request was lost: {error}")),
            }
        }
    }

    fn lose(&mut self, loss: String) {
        if self.losses.len() < LOSSES_MAX {
            self.losses.push(loss);
        }
    }

    /// Returns lock, file and session, and lists the losses since the beginning.
    pub(super) fn leave(mut self) -> Vec<String> {
        let reconnects = self.client.statistics().reconnects;
        if reconnects > 0 {
            self.lose(format!("{reconnects} connections were lost"));
        }
        let kept = self
            .client
            .unlock(&self.file.handle, &mut self.lock, 0, 100)
            .and_then(|()| self.client.close_file(&self.file))
            .and_then(|()| self.client.close());
        self.losses.extend(kept.err().map(|error| format!("lock, open or session were lost: {error}")));
        self.losses.truncate(LOSSES_MAX);
        self.losses
    }
}
