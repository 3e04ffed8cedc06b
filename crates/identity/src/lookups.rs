//! Looks up accounts and names in a source that may be slow: on separate threads, once per key in
//! flight, with a bounded wait.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::{Identity, LookupStep, NoAccount, SourceError};

/// Threads that look up owners; a source can hang no others.
pub(crate) const LOOKUP_THREADS_MAX: usize = 8;
/// Threads that look up principals. They are more, so that accounts of another source are found
/// while one source hangs.
pub(crate) const PRINCIPAL_THREADS_MAX: usize = 32;
/// Threads that look up clients by name.
pub(crate) const CLIENT_THREADS_MAX: usize = 16;
/// Lookups in flight or queued. Further lookups count as late at once.
const LOOKUPS_MAX: usize = 4096;
/// Lookups of one origin that are queued. Further ones count as late at once.
const ORIGIN_LOOKUPS_MAX: usize = 512;
/// Calls that wait for lookups at once. Further calls count as late at once, because disk I/O needs
/// their threads.
const LOOKUP_WAITERS_MAX: usize = 32;
/// Time for which a call waits while another lookup is late: sources that work answer within it.
const SUSPECT_WAIT_MAX: Duration = Duration::from_millis(200);
/// Time after which an idle thread ends.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// The key of one lookup.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LookupKey {
    /// The name of a user id.
    User(u32),
    /// The name of a group id.
    Group(u32),
    /// The id of a user name.
    Uid(String),
    /// The id of a group name.
    Gid(String),
    /// The account of a principal.
    Principal(String),
    /// The account of a user id.
    Account(u32),
}

/// The answer of the name service.
#[derive(Clone, Debug)]
pub(crate) enum LookupAnswer {
    /// The name of an id, if there is one.
    Name(Result<Option<String>, SourceError>),
    /// The id of a name, if there is one.
    Id(Result<Option<u32>, SourceError>),
    /// The account of a principal or a uid.
    Account(Result<Account, SourceError>),
}

/// An account, or the reason why there is none.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) found: Result<Identity, NoAccount>,
    /// The steps of the lookup, for administrators; empty for a uid.
    pub(crate) steps: Arc<[LookupStep]>,
}

/// The wait of a caller for a lookup.
#[derive(Clone, Copy, Debug)]
pub enum Wait<'w> {
    /// Does not wait; the caller retries where it may wait.
    Never,
    /// Waits up to this time, and subtracts the time that has passed.
    Within(&'w Cell<Duration>),
}

/// The outcome of a lookup.
#[derive(Debug)]
pub(crate) enum Asked<A> {
    /// The name service has answered.
    Answered(A),
    /// The lookup takes too long, or too many are in flight. The answer goes to the cache when it
    /// arrives.
    Late,
    /// The caller would have to wait for the answer.
    MustWait,
}

/// A group of keys that share half of the threads and a part of the queue. Of several groups, the
/// one with the fewest running lookups is next, so that many slow ones do not delay another for
/// long.
pub(crate) type Origin = u64;

/// Looks up a key at a time, without a limit of time.
type LookUp<K, A> = Box<dyn Fn(&K, Duration) -> A + Send + Sync>;

/// Receives an answer and the time at which it arrived.
type Sink<K, A> = Box<dyn Fn(&K, &A, Duration) + Send + Sync>;

/// The lookups in flight. Dropping it ends the threads once the name service returns.
pub(crate) struct Lookups<K, A>(Arc<SharedLookups<K, A>>);

struct SharedLookups<K, A> {
    directory: LookUp<K, A>,
    sink: Sink<K, A>,
    threads_max: usize,
    /// Time after which a lookup counts as late.
    wait_max: Duration,
    origin: fn(&K) -> Option<Origin>,
    inner: Mutex<LookupState<K, A>>,
    /// Signals that a lookup is queued or that the threads should end.
    work: Condvar,
    /// Signals that a lookup has ended.
    done: Condvar,
}

struct LookupState<K, A> {
    flights: HashMap<K, Arc<Flight<A>>>,
    queue: VecDeque<(K, Arc<Flight<A>>)>,
    /// Start times and origins of the running lookups.
    running: Vec<(Instant, Option<Origin>)>,
    threads: usize,
    idle: usize,
    waiters: usize,
    ended: bool,
}

impl<K, A> Default for LookupState<K, A> {
    fn default() -> Self {
        Self {
            flights: HashMap::new(),
            queue: VecDeque::new(),
            running: Vec::new(),
            threads: 0,
            idle: 0,
            waiters: 0,
            ended: false,
        }
    }
}

/// One lookup, shared by all callers that need its key.
struct Flight<A> {
    since: Instant,
    /// The caller's time at `since`.
    now: Duration,
    answer: OnceLock<A>,
}

