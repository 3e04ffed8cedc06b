//! Slow calls: counted, and logged with the time of each stage.

use super::{Engine, Server, operation_name};
use crate::call::{Auth, Job};
use crate::metrics::{Metrics, Trouble};
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

/// Time of a deferred call, from its suspension to its reply, from which it is slow.
const SLOW_AFTER: Duration = Duration::from_secs(1);

/// The times of a deferred call in microseconds, at most 71 minutes each. Every deferred call
/// carries them, so they are small.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeferredTimes {
    /// The operation before which the call was suspended; `None` if it has not begun.
    operation: Option<NonZeroU32>,
    /// Time until a client answered a callback.
    answered: u32,
    /// Time until a thread had time for it.
    queued: u32,
    /// Time of the threads that ran it.
    ran: u32,
    /// Time until its changes were on stable storage.
    synced: u32,
}

impl DeferredTimes {
    pub(super) fn new(operation: Option<NonZeroU32>) -> Self {
        Self { operation, ..Self::default() }
    }

    /// Sets the operation before which the call was suspended, if it is known.
    pub(super) fn before(self, operation: Option<NonZeroU32>) -> Self {
        Self { operation: operation.or(self.operation), ..self }
    }

    pub(super) fn answered(self, time: Duration) -> Self {
        Self { answered: self.answered.saturating_add(microseconds(time)), ..self }
    }

    pub(super) fn queued(self, time: Duration) -> Self {
        Self { queued: self.queued.saturating_add(microseconds(time)), ..self }
    }

    pub(super) fn ran(self, time: Duration) -> Self {
        Self { ran: self.ran.saturating_add(microseconds(time)), ..self }
    }

    pub(super) fn synced(self, time: Duration) -> Self {
        Self { synced: self.synced.saturating_add(microseconds(time)), ..self }
    }

    /// Returns a description of the times of a new context, which waits for no file system.
    fn of_context(self) -> String {
        let seconds = |time: u32| f64::from(time) / 1e6;
        format!(
            "{:.1} s: {:.1} s until a thread was free, {:.1} s for its ticket and the lookup of its user",
            self.all().as_secs_f64(),
            seconds(self.queued),
            seconds(self.ran)
        )
    }

    fn all(self) -> Duration {
        let times = [self.answered, self.queued, self.ran, self.synced];
        times.map(|time| Duration::from_micros(time.into())).iter().sum()
    }
}

fn microseconds(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

impl fmt::Display for DeferredTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |time: u32| f64::from(time) / 1e6;
        write!(f, "{:.1} s: ", self.all().as_secs_f64())?;
        if self.answered > 0 {
            write!(f, "{:.1} s until a client answered a callback, ", seconds(self.answered))?;
        }
        write!(
            f,
            "{:.1} s until a thread was free, {:.1} s in the file system, {:.1} s until it was on disk",
            seconds(self.queued),
            seconds(self.ran),
            seconds(self.synced)
        )
    }
}

impl<E: Engine> Server<E> {
    /// Counts and logs a deferred call that took long; `lane` is the one in which it waited.
    pub(super) fn note_if_slow(&self, job: &Job, lane: u32, times: DeferredTimes, now: Duration) {
        if times.all() < SLOW_AFTER {
            return;
        }
        Metrics::add(&self.metrics.slow_calls, 1);
        if matches!(job.auth, Auth::Init) {
            let times = times.of_context();
            let line = format_args!("a new Kerberos context took {times}");
            return self.reports.note(Trouble::Slow, now, job.peer, line);
        }
        let operation = match times.operation {
            None => "a call",
            Some(operation) => {
                let name = operation_name(operation.get());
                name.strip_prefix("OP_").unwrap_or(name)
            }
        };
        let user = match &job.auth {
            Auth::Gss(call) => format!(" of {:?}", call.context.principal()),
            Auth::Sys(security) | Auth::SysUnknown { security, .. } => {
                format!(" of {:?}", String::from_utf8_lossy(&security.sender.0))
            }
            Auth::None | Auth::Init => String::new(),
        };
        let place = self.engine.lane_name(lane).map(|name| format!(" on {name}")).unwrap_or_default();
        self.reports.note(
            Trouble::Slow,
            now,
            job.peer,
            format_args!("{operation}{user}{place} took {times}"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_each_stage_is_printed() {
        let second = Duration::from_secs(1);
        let times = DeferredTimes::new(NonZeroU32::new(38)).queued(second).ran(second * 2).synced(second / 2);
        let text =
            "3.5 s: 1.0 s until a thread was free, 2.0 s in the file system, 0.5 s until it was on disk";
        assert_eq!(times.to_string(), text);
        let text = "4.5 s: 1.0 s until a client answered a callback, 1.0 s until a thread was free, \
             2.0 s in the file system, 0.5 s until it was on disk";
        assert_eq!(times.answered(second).to_string(), text);
        let text = "3.0 s: 1.0 s until a thread was free, 2.0 s for its ticket and the lookup of its user";
        assert_eq!(DeferredTimes::new(None).queued(second).ran(second * 2).of_context(), text);
    }
}
