//! The time of calls: how long they wait, and how long each stage takes.
//!
//! Batches are timed, not calls: the clock is read between stages and between calls of different
//! flavors, and the elapsed time is divided equally among the calls of the batch. Most ticks have
//! calls of one flavor; ticks of `sys` read the clock once besides the reading at their begin.

use krb5::Enctype;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Calls whose times are counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// AUTH_SYS, not signed at all.
    Sys,
    /// RPCSEC_GSS with signed headers only.
    Krb5,
    /// RPCSEC_GSS, header and body signed.
    Krb5i,
    /// RPCSEC_GSS, header signed and body encrypted.
    Krb5p,
    /// Other calls: AUTH_NONE, creation and destruction of contexts, malformed records.
    #[default]
    Other,
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Sys, Self::Krb5, Self::Krb5i, Self::Krb5p, Self::Other];

    /// The kinds with signed headers.
    const GSS: [Self; 3] = [Self::Krb5, Self::Krb5i, Self::Krb5p];

    /// Returns the flavor's name, or `other`.
    pub fn name(self) -> &'static str {
        ["sys", "krb5", "krb5i", "krb5p", "other"][self as usize]
    }

    /// Returns its index in [`Kind::ALL`].
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// A stage of a call in this layer. The network layer sends the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits: for its batch to begin; when it is deferred, for a thread of the pool or another
    /// client's answer, and for its shard; and after its operations, for the group commit.
    Queue,
    /// Its header and its body are verified, and decrypted.
    Unwrap,
    /// It is decoded and run, and its results are encoded. The time in which its thread waits for a
    /// disk counts as well.
    Execute,
    /// Its reply is signed and encrypted.
    Wrap,
}

impl Stage {
    /// All stages in their order.
    pub const ALL: [Self; 4] = [Self::Queue, Self::Unwrap, Self::Execute, Self::Wrap];

    /// Returns its name in metrics.
    pub fn name(self) -> &'static str {
        ["queue", "unwrap", "execute", "wrap"][self as usize]
    }
}

const KINDS: usize = Kind::ALL.len();
const STAGES: usize = Stage::ALL.len();
const ENCTYPES: usize = Enctype::ALL.len();

/// Messages by flavor and encryption type.
type EnctypeCounts = [[u64; ENCTYPES]; KINDS];

/// Calls of each kind, or another measure of their work.
pub(crate) type Work = [u64; KINDS];

/// The counters of one kind; threads update them once a tick.
#[derive(Debug, Default)]
#[repr(align(64))]
struct CountedTimes {
    calls: AtomicU64,
    nanoseconds: [AtomicU64; STAGES],
    /// Time of unwrapping and of wrapping, by encryption type.
    protection: [[AtomicU64; 2]; ENCTYPES],
}

/// Calls by kind, and the time of each stage, since the server's start. Shared by all threads,
/// never reset.
#[derive(Debug, Default)]
pub struct Times([CountedTimes; KINDS]);

impl Times {
    /// Returns the calls of a kind, with any outcome.
    pub fn calls(&self, kind: Kind) -> u64 {
        self.0[kind as usize].calls.load(Relaxed)
    }

    /// Returns the time that all calls of a kind together have spent in a stage. All stages except
    /// [`Stage::Queue`] count time of threads, which the calls of a batch share.
    pub fn spent(&self, kind: Kind, stage: Stage) -> Duration {
        Duration::from_nanos(self.0[kind as usize].nanoseconds[stage as usize].load(Relaxed))
    }

    /// Returns the part of [`Stage::Unwrap`] and [`Stage::Wrap`] of a kind that contexts with this
    /// encryption type have taken. The messages of a tick share its time equally.
    pub fn protecting(&self, kind: Kind, enctype: Enctype) -> [Duration; 2] {
        let times = &self.0[kind as usize].protection[place(enctype)];
        [&times[0], &times[1]].map(|time| Duration::from_nanos(time.load(Relaxed)))
    }

    /// Adds the time of one call.
    pub(crate) fn add(&self, kind: Kind, stage: Stage, time: Duration) {
        self.0[kind as usize].nanoseconds[stage as usize].fetch_add(nanoseconds(time), Relaxed);
    }

    fn add_tick(&self, calls: &Work, times: &[[u64; STAGES]; KINDS], messages: &EnctypeCounts) {
        for ((counted, calls), times) in self.0.iter().zip(calls).zip(times) {
            let cells = [&counted.calls].into_iter().chain(&counted.nanoseconds);
            for (cell, by) in cells.zip([calls].into_iter().chain(times)).filter(|(_, by)| **by > 0) {
                cell.fetch_add(*by, Relaxed);
            }
        }
        for kind in Kind::GSS.map(|kind| kind as usize) {
            self.0[kind].add_protection(&times[kind], &messages[kind]);
        }
    }
}

