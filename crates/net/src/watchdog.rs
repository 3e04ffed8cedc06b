//! A thread that logs hanging shards and their current step.

use crate::activity::{Activity, BusyShard};
use crate::ledger::Ledger;
use crate::{Service, Stats};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Longest loop of a shard before it counts as hanging.
const LOOP_TIME_MAX: Duration = Duration::from_secs(1);
/// Interval of the watchdog's checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The shards of a server and their activity; see [`Running::shards`](crate::Running::shards).
#[derive(Clone)]
pub struct Shards {
    activities: Arc<[Arc<Activity>]>,
    ledger: Arc<Ledger>,
    operation_name: Arc<dyn Fn(u32) -> &'static str + Send + Sync>,
}

impl Shards {
    pub(crate) fn new<S: Service>(
        service: Arc<S>,
        activities: Arc<[Arc<Activity>]>,
        ledger: Arc<Ledger>,
    ) -> Self {
        let operation_name = Arc::new(move |operation| service.operation_name(operation));
        Self { activities, ledger, operation_name }
    }

    /// Returns a description of each shard that has not ended, one line per shard.
    pub fn unfinished(&self) -> Vec<String> {
        let unfinished = self.activities.iter().enumerate().filter(|(_, activity)| !activity.has_ended());
        let line = |(shard, activity): (usize, &Arc<Activity>)| match activity.busy() {
            Some(busy) => {
                format!(
                    "shard {shard} has been busy for {:.1} s: {}",
                    busy.busy.as_secs_f64(),
                    self.place(&busy)
                )
            }
            None => format!("shard {shard} has not ended"),
        };
        unfinished.map(line).collect()
    }

    /// Returns whether no shard has been busy with one loop for `limit`, and none has ended.
    pub fn are_alive(&self, limit: Duration) -> bool {
        self.activities
            .iter()
            .all(|activity| !activity.has_ended() && activity.busy().is_none_or(|shard| shard.busy < limit))
    }

    /// Replaces the most connections. Open ones stay open.
    pub fn set_connections_max(&self, connections_max: usize) {
        self.ledger.set_connections_max(connections_max);
    }

    /// Closes connections until the others hold no more memory than a handover may copy.
    pub(crate) fn make_room_for_handover(&self) {
        self.ledger.make_room_for_handover();
    }

    /// Returns the step, operation and peer of a busy shard.
    fn place(&self, shard: &BusyShard) -> String {
        let mut place = shard.step.to_owned();
        let operation = (self.operation_name)(shard.operation);
        if !operation.is_empty() {
            place = format!("{place} {operation}");
        }
        match self.ledger.peer(shard.connection().0) {
            Some(peer) => format!("{place} for {peer}"),
            None => place,
        }
    }

    /// Logs the begin and the end of each hang, until the sender of `stop` is dropped.
    pub(crate) fn watch(&self, stats: &Stats, stop: &Receiver<()>) {
        let mut stalls: Vec<Option<BusyShard>> = vec![None; self.activities.len()];
        let mut looked = Instant::now();
        while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(CHECK_INTERVAL) {
            // After a halt of the process, its shards are where they were.
            if std::mem::replace(&mut looked, Instant::now()).elapsed() >= LOOP_TIME_MAX {
                continue;
            }
            for (shard, (activity, stall)) in self.activities.iter().zip(&mut stalls).enumerate() {
                self.check(shard, activity.busy(), stall, stats);
            }
        }
    }

    fn check(&self, shard: usize, busy: Option<BusyShard>, stall: &mut Option<BusyShard>, stats: &Stats) {
        if let Some(last) = *stall {
            match busy {
                Some(busy) if busy.woke == last.woke => *stall = Some(busy),
                _ => {
                    let seconds = last.busy.as_secs_f64();
                    tracing::warn!("shard {shard} continues after {seconds:.1} s or more");
                    *stall = None;
                }
            }
        }
        if let (None, Some(busy)) = (&stall, busy)
            && busy.busy >= LOOP_TIME_MAX
        {
            *stall = Some(busy);
            Stats::add(&stats.stalls, 1);
            let seconds = busy.busy.as_secs_f64();
            tracing::error!(
                "shard {shard} has not completed a loop for {seconds:.1} s: {}",
                self.place(&busy)
            );
        }
    }
}
