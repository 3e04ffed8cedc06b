//! The pool runs tasks, refuses tasks above its limits, and survives panics.

use super::{LANE_WEIGHT_DEFAULT, Pool, PoolCounts, PoolLimits};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A task that reports its start and waits for permission to end.
struct TaskGate {
    begun: Sender<u32>,
    go: Arc<Mutex<Receiver<()>>>,
    number: u32,
}

fn pool(limits: PoolLimits) -> (Pool<TaskGate>, impl Fn(u32) -> TaskGate, Receiver<u32>, Sender<()>) {
    let pool = Pool::new("test", limits, |gate: TaskGate| {
        gate.begun.send(gate.number).expect("the test listens");
        let _ = gate.go.lock().expect("a lock").recv();
        assert_ne!(gate.number, 13, "a defect, for the test");
        None
    });
    let ((begun, begins), (go, gone)) = (channel(), channel());
    let gone = Arc::new(Mutex::new(gone));
    (pool, move |number| TaskGate { begun: begun.clone(), go: gone.clone(), number }, begins, go)
}

const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_pool_runs_threads_max_tasks_at_once_and_refuses_tasks_beyond_its_room() {
    let limits = PoolLimits { threads_max: 2, tasks_max: 1, tasks_bytes_max: 100, lane_part: 1, niceness: 0 };
    let (pool, task, begins, go) = pool(limits);
    for number in [1, 2] {
        assert!(pool.submit(0, LANE_WEIGHT_DEFAULT, task(number), 60).is_ok());
        assert_eq!(begins.recv_timeout(SOON), Ok(number));
    }
    assert!(pool.submit(0, LANE_WEIGHT_DEFAULT, task(3), 60).is_ok());
    assert_eq!(pool.submit(0, LANE_WEIGHT_DEFAULT, task(4), 0).err().map(|refused| refused.number), Some(4));
    assert_eq!(pool.counts(), PoolCounts { threads: 2, waiting: 1 });
    go.send(()).expect("the pool listens");
    assert_eq!(begins.recv_timeout(SOON), Ok(3));
    drop(go);
}

#[test]
fn a_pool_is_crowded_while_more_than_an_eighth_of_its_queue_is_full() {
    let limits =
        PoolLimits { threads_max: 1, tasks_max: 16, tasks_bytes_max: 100, lane_part: 1, niceness: 0 };
    let (pool, task, begins, go) = pool(limits);
    for number in 1..=3 {
        assert!(pool.submit(0, LANE_WEIGHT_DEFAULT, task(number), 1).is_ok());
    }
    assert_eq!(begins.recv_timeout(SOON), Ok(1));
    assert!(!pool.is_crowded(), "one runs, two wait");
    assert!(pool.submit(0, LANE_WEIGHT_DEFAULT, task(4), 1).is_ok());
    assert!(pool.is_crowded());
    go.send(()).expect("the pool listens");
    assert_eq!(begins.recv_timeout(SOON), Ok(2));
    assert!(!pool.is_crowded());
    drop(go);
}

#[test]
fn the_bytes_that_wait_are_bounded() {
    let limits =
        PoolLimits { threads_max: 1, tasks_max: 10, tasks_bytes_max: 100, lane_part: 1, niceness: 0 };
    let (pool, task, begins, go) = pool(limits);
    assert!(pool.submit(0, LANE_WEIGHT_DEFAULT, task(1), 60).is_ok());
    assert_eq!(begins.recv_timeout(SOON), Ok(1));
    assert!(pool.submit(0, LANE_WEIGHT_DEFAULT, task(2), 60).is_ok());
    assert!(pool.submit(0, LANE_WEIGHT_DEFAULT, task(3), 60).is_err());
    assert!(pool.submit(0, LANE_WEIGHT_DEFAULT, task(3), 40).is_ok());
    drop(go);
}