impl<K, A> Lookups<K, A>
where
    K: Clone + Eq + Hash + Send + 'static,
    A: Clone + Send + Sync + 'static,
{
    /// Creates lookups in `directory` on at most `threads_max` threads, which count as late after
    /// `wait_max`; `sink` gets each answer before the waiting callers do.
    pub(crate) fn new(
        threads_max: usize,
        wait_max: Duration,
        origin: fn(&K) -> Option<Origin>,
        directory: impl Fn(&K, Duration) -> A + Send + Sync + 'static,
        sink: impl Fn(&K, &A, Duration) + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(SharedLookups {
            directory: Box::new(directory),
            sink: Box::new(sink),
            threads_max,
            wait_max,
            origin,
            inner: Mutex::default(),
            work: Condvar::new(),
            done: Condvar::new(),
        }))
    }

    /// Starts the lookup of a key, or joins the one in flight.
    ///
    /// `cached` reads the cache that the sink fills. A lookup may end between the caller's cache
    /// miss and this call; the second look at the cache avoids a repeated lookup.
    pub(crate) fn ask(
        &self,
        key: K,
        now: Duration,
        wait: Wait<'_>,
        cached: impl FnOnce(&K) -> Option<A>,
    ) -> Asked<A> {
        let mut inner = self.0.lock();
        let flight = match inner.flights.get(&key) {
            Some(flight) => flight.clone(),
            None => {
                // The sink runs under this lock, so no answer can come after this look.
                if let Some(answer) = cached(&key) {
                    return Asked::Answered(answer);
                }
                if inner.flights.len() >= LOOKUPS_MAX || self.0.is_crowded(&inner, &key) {
                    return Asked::Late;
                }
                let flight = Arc::new(Flight { since: Instant::now(), now, answer: OnceLock::new() });
                inner.flights.insert(key.clone(), flight.clone());
                inner.queue.push_back((key, flight.clone()));
                if !SharedLookups::staff(&self.0, &mut inner) {
                    return Asked::Late;
                }
                flight
            }
        };
        let late = self.0.late(&inner);
        if flight.since.elapsed() >= self.0.wait_max || late >= self.0.threads_max {
            return Asked::Late;
        }
        match wait {
            Wait::Never => Asked::MustWait,
            Wait::Within(left) => {
                let most = if late > 0 { SUSPECT_WAIT_MAX } else { Duration::MAX };
                self.0.wait(inner, &flight, left, most)
            }
        }
    }

    /// Discards the lookups in flight: each key is looked up again.
    pub(crate) fn forget(&self) {
        let mut inner = self.0.lock();
        inner.queue.clear();
        inner.flights.clear();
    }
}

