//! Counters of served requests: operations, and the time and size of requests by operation, export
//! and flavor.
//!
//! Each shard has counters of its own, which it alone changes: an addition is a load and a store.
//! Other threads share a set of counters and add atomically. A reader sums all of them.

use super::RequestSubject;
use super::outcomes::{OPERATIONS, name_of, row};
use super::places::{OTHERS, PLACES};
use super::times::{Kind, nanoseconds};
use nfs4::NfsOpnum4;
use std::collections::BTreeMap;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed},
};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

const KINDS: usize = Kind::ALL.len();
/// Combinations of operation, export and flavor with counters of their own. Requests of further
/// combinations are counted with those of exports beyond the limit.
const REQUEST_SERIES_MAX: usize = 2048;

/// The upper bounds of the classes of times in microseconds; a last class has no bound.
const BOUNDS_US: [u64; 13] =
    [20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000, 200_000, 1_000_000, 5_000_000];
const CLASSES: usize = BOUNDS_US.len() + 1;

/// The steps of cryptography that work on a batch of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CryptoStep {
    /// Verifies the signatures of headers.
    VerifyHeaders,
    /// Verifies bodies with integrity.
    VerifyBodies,
    /// Decrypts and verifies bodies with privacy.
    Decrypt,
    /// Signs replies: their verifiers, and bodies with integrity.
    Sign,
    /// Encrypts and signs bodies with privacy.
    Encrypt,
}

impl CryptoStep {
    /// All steps in the order in which a request meets them.
    pub const ALL: [Self; 5] =
        [Self::VerifyHeaders, Self::VerifyBodies, Self::Decrypt, Self::Sign, Self::Encrypt];

    /// Returns its name in metrics.
    pub fn name(self) -> &'static str {
        ["verify_headers", "verify_bodies", "decrypt", "sign", "encrypt"][self as usize]
    }
}

/// Classes of the number of messages in a batch: 1, 2 to 3, 4 to 7, 8 to 15, and all lanes.
const LANE_CLASSES: usize = 5;

/// The messages that were processed together in one step.
#[derive(Debug, Default)]
struct BatchCounters {
    messages: AtomicU64,
    classes: [AtomicU64; LANE_CLASSES],
}

/// Time and size of the requests of one operation, export and flavor.
#[derive(Debug, Default)]
#[repr(align(64))]
struct RequestCounters {
    received: AtomicU64,
    sent: AtomicU64,
    nanoseconds: AtomicU64,
    classes: [AtomicU64; CLASSES],
}

/// The counters of one export, by flavor and operation.
type ExportCounters = [[OnceLock<Box<RequestCounters>>; OPERATIONS]; KINDS];

/// The counters of one shard, or those that other threads share.
#[derive(Debug)]
pub struct ServedCounters {
    /// Whether one thread at a time changes them.
    single_writer: bool,
    compounds: AtomicU64,
    successes: [AtomicU64; OPERATIONS],
    batches: [BatchCounters; CryptoStep::ALL.len()],
    exports: [OnceLock<Box<ExportCounters>>; PLACES],
}

impl ServedCounters {
    fn new(single_writer: bool) -> Self {
        Self {
            single_writer,
            compounds: AtomicU64::new(0),
            successes: std::array::from_fn(|_| AtomicU64::new(0)),
            batches: Default::default(),
            exports: std::array::from_fn(|_| OnceLock::new()),
        }
    }

    /// Makes counters that no reader sums, for tests of the engine alone.
    pub fn unread() -> Self {
        Self::new(false)
    }

    fn add(&self, counter: &AtomicU64, by: u64) {
        match self.single_writer {
            true => counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed),
            false => {
                counter.fetch_add(by, Relaxed);
            }
        }
    }

    /// Counts a COMPOUND that runs.
    pub fn compound(&self) {
        self.add(&self.compounds, 1);
    }

    /// One COMPOUND in so many of a shard is a sample; a prime, so that patterns of requests seldom
    /// have the same length.
    pub const SAMPLED_ONE_IN: u64 = 61;

    /// Returns whether the COMPOUND that was counted last is a sample.
    pub(crate) fn is_sample(&self) -> bool {
        self.compounds.load(Relaxed).is_multiple_of(Self::SAMPLED_ONE_IN)
    }

    /// Counts an operation that has succeeded.
    pub(crate) fn succeeded(&self, opnum: NfsOpnum4) {
        if let Some(counter) = self.successes.get(row(opnum)) {
            self.add(counter, 1);
        }
    }

    /// Counts a batch of messages, unless it is empty.
    pub(crate) fn batch(&self, step: CryptoStep, messages: usize) {
        let Some(class) = messages.checked_ilog2() else { return };
        let counters = &self.batches[step as usize];
        self.add(&counters.messages, messages as u64);
        self.add(&counters.classes[(class as usize).min(LANE_CLASSES - 1)], 1);
    }

    /// Returns the counters of an operation, export and flavor; `None` if they do not exist yet.
    fn find(&self, place: usize, kind: Kind, row: usize) -> Option<&RequestCounters> {
        self.exports.get(place)?.get()?.get(kind as usize)?.get(row)?.get().map(|counters| &**counters)
    }

    /// Returns these counters, and makes them if need be.
    fn make(&self, place: usize, kind: Kind, row: usize) -> Option<&RequestCounters> {
        let of_export = || Box::new(std::array::from_fn(|_| std::array::from_fn(|_| OnceLock::new())));
        let of_export = self.exports.get(place)?.get_or_init(of_export);
        Some(of_export.get(kind as usize)?.get(row)?.get_or_init(Box::default))
    }
}