impl CountedTimes {
    /// Divides the time of protection among the encryption types of its messages.
    fn add_protection(&self, times: &[u64; STAGES], messages: &[u64; ENCTYPES]) {
        let all: u64 = messages.iter().sum();
        let stages = [times[Stage::Unwrap as usize], times[Stage::Wrap as usize]];
        if all == 0 || stages == [0, 0] {
            return;
        }
        for (cells, count) in self.protection.iter().zip(messages).filter(|(_, count)| **count > 0) {
            for (cell, time) in cells.iter().zip(stages) {
                let part = u128::from(time) * u128::from(*count) / u128::from(all);
                cell.fetch_add(u64::try_from(part).unwrap_or(u64::MAX), Relaxed);
            }
        }
    }
}

/// Returns the index of an encryption type.
fn place(enctype: Enctype) -> usize {
    Enctype::ALL.iter().position(|known| *known == enctype).unwrap_or_default()
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The stopwatch of one tick.
#[derive(Debug, Default)]
pub(crate) struct TickWatch {
    /// When the records of this tick arrived, if known.
    arrived: Option<Duration>,
    /// The end of the time that is already counted.
    since: Duration,
    calls: Work,
    times: [[u64; STAGES]; KINDS],
    /// Protected calls and replies of the tick.
    messages: EnctypeCounts,
    /// Completed calls, each with the time since which its result has waited for the shard.
    completed: Vec<(Kind, Duration)>,
}

impl TickWatch {
    /// Sets the time at which the records of the next ticks arrived.
    pub(crate) fn arrived(&mut self, at: Duration) {
        self.arrived = Some(at);
    }

    /// Adds a completed call that was deferred.
    pub(crate) fn completed(&mut self, kind: Kind, since: Duration) {
        self.completed.push((kind, since));
    }

    /// Returns the time at which the records of a tick arrived that begins now.
    pub(crate) fn since(&self, now: Duration) -> Duration {
        self.arrived.unwrap_or(now)
    }

    /// Begins a tick with calls of these kinds.
    pub(crate) fn begin(&mut self, calls: impl Iterator<Item = (Kind, Option<Enctype>)>, now: Duration) {
        self.since = now;
        for (kind, enctype) in calls {
            self.calls[kind as usize] += 1;
            self.protects(kind, enctype);
        }
        let waited = nanoseconds(now.saturating_sub(self.since(now)));
        for (times, calls) in self.times.iter_mut().zip(self.calls) {
            times[Stage::Queue as usize] += waited.saturating_mul(calls);
        }
        for (kind, since) in self.completed.drain(..) {
            self.times[kind as usize][Stage::Queue as usize] += nanoseconds(now.saturating_sub(since));
        }
    }

    /// Counts a call or a reply that keys of this encryption type protect.
    pub(crate) fn protects(&mut self, kind: Kind, enctype: Option<Enctype>) {
        if let Some(enctype) = enctype {
            self.messages[kind as usize][place(enctype)] += 1;
        }
    }

    /// Counts the time since the last lap for a stage of calls of one kind.
    pub(crate) fn lap(&mut self, now: Duration, stage: Stage, kind: Kind) {
        self.times[kind as usize][stage as usize] += nanoseconds(now.saturating_sub(self.since));
        self.since = now;
    }

    /// Counts the time since the last lap for a stage of calls of several kinds, in proportion to
    /// the work of each kind.
    pub(crate) fn share(&mut self, now: Duration, stage: Stage, work: &Work) {
        let passed = u128::from(nanoseconds(now.saturating_sub(self.since)));
        let all = work.iter().map(|work| u128::from(*work)).sum::<u128>().max(1);
        for (times, work) in self.times.iter_mut().zip(work) {
            times[stage as usize] += u64::try_from(passed * u128::from(*work) / all).unwrap_or(u64::MAX);
        }
        self.since = now;
    }

    /// Excludes the time of a pause from the current lap.
    pub(crate) fn skip(&mut self, time: Duration) {
        self.since += time;
    }

    /// Returns the calls of this tick by kind.
    pub(crate) fn calls(&self) -> Work {
        self.calls
    }

    /// Returns the signed calls of this tick by kind.
    pub(crate) fn signed(&self) -> Work {
        let mut signed = Work::default();
        for kind in Kind::GSS {
            signed[kind as usize] = self.calls[kind as usize];
        }
        signed
    }

    /// Ends the tick and adds its counts to `times`.
    pub(crate) fn end(&mut self, times: &Times) {
        times.add_tick(&self.calls, &self.times, &self.messages);
        (self.calls, self.times, self.messages) = Default::default();
    }
}

/// Returns the kind of all this work, if there is only one.
pub(crate) fn only(work: &Work) -> Option<Kind> {
    let mut kinds = Kind::ALL.into_iter().filter(|kind| work[*kind as usize] > 0);
    kinds.next().filter(|_| kinds.next().is_none())
}