impl<K, A> SharedLookups<K, A>
where
    K: Clone + Eq + Hash + Send + 'static,
    A: Clone + Send + Sync + 'static,
{
    /// Returns the number of threads that hang in a source. When all do, callers do not wait.
    fn late(&self, inner: &LookupState<K, A>) -> usize {
        inner.running.iter().filter(|(since, _)| since.elapsed() >= self.wait_max).count()
    }

    fn lock(&self) -> MutexGuard<'_, LookupState<K, A>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ensures that a thread takes the queued lookups. Returns false if there is no thread and the
    /// system provides none.
    fn staff(this: &Arc<Self>, inner: &mut LookupState<K, A>) -> bool {
        if inner.queue.len() > inner.idle && inner.threads < this.threads_max {
            let shared = this.clone();
            let name = format!("names-{}", inner.threads);
            match std::thread::Builder::new().name(name).spawn(move || shared.work()) {
                Ok(_) => inner.threads += 1,
                Err(_) if inner.threads == 0 => {
                    inner.queue.clear();
                    inner.flights.clear();
                    return false;
                }
                Err(_) => {}
            }
        }
        this.work.notify_one();
        true
    }

    /// Waits for a lookup as long as `left` has time, and at most `most`.
    fn wait(
        &self,
        mut inner: MutexGuard<'_, LookupState<K, A>>,
        flight: &Flight<A>,
        left: &Cell<Duration>,
        most: Duration,
    ) -> Asked<A> {
        if left.get().is_zero() || inner.waiters >= LOOKUP_WAITERS_MAX {
            return Asked::Late;
        }
        let began = Instant::now();
        inner.waiters += 1;
        let pending = |_: &mut LookupState<K, A>| flight.answer.get().is_none();
        let waited = self.done.wait_timeout_while(inner, left.get().min(most), pending);
        let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        inner.waiters -= 1;
        left.set(left.get().saturating_sub(began.elapsed()));
        flight.answer.get().cloned().map_or(Asked::Late, Asked::Answered)
    }

    /// Runs queued lookups until the thread should end.
    fn work(&self) {
        while let Some((key, flight, began)) = self.next() {
            // A source that panics must not leave its key in flight for ever.
            let now = flight.now.saturating_add(flight.since.elapsed());
            let look_up = AssertUnwindSafe(|| (self.directory)(&key, now));
            let answer = catch_unwind(look_up).ok();
            let mut inner = self.lock();
            if let Some(at) = inner.running.iter().position(|(since, _)| *since == began) {
                inner.running.swap_remove(at);
            }
            // After `forget` another lookup of the key may be in flight, or none.
            if inner.flights.get(&key).is_some_and(|current| Arc::ptr_eq(current, &flight)) {
                inner.flights.remove(&key);
                if let Some(answer) = &answer {
                    (self.sink)(&key, answer, flight.now.saturating_add(flight.since.elapsed()));
                }
            }
            if let Some(answer) = answer {
                // This never fails: one thread takes each flight.
                let _ = flight.answer.set(answer);
            }
            drop(inner);
            self.done.notify_all();
            // A lookup of the same origin may have waited for this one.
            self.work.notify_one();
        }
    }

    /// Returns whether the origin of a key has its part of the queue.
    fn is_crowded(&self, inner: &LookupState<K, A>, key: &K) -> bool {
        let Some(origin) = (self.origin)(key) else { return false };
        let same = inner.queue.iter().filter(|(other, _)| (self.origin)(other) == Some(origin));
        same.count() >= ORIGIN_LOOKUPS_MAX
    }

    /// Returns the place in the queue of the lookup that may begin next: its origin has the fewest
    /// threads, and half of them at most.
    fn next_place(&self, inner: &LookupState<K, A>) -> Option<usize> {
        let running = |key: &K| {
            let origin = (self.origin)(key);
            origin.map_or(0, |own| inner.running.iter().filter(|(_, other)| *other == Some(own)).count())
        };
        let queued = inner.queue.iter().enumerate().map(|(place, (key, _))| (running(key), place));
        let next = queued.min_by_key(|(running, _)| *running);
        next.filter(|(running, _)| *running < self.threads_max.div_ceil(2)).map(|(_, place)| place)
    }

    /// Takes the next lookup; `None` if the thread should end.
    fn next(&self) -> Option<(K, Arc<Flight<A>>, Instant)> {
        let mut inner = self.lock();
        loop {
            let place = self.next_place(&inner);
            if let Some((key, flight)) = place.and_then(|place| inner.queue.remove(place)) {
                let began = Instant::now();
                inner.running.push((began, (self.origin)(&key)));
                return Some((key, flight, began));
            }
            let mut bored = inner.ended;
            if !bored {
                inner.idle += 1;
                let waited = self.work.wait_timeout(inner, IDLE_TIME);
                let (held, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                inner = held;
                inner.idle -= 1;
                bored = timeout.timed_out();
            }
            if bored && inner.queue.is_empty() {
                inner.threads -= 1;
                return None;
            }
        }
    }
}

impl<K, A> Drop for Lookups<K, A> {
    fn drop(&mut self) {
        let mut inner = self.0.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.ended = true;
        inner.queue.clear();
        drop(inner);
        self.0.work.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc::channel;

    #[test]
    fn of_several_origins_the_one_with_the_fewest_lookups_is_next_and_none_fills_the_queue() {
        let (begin, begun) = channel();
        let (release, released) = channel::<()>();
        let released = Mutex::new(released);
        let slow = move |key: &u64, _: Duration| {
            let _ = begin.send(*key);
            let _ = released.lock().unwrap().recv();
        };
        let origin = |key: &u64| Some(key / 10_000);
        let lookups = Lookups::new(4, Duration::from_secs(30), origin, slow, |_: &u64, (): &(), _| {});
        let ask = |key| lookups.ask(key, Duration::ZERO, Wait::Never, |_| None);
        let queued = |from: u64| (from..).take_while(|key| matches!(ask(*key), Asked::MustWait)).count();
        // Two origins have all threads, and many more lookups.
        let (first, second) = (queued(0), queued(10_000));
        let mut running: Vec<_> = (0..4).map(|_| begun.recv().unwrap() / 10_000).collect();
        running.sort_unstable();
        assert_eq!(running, [0, 0, 1, 1]);
        let most = ORIGIN_LOOKUPS_MAX..=ORIGIN_LOOKUPS_MAX + 2;
        assert!(most.contains(&first) && most.contains(&second), "{first} {second}");
        assert!(matches!(ask(20_000), Asked::MustWait));
        release.send(()).unwrap();
        assert_eq!(begun.recv().unwrap(), 20_000, "it came last");
    }

    #[test]
    fn a_lookup_that_ends_after_the_miss_of_another_thread_is_not_repeated() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let cache: Arc<Mutex<HashMap<LookupKey, LookupAnswer>>> = Arc::default();
        let filled = cache.clone();
        let sink = move |key: &LookupKey, answer: &LookupAnswer, _| {
            filled.lock().unwrap().insert(key.clone(), answer.clone());
        };
        let directory = move |_: &LookupKey, _: Duration| {
            counted.fetch_add(1, SeqCst);
            LookupAnswer::Name(Ok(Some("u7".to_owned())))
        };
        let lookups = Lookups::new(LOOKUP_THREADS_MAX, Duration::from_secs(30), |_| None, directory, sink);
        // Both threads have missed the cache. The first one's lookup ends before the second asks.
        for wait in [Wait::Within(&Cell::new(Duration::from_secs(30))), Wait::Never] {
            let asked = lookups
                .ask(LookupKey::User(7), Duration::ZERO, wait, |key| cache.lock().unwrap().get(key).cloned());
            let Asked::Answered(LookupAnswer::Name(Ok(Some(name)))) = asked else {
                panic!("{wait:?}: {asked:?}")
            };
            assert_eq!(name, "u7");
        }
        assert_eq!(count.load(SeqCst), 1);
    }
}