/// A request that was answered, as far as it is counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServedCall {
    /// When its shard woke for it, in nanoseconds since the server's start.
    since: u64,
    /// The bytes of its record.
    received: u32,
    subject: RequestSubject,
}

impl ServedCall {
    /// Makes the part of a call that arrived at `since` with a record of `received` bytes.
    pub(crate) fn new(since: Duration, received: usize) -> Self {
        let received = u32::try_from(received).unwrap_or(u32::MAX);
        Self { since: nanoseconds(since), received, subject: RequestSubject::NONE }
    }

    /// Adds the operation and the export that the call was about.
    pub(crate) fn about(self, subject: RequestSubject) -> Self {
        Self { subject, ..self }
    }
}

/// Times of requests and their classes; those of a batch are mostly the same.
#[derive(Debug)]
pub(crate) struct TimeClasses {
    end: u64,
    since: u64,
    nanoseconds: u64,
    class: usize,
}

impl TimeClasses {
    /// Begins with requests whose replies are ready at `end`.
    pub(crate) fn new(end: Duration) -> Self {
        let end = nanoseconds(end);
        Self { end, since: end, nanoseconds: 0, class: 0 }
    }

    fn of(&mut self, since: u64) -> (u64, usize) {
        if since != self.since {
            self.since = since;
            self.nanoseconds = self.end.saturating_sub(since);
            self.class = BOUNDS_US.partition_point(|bound| bound * 1_000 < self.nanoseconds);
        }
        (self.nanoseconds, self.class)
    }
}

/// All counters of served requests.
#[derive(Debug)]
pub struct ServedRequests {
    sets: Mutex<CounterSets>,
    /// For threads other than shards.
    shared: Arc<ServedCounters>,
    /// A bit for each combination of export, flavor and operation that has counters.
    admitted: Box<[AtomicU64]>,
    combinations: AtomicU64,
}

/// The counters of shards.
#[derive(Debug, Default)]
struct CounterSets {
    all: Vec<Arc<ServedCounters>>,
    /// Sets that no shard uses at the moment.
    free: Vec<Arc<ServedCounters>>,
}

impl Default for ServedRequests {
    fn default() -> Self {
        let bits = PLACES * KINDS * OPERATIONS;
        Self {
            sets: Mutex::default(),
            shared: Arc::new(ServedCounters::new(false)),
            admitted: (0..bits.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            combinations: AtomicU64::new(0),
        }
    }
}

/// The counts of requests about one operation, on one export, by one flavor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSeries {
    /// The operation's name: `READ`.
    pub operation: &'static str,
    /// The place of the export: see [`super::Outcomes::export_names`].
    pub place: usize,
    /// The flavor of the calls.
    pub kind: Kind,
    /// Bytes of the records received.
    pub received: u64,
    /// Bytes of the replies.
    pub sent: u64,
    /// The sum of the times.
    pub time: Duration,
    /// The number of requests in each class of times: see [`ServedRequests::bounds`].
    pub classes: [u64; CLASSES],
}

/// The batches of one step of cryptography.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSeries {
    /// The step that processed the messages.
    pub step: CryptoStep,
    /// The sum of messages.
    pub messages: u64,
    /// The number of batches with 1, at most 3, 7, 15, and more messages.
    pub classes: [u64; LANE_CLASSES],
}

impl ServedRequests {
    fn lock(&self) -> MutexGuard<'_, CounterSets> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counters that all threads may use.
    pub(crate) fn shared(&self) -> &ServedCounters {
        &self.shared
    }

    fn lend(&self) -> Arc<ServedCounters> {
        let mut sets = self.lock();
        sets.free.pop().unwrap_or_else(|| {
            let new = Arc::new(ServedCounters::new(true));
            sets.all.push(new.clone());
            new
        })
    }

