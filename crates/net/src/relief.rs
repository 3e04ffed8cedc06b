//! Relief of a shard that blocks.
//!
//! A shard runs brief steps of deferred calls on its own thread, without a handoff. Meanwhile its
//! state lies in its seat. If the step takes longer than a relief interval, another thread takes
//! the state and continues as the shard. The first thread finishes its step and ends. Sockets thus
//! never wait long for a file system that hangs.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// Interval of the checks while shards block now and then. A blocked shard is relieved after one to
/// two of them.
const RELIEF_INTERVAL: Duration = Duration::from_millis(1);
/// Interval of the checks when no shard has blocked for a while. A thread that wakes each
/// millisecond takes a twentieth of the processor time of changes that come one at a time.
const CALM_INTERVAL: Duration = Duration::from_millis(4);
/// Checks without a blocked shard after which it is calm: about ten seconds.
const CALM_CHECKS: u32 = 10_000;
/// Checks without any step after which the relief thread sleeps until the next step.
const IDLE_CHECKS: u32 = 100;

/// The place where a shard leaves its state while its thread runs a step.
#[derive(Debug)]
pub(crate) struct ReliefSeat<T>(Mutex<Occupancy<T>>);

#[derive(Debug)]
struct Occupancy<T> {
    state: Option<T>,
    /// The number of times that the state was left here.
    turn: u64,
}

impl<T> ReliefSeat<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Occupancy { state: None, turn: 0 }))
    }

    fn lock(&self) -> MutexGuard<'_, Occupancy<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the state, and returns the number of this turn.
    pub(crate) fn leave(&self, state: T) -> u64 {
        let mut seat = self.lock();
        seat.state = Some(state);
        seat.turn += 1;
        seat.turn
    }

    /// Takes the state that was left in this turn; `None` if another thread has taken it.
    pub(crate) fn take(&self, turn: u64) -> Option<T> {
        let mut seat = self.lock();
        if seat.turn == turn { seat.state.take() } else { None }
    }

    /// Lends the state that was left in this turn to `run`, and begins the next turn, whose number
    /// it returns; `None` if another thread has taken the state.
    pub(crate) fn renew<R>(&self, turn: u64, run: impl FnOnce(&mut T) -> R) -> Option<(u64, R)> {
        let mut seat = self.lock();
        let state = if seat.turn == turn { seat.state.as_mut()? } else { return None };
        let result = run(state);
        seat.turn += 1;
        Some((seat.turn, result))
    }

    /// Returns the state of the same turn.
    fn put_back(&self, state: T) {
        self.lock().state = Some(state);
    }

    fn turn(&self) -> u64 {
        self.lock().turn
    }
}

/// Wakes the relief thread before a step.
#[derive(Debug, Default)]
pub(crate) struct ReliefBell {
    asleep: AtomicBool,
    stop: AtomicBool,
    thread: OnceLock<Thread>,
}

