//! A thread that sees when a shard hangs, and says where.

use crate::activity::{Activity, Seen};
use crate::ledger::Ledger;
use crate::{Service, Stats};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// For how long a shard may be busy without looking at all of its connections.
const LOOP_TIME_MAX: Duration = Duration::from_secs(1);
/// How often the watchdog looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The shards of a server as the watchdog sees them; see [`Running::shards`](crate::Running::shards).
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

    /// Says for each shard that has not ended what it is doing.
    pub fn unfinished(&self) -> Vec<String> {
        let unfinished = self.activities.iter().enumerate().filter(|(_, activity)| !activity.has_ended());
        let line = |(shard, activity): (usize, &Arc<Activity>)| match activity.look() {
            Some(seen) => {
                format!(
                    "shard {shard} has been busy for {:.1} s: {}",
                    seen.busy.as_secs_f64(),
                    self.place(&seen)
                )
            }
            None => format!("shard {shard} has not ended"),
        };
        unfinished.map(line).collect()
    }

    /// What a shard was doing when it was looked at.
    fn place(&self, seen: &Seen) -> String {
        let mut place = seen.step.to_owned();
        let operation = (self.operation_name)(seen.operation);
        if !operation.is_empty() {
            place = format!("{place} {operation}");
        }
        match self.ledger.peer(seen.connection().0) {
            Some(peer) => format!("{place} for {peer}"),
            None => place,
        }
    }

    /// Logs each shard that hangs, once when it begins and once when it is over, until `stop` hangs up.
    pub(crate) fn watch(&self, stats: &Stats, stop: &Receiver<()>) {
        let mut stalls: Vec<Option<Seen>> = vec![None; self.activities.len()];
        while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(LOOK_INTERVAL) {
            for (shard, (activity, stall)) in self.activities.iter().zip(&mut stalls).enumerate() {
                self.look(shard, activity.look(), stall, stats);
            }
        }
    }

    fn look(&self, shard: usize, seen: Option<Seen>, stall: &mut Option<Seen>, stats: &Stats) {
        if let Some(last) = *stall {
            match seen {
                Some(seen) if seen.woke == last.woke => *stall = Some(seen),
                _ => {
                    let seconds = last.busy.as_secs_f64();
                    tracing::warn!("shard {shard} goes on, after {seconds:.1} s or more");
                    *stall = None;
                }
            }
        }
        if let (None, Some(seen)) = (&stall, seen)
            && seen.busy >= LOOP_TIME_MAX
        {
            *stall = Some(seen);
            Stats::add(&stats.stalls, 1);
            let seconds = seen.busy.as_secs_f64();
            tracing::error!(
                "shard {shard} has not completed a loop for {seconds:.1} s: {}",
                self.place(&seen)
            );
        }
    }
}