    /// Counts a request whose reply is ready.
    pub(crate) fn count(
        &self,
        counters: &ServedCounters,
        times: &mut TimeClasses,
        kind: Kind,
        call: &ServedCall,
        sent: usize,
    ) {
        let Some(row) = call.subject.row() else { return };
        let place = call.subject.export();
        let found = counters.find(place, kind, row);
        let Some(found) = found.or_else(|| self.admit(counters, place, kind, row)) else { return };
        let (nanoseconds, class) = times.of(call.since);
        counters.add(&found.received, call.received.into());
        counters.add(&found.sent, sent as u64);
        counters.add(&found.nanoseconds, nanoseconds);
        if let Some(count) = found.classes.get(class) {
            counters.add(count, 1);
        }
    }

    /// Makes counters for a combination, or returns those for the combinations beyond the limit.
    #[cold]
    fn admit<'c>(
        &self,
        counters: &'c ServedCounters,
        place: usize,
        kind: Kind,
        row: usize,
    ) -> Option<&'c RequestCounters> {
        let place = if self.has_counters(place, kind, row) { place } else { OTHERS.into() };
        counters.make(place, kind, row)
    }

    fn has_counters(&self, place: usize, kind: Kind, row: usize) -> bool {
        let bit = (place * KINDS + kind as usize) * OPERATIONS + row;
        let Some(word) = self.admitted.get(bit / 64) else { return false };
        let mask = 1 << (bit % 64);
        if word.load(Relaxed) & mask != 0 {
            return true;
        }
        // Several threads at the limit exceed it by their number at most.
        let admitted = self.combinations.load(Relaxed) < REQUEST_SERIES_MAX as u64;
        if admitted && word.fetch_or(mask, AcqRel) & mask == 0 {
            self.combinations.fetch_add(1, Relaxed);
        }
        admitted
    }

    /// Sums a value over all counters.
    fn sum(&self, value: impl Fn(&ServedCounters) -> u64) -> u64 {
        let all = self.all();
        all.iter().map(|counters| value(counters)).fold(0, u64::wrapping_add)
    }

    fn all(&self) -> Vec<Arc<ServedCounters>> {
        self.lock().all.iter().chain([&self.shared]).cloned().collect()
    }

    /// Returns the number of COMPOUNDs that have run.
    pub fn compounds(&self) -> u64 {
        self.sum(|counters| counters.compounds.load(Relaxed))
    }

    /// Returns how often each operation has succeeded.
    pub(crate) fn successes(&self) -> [u64; OPERATIONS] {
        let mut successes = [0; OPERATIONS];
        for counters in self.all() {
            for (sum, count) in successes.iter_mut().zip(&counters.successes) {
                *sum += count.load(Relaxed);
            }
        }
        successes
    }

    /// Returns the batches of each step.
    pub fn batches(&self) -> [BatchSeries; CryptoStep::ALL.len()] {
        CryptoStep::ALL.map(|step| BatchSeries {
            step,
            messages: self.sum(|counters| counters.batches[step as usize].messages.load(Relaxed)),
            classes: std::array::from_fn(|class| {
                self.sum(|counters| counters.batches[step as usize].classes[class].load(Relaxed))
            }),
        })
    }

    /// Returns the upper bounds of all classes of times but the last.
    pub fn bounds() -> [Duration; BOUNDS_US.len()] {
        BOUNDS_US.map(Duration::from_micros)
    }

    /// Returns the requests of each combination of export, flavor and operation that has any.
    pub fn requests(&self) -> Vec<RequestSeries> {
        let mut found: BTreeMap<(usize, usize, usize), RequestSeries> = BTreeMap::new();
        for counters in self.all() {
            for (place, of_export) in counters.exports.iter().enumerate() {
                let kinds = of_export.get().into_iter().flat_map(|of_export| of_export.iter().enumerate());
                for (kind, rows) in kinds {
                    for (row, of_row) in rows.iter().enumerate() {
                        let Some(counted) = of_row.get() else { continue };
                        let series = || RequestSeries::new(name_of(row), place, Kind::ALL[kind]);
                        found.entry((place, kind, row)).or_insert_with(series).add(counted);
                    }
                }
            }
        }
        found.into_values().filter(|series| series.count() > 0).collect()
    }
}

impl RequestSeries {
    fn new(operation: &'static str, place: usize, kind: Kind) -> Self {
        let (time, classes) = (Duration::ZERO, [0; CLASSES]);
        Self { operation, place, kind, received: 0, sent: 0, time, classes }
    }

    fn add(&mut self, counted: &RequestCounters) {
        self.received += counted.received.load(Relaxed);
        self.sent += counted.sent.load(Relaxed);
        self.time += Duration::from_nanos(counted.nanoseconds.load(Relaxed));
        for (sum, count) in self.classes.iter_mut().zip(&counted.classes) {
            *sum += count.load(Relaxed);
        }
    }