impl ReliefBell {
    /// Wakes the relief thread if it sleeps. The caller has left its state.
    pub(crate) fn ring(&self) {
        // Either this sees that the thread goes to sleep, or the thread sees the new turn.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// The relief thread of all shards; dropping it ends the thread.
pub(crate) struct Relief {
    bell: Arc<ReliefBell>,
    thread: Option<JoinHandle<()>>,
}

impl Relief {
    /// Starts the thread. It calls `relieve` with the index and the state of each shard that
    /// blocks. `relieve` returns the state if no thread can continue; it is tried again.
    pub(crate) fn start<T: Send + 'static>(
        seats: Vec<Arc<ReliefSeat<T>>>,
        bell: Arc<ReliefBell>,
        relieve: impl Fn(usize, T) -> Result<(), T> + Send + 'static,
    ) -> std::io::Result<Self> {
        let run = {
            let bell = bell.clone();
            move || watch(&seats, &bell, relieve)
        };
        let thread = thread::Builder::new().name("relief".into()).spawn(run)?;
        let _ = bell.thread.set(thread.thread().clone());
        Ok(Self { bell, thread: Some(thread) })
    }
}

impl Drop for Relief {
    fn drop(&mut self) {
        self.bell.stop.store(true, Ordering::Relaxed);
        self.bell.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch<T>(seats: &[Arc<ReliefSeat<T>>], bell: &ReliefBell, relieve: impl Fn(usize, T) -> Result<(), T>) {
    let mut seen = vec![0; seats.len()];
    let (mut idle, mut calm) = (0, CALM_CHECKS);
    while !bell.stop.load(Ordering::Relaxed) {
        let found = check(seats, &mut seen, &relieve);
        idle = if found == ReliefCheck::Idle { idle + 1 } else { 0 };
        calm = if found == ReliefCheck::Blocked { 0 } else { calm.saturating_add(1) };
        if idle < IDLE_CHECKS {
            thread::sleep(if calm < CALM_CHECKS { RELIEF_INTERVAL } else { CALM_INTERVAL });
            continue;
        }
        bell.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if seats.iter().zip(&seen).all(|(seat, seen)| seat.turn() == *seen) {
            thread::park();
        }
        bell.asleep.store(false, Ordering::Relaxed);
        idle = 0;
    }
}

/// The result of a check of all shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReliefCheck {
    /// No shard has run a step since the last check.
    Idle,
    /// The steps since then were brief.
    Brief,
    /// A shard was blocked.
    Blocked,
}

/// Relieves each shard that is in the same turn as at the last check.
fn check<T>(
    seats: &[Arc<ReliefSeat<T>>],
    seen: &mut [u64],
    relieve: &impl Fn(usize, T) -> Result<(), T>,
) -> ReliefCheck {
    let mut found = ReliefCheck::Idle;
    for (index, (seat, seen)) in seats.iter().zip(seen).enumerate() {
        let turn = seat.turn();
        if turn != *seen {
            *seen = turn;
            found = found.max(ReliefCheck::Brief);
        } else if let Some(state) = seat.take(turn) {
            found = ReliefCheck::Blocked;
            if let Err(state) = relieve(index, state) {
                seat.put_back(state);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_state_is_taken_once_per_turn() {
        let seat = ReliefSeat::new();
        let first = seat.leave("state");
        assert_eq!(seat.take(first), Some("state"));
        assert_eq!(seat.take(first), None);
        let second = seat.leave("state");
        assert_eq!(seat.take(first), None, "a thread takes only the state that it has left");
        let (third, length) = seat.renew(second, |state| state.len()).expect("it is there");
        assert_eq!((length, seat.take(second)), (5, None), "the next turn has begun");
        assert_eq!(seat.take(third), Some("state"));
        assert_eq!(seat.renew(third, |_| ()), None);
    }

    #[test]
    fn a_step_that_blocks_is_relieved_and_a_brief_one_is_not() {
        let seats: Vec<_> = (0..2).map(|_| Arc::new(ReliefSeat::new())).collect();
        let bell = Arc::new(ReliefBell::default());
        let (sender, receiver) = channel();
        let refused = AtomicBool::new(false);
        let relieve = move |index, state: &'static str| {
            if !refused.swap(true, Ordering::Relaxed) {
                return Err(state);
            }
            sender.send((index, state)).expect("the test listens");
            Ok(())
        };
        let relief = Relief::start(seats.clone(), bell.clone(), relieve).expect("a thread");
        // Twice, with a pause in which the thread falls asleep.
        for _ in 0..2 {
            for _ in 0..1000 {
                let turn = seats[0].leave("brief");
                bell.ring();
                assert_eq!(seats[0].take(turn), Some("brief"));
            }
            let turn = seats[1].leave("blocked");
            bell.ring();
            assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok((1, "blocked")));
            assert_eq!(seats[1].take(turn), None);
            thread::sleep(CALM_INTERVAL * (IDLE_CHECKS + 50));
        }
        drop(relief);
        assert!(receiver.try_recv().is_err());
    }
}