#[test]
fn a_defect_in_a_task_costs_the_pool_no_thread() {
    let limits = PoolLimits { threads_max: 1, ..PoolLimits::default() };
    let (pool, task, begins, go) = pool(limits);
    for number in [13, 14] {
        assert!(pool.submit(0, LANE_WEIGHT_DEFAULT, task(number), 0).is_ok());
        go.send(()).expect("the pool listens");
    }
    assert_eq!(begins.recv_timeout(SOON), Ok(13));
    assert_eq!(begins.recv_timeout(SOON), Ok(14));
}

#[test]
fn a_pool_that_ends_waits_for_no_task() {
    let limits = PoolLimits { threads_max: 1, ..PoolLimits::default() };
    let (pool, task, begins, go) = pool(limits);
    assert!(
        pool.submit(0, LANE_WEIGHT_DEFAULT, task(1), 0).is_ok()
            && pool.submit(0, LANE_WEIGHT_DEFAULT, task(2), 0).is_ok()
    );
    assert_eq!(begins.recv_timeout(SOON), Ok(1));
    drop((pool, go, task));
    assert_eq!(begins.iter().next(), None, "what waited is discarded");
}

#[test]
fn a_lane_that_hangs_does_not_hold_up_another() {
    let limits = PoolLimits { threads_max: 4, lane_part: 2, ..PoolLimits::default() };
    let (pool, task, begins, go) = pool(limits);
    for number in 1..=10 {
        assert!(pool.submit(7, LANE_WEIGHT_DEFAULT, task(number), 0).is_ok());
    }
    let mut begun = [(), ()].map(|()| begins.recv_timeout(SOON).expect("two threads run"));
    begun.sort_unstable();
    assert_eq!(begun, [1, 2]);
    assert!(pool.submit(8, LANE_WEIGHT_DEFAULT, task(20), 0).is_ok());
    assert_eq!(begins.recv_timeout(SOON), Ok(20));
    drop(go);
    drop(task);
    let mut rest: Vec<u32> = begins.iter().collect();
    rest.sort_unstable();
    assert_eq!(rest, (3..=10).collect::<Vec<u32>>());
}

/// Runs four tasks of lane 7, which is heavier, and one of lane 8; one more of each waits.
fn hold_back(pool: &Pool<TaskGate>, task: impl Fn(u32) -> TaskGate, begins: &Receiver<u32>) {
    for number in 1..=5 {
        assert!(pool.submit(7, 10_000, task(number), 0).is_ok());
        let (begun, patience) = if number < 5 { (Some(number), SOON) } else { (None, SOON / 50) };
        assert_eq!(begins.recv_timeout(patience).ok(), begun);
    }
    for number in [20, 21] {
        assert!(pool.submit(8, 100, task(number), 0).is_ok());
    }
    assert_eq!(begins.recv_timeout(SOON / 2), Ok(20));
}

#[test]
fn tasks_that_a_heavier_lane_held_back_begin_when_it_has_no_more_of_its_own() {
    let limits = PoolLimits { threads_max: 8, lane_part: 2, ..PoolLimits::default() };
    let (pool, task, begins, go) = pool(limits);
    hold_back(&pool, task, &begins);
    assert_eq!(begins.recv_timeout(SOON / 100), Err(RecvTimeoutError::Timeout), "it is held back");
    go.send(()).expect("the pool listens");
    // The thread that has ended its task begins one, and an idle one the other.
    let mut begun = [(), ()].map(|()| begins.recv_timeout(SOON / 2).ok());
    begun.sort_unstable();
    assert_eq!(begun, [Some(5), Some(21)]);
    drop(go);
}

#[test]
fn tasks_that_a_heavier_lane_held_back_begin_when_it_stalls() {
    let limits = PoolLimits { threads_max: 8, lane_part: 2, ..PoolLimits::default() };
    let (pool, task, begins, go) = pool(limits);
    hold_back(&pool, task, &begins);
    // No task ends or arrives meanwhile.
    assert_eq!(begins.recv_timeout(SOON / 2), Ok(21));
    drop(go);
}