    /// Returns the number of requests.
    pub fn count(&self) -> u64 {
        self.classes.iter().sum()
    }
}

/// The counters of a shard, until it is dropped.
#[derive(Debug)]
pub(crate) struct LentCounters {
    counters: Arc<ServedCounters>,
    metrics: Arc<super::Metrics>,
}

impl LentCounters {
    /// Borrows counters that no other thread changes meanwhile.
    pub(crate) fn of(metrics: &Arc<super::Metrics>) -> Self {
        Self { counters: metrics.served.lend(), metrics: metrics.clone() }
    }
}

impl std::ops::Deref for LentCounters {
    type Target = ServedCounters;

    fn deref(&self) -> &ServedCounters {
        &self.counters
    }
}

impl Drop for LentCounters {
    fn drop(&mut self) {
        self.metrics.served.lock().free.push(self.counters.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use NfsOpnum4::*;

    fn call(opnum: NfsOpnum4, place: u8, since: Duration) -> ServedCall {
        let mut subject = RequestSubject::NONE;
        subject.consider(opnum, || place);
        ServedCall::new(since, 100).about(subject)
    }

    #[test]
    fn requests_are_counted_by_operation_export_and_flavor_with_their_time_and_size() {
        let metrics = Arc::new(Metrics::default());
        let (one, two) = (LentCounters::of(&metrics), LentCounters::of(&metrics));
        let served = &metrics.served;
        let end = Duration::from_secs(100);
        let mut times = TimeClasses::new(end);
        for (counters, micros) in [(&*one, 30), (&*two, 30), (served.shared(), 3_000), (&*one, 9_000_000)] {
            let since = end.saturating_sub(Duration::from_micros(micros));
            served.count(counters, &mut times, Kind::Krb5p, &call(OP_READ, 1, since), 4200);
        }
        served.count(&one, &mut times, Kind::Sys, &call(OP_GETATTR, 0, end), 1);
        served.count(&one, &mut times, Kind::Sys, &ServedCall::default(), 1);
        let found = served.requests();
        let [getattr, read] = &found[..] else { panic!("{found:?}") };
        assert_eq!((getattr.operation, getattr.place, getattr.kind), ("GETATTR", 0, Kind::Sys));
        assert_eq!((read.operation, read.place, read.kind), ("READ", 1, Kind::Krb5p));
        assert_eq!((read.received, read.sent, read.count()), (400, 16_800, 4));
        assert_eq!((read.classes[1], read.classes[7], read.classes[CLASSES - 1]), (2, 1, 1));
        assert_eq!(read.time, Duration::from_micros(9_003_060));
    }

    #[test]
    fn counters_of_a_shard_that_ends_are_kept_and_used_again() {
        let metrics = Arc::new(Metrics::default());
        for _ in 0..10 {
            let counters = LentCounters::of(&metrics);
            counters.compound();
            counters.succeeded(OP_CLOSE);
        }
        assert_eq!((metrics.served.compounds(), metrics.served.successes()[OP_CLOSE as usize]), (10, 10));
        assert_eq!(metrics.served.lock().all.len(), 1);
    }

    #[test]
    fn combinations_beyond_the_limit_are_counted_together() {
        let served = ServedRequests::default();
        let counters = ServedCounters::new(true);
        let mut times = TimeClasses::new(Duration::ZERO);
        for place in 0..PLACES as u8 {
            for opnum in NfsOpnum4::ALL {
                served.count(&counters, &mut times, Kind::Sys, &call(*opnum, place, Duration::ZERO), 0);
            }
        }
        let served = ServedRequests { shared: Arc::new(counters), ..served };
        let (others, own): (Vec<_>, Vec<_>) =
            served.requests().into_iter().partition(|series| series.place == usize::from(OTHERS));
        assert!(own.len() <= REQUEST_SERIES_MAX && own.len() > REQUEST_SERIES_MAX / 2, "{}", own.len());
        let all: u64 = own.iter().chain(&others).map(RequestSeries::count).sum();
        assert_eq!(all, (PLACES * NfsOpnum4::ALL.len()) as u64);
    }

    #[test]
    fn batches_are_counted_by_the_lanes_that_they_fill() {
        let served = ServedRequests::default();
        for messages in [0, 1, 2, 3, 7, 8, 15, 16, 100] {
            served.shared().batch(CryptoStep::Sign, messages);
        }
        let sign = served.batches()[CryptoStep::Sign as usize];
        assert_eq!((sign.messages, sign.classes), (152, [1, 2, 1, 2, 2]));
    }
}
