//! Lookups of owners in a name service that may be slow: on threads of their own, each key once,
//! with a bounded wait.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::{IdentitySource, SourceError};

/// Threads that look owners up at once; the only ones that a name service can hang.
const LOOKUP_THREADS_MAX: usize = 8;
/// Lookups in flight, with those that wait for a thread; further owners count as late at once.
const LOOKUPS_MAX: usize = 4096;
/// Calls that wait for a lookup at once. Others count as late at once: the threads that calls run
/// on are needed for disks.
const LOOKUP_WAITERS_MAX: usize = 32;
/// How long a lookup may take until its answer counts as late, and how long one call waits for all
/// of its lookups.
pub const LOOKUP_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a thread without work stays.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// What is looked up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// The name of a user.
    User(u32),
    /// The name of a group.
    Group(u32),
    /// The number of a user.
    Uid(String),
    /// The number of a group.
    Gid(String),
}

/// What a name service said.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Of a number.
    Name(Result<Option<String>, SourceError>),
    /// Of a name.
    Id(Result<Option<u32>, SourceError>),
}

impl Key {
    /// Asks the name service, however long that takes.
    pub fn look_up(&self, source: &dyn IdentitySource) -> Answer {
        match self {
            Self::User(uid) => Answer::Name(source.user(*uid)),
            Self::Group(gid) => Answer::Name(source.group(*gid)),
            Self::Uid(name) => Answer::Id(source.uid(name)),
            Self::Gid(name) => Answer::Id(source.gid(name)),
        }
    }
}

/// Whether and how long a lookup is waited for.
#[derive(Clone, Copy, Debug)]
pub enum Wait<'w> {
    /// Not at all: the caller comes again where it may wait.
    Never,
    /// As long as is left of this, which shrinks by the time that has passed.
    Within(&'w Cell<Duration>),
}

/// How a lookup went.
#[derive(Debug)]
pub enum Asked {
    /// The name service has answered.
    Answered(Answer),
    /// It takes too long, or too much is looked up already; the answer will be in the cache once it
    /// is there.
    Late,
    /// The answer would have to be waited for.
    MustWait,
}

/// Takes an answer, with the time at which it came.
type Sink = Box<dyn Fn(&Key, &Answer, Duration) + Send + Sync>;

/// The lookups in flight. Dropping it ends the threads as soon as the name service lets go of them.
pub struct Lookups(Arc<Shared>);

struct Shared {
    source: Arc<dyn IdentitySource>,
    sink: Sink,
    inner: Mutex<Inner>,
    /// Something is to be looked up, or all is to end.
    work: Condvar,
    /// A lookup has ended.
    done: Condvar,
}

#[derive(Default)]
struct Inner {
    flights: HashMap<Key, Arc<Flight>>,
    queue: VecDeque<(Key, Arc<Flight>)>,
    /// When each running lookup began.
    running: Vec<Instant>,
    threads: usize,
    idle: usize,
    waiters: usize,
    ended: bool,
}

/// One lookup that everybody who asks for its key shares.
struct Flight {
    since: Instant,
    /// The caller's time at `since`.
    now: Duration,
    answer: OnceLock<Answer>,
}

impl Lookups {
    /// Makes lookups of a source; `sink` gets each answer before those who wait do.
    pub fn new(
        source: Arc<dyn IdentitySource>,
        sink: impl Fn(&Key, &Answer, Duration) + Send + Sync + 'static,
    ) -> Self {
        let (inner, sink) = (Mutex::default(), Box::new(sink));
        Self(Arc::new(Shared { source, sink, inner, work: Condvar::new(), done: Condvar::new() }))
    }

    /// Has a key looked up, or joins the lookup in flight.
    ///
    /// `cached` reads the cache that the sink fills. A lookup may end between the caller's miss and
    /// this call; without the second look the name service would be asked twice.
    pub fn ask(
        &self,
        key: Key,
        now: Duration,
        wait: Wait<'_>,
        cached: impl FnOnce(&Key) -> Option<Answer>,
    ) -> Asked {
        let mut inner = self.0.lock();
        let flight = match inner.flights.get(&key) {
            Some(flight) => flight.clone(),
            None => {
                // The sink runs under this lock, so no answer can come after this look.
                if let Some(answer) = cached(&key) {
                    return Asked::Answered(answer);
                }
                if inner.flights.len() >= LOOKUPS_MAX {
                    return Asked::Late;
                }
                let flight = Arc::new(Flight { since: Instant::now(), now, answer: OnceLock::new() });
                inner.flights.insert(key.clone(), flight.clone());
                inner.queue.push_back((key, flight.clone()));
                if !Shared::staff(&self.0, &mut inner) {
                    return Asked::Late;
                }
                flight
            }
        };
        if flight.since.elapsed() >= LOOKUP_WAIT_MAX || inner.is_stuck() {
            return Asked::Late;
        }
        match wait {
            Wait::Never => Asked::MustWait,
            Wait::Within(left) => self.0.wait(inner, &flight, left),
        }
    }

    /// Has no answer of a lookup in flight believed: each key is looked up anew.
    pub fn forget(&self) {
        let mut inner = self.0.lock();
        inner.queue.clear();
        inner.flights.clear();
    }
}

impl Inner {
    /// Whether every thread waits for a name service that does not answer: then nobody else need
    /// wait for it.
    fn is_stuck(&self) -> bool {
        self.running.len() >= LOOKUP_THREADS_MAX
            && self.running.iter().all(|since| since.elapsed() >= LOOKUP_WAIT_MAX)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that a thread takes what is queued; false when there is none and the system gives
    /// none.
    fn staff(this: &Arc<Self>, inner: &mut Inner) -> bool {
        if inner.queue.len() > inner.idle && inner.threads < LOOKUP_THREADS_MAX {
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

    fn wait(&self, mut inner: MutexGuard<'_, Inner>, flight: &Flight, left: &Cell<Duration>) -> Asked {
        if left.get().is_zero() || inner.waiters >= LOOKUP_WAITERS_MAX {
            return Asked::Late;
        }
        let began = Instant::now();
        inner.waiters += 1;
        let pending = |_: &mut Inner| flight.answer.get().is_none();
        let waited = self.done.wait_timeout_while(inner, left.get(), pending);
        let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        inner.waiters -= 1;
        left.set(left.get().saturating_sub(began.elapsed()));
        flight.answer.get().cloned().map_or(Asked::Late, Asked::Answered)
    }

    /// Looks up what is queued until there is nothing more.
    fn work(&self) {
        while let Some((key, flight, began)) = self.next() {
            // A source that panics must not leave its key in flight for ever.
            let look_up = AssertUnwindSafe(|| key.look_up(&*self.source));
            let answer = catch_unwind(look_up).ok();
            let mut inner = self.lock();
            if let Some(at) = inner.running.iter().position(|since| *since == began) {
                inner.running.swap_remove(at);
            }
            // After `forget` the key may be in flight again, or nowhere.
            if inner.flights.get(&key).is_some_and(|current| Arc::ptr_eq(current, &flight)) {
                inner.flights.remove(&key);
                if let Some(answer) = &answer {
                    (self.sink)(&key, answer, flight.now.saturating_add(flight.since.elapsed()));
                }
            }
            if let Some(answer) = answer {
                // Cannot fail: one thread takes each flight.
                let _ = flight.answer.set(answer);
            }
            drop(inner);
            self.done.notify_all();
        }
    }

    /// Takes the next lookup; `None` when the thread is to end.
    fn next(&self) -> Option<(Key, Arc<Flight>, Instant)> {
        let mut inner = self.lock();
        loop {
            if let Some((key, flight)) = inner.queue.pop_front() {
                let began = Instant::now();
                inner.running.push(began);
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

impl Drop for Lookups {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.ended = true;
        inner.queue.clear();
        drop(inner);
        self.0.work.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// Counts how often it is asked.
    #[derive(Default)]
    struct Directory(AtomicUsize);

    impl IdentitySource for Directory {
        fn identity(&self, _: &str) -> Result<Option<Identity>, SourceError> {
            Ok(None)
        }
        fn uid(&self, _: &str) -> Result<Option<u32>, SourceError> {
            Ok(None)
        }
        fn gid(&self, _: &str) -> Result<Option<u32>, SourceError> {
            Ok(None)
        }
        fn user(&self, uid: u32) -> Result<Option<String>, SourceError> {
            self.0.fetch_add(1, SeqCst);
            Ok(Some(format!("u{uid}")))
        }
        fn group(&self, _: u32) -> Result<Option<String>, SourceError> {
            Ok(None)
        }
    }

    #[test]
    fn a_lookup_that_ends_after_the_miss_of_another_thread_is_not_repeated() {
        let directory = Arc::new(Directory::default());
        let cache: Arc<Mutex<HashMap<Key, Answer>>> = Arc::default();
        let filled = cache.clone();
        let sink = move |key: &Key, answer: &Answer, _| {
            filled.lock().unwrap().insert(key.clone(), answer.clone());
        };
        let lookups = Lookups::new(directory.clone(), sink);
        // Both threads have missed the cache. The first one's lookup ends before the second asks.
        for wait in [Wait::Within(&Cell::new(Duration::from_secs(30))), Wait::Never] {
            let asked = lookups
                .ask(Key::User(7), Duration::ZERO, wait, |key| cache.lock().unwrap().get(key).cloned());
            let Asked::Answered(Answer::Name(Ok(Some(name)))) = asked else { panic!("{wait:?}: {asked:?}") };
            assert_eq!(name, "u7");
        }
        assert_eq!(directory.0.load(SeqCst), 1);
    }
}
