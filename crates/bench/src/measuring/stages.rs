//! The time of a server's stages, where the server counts it.

use super::{Interval, Sample};
use serde::{Deserialize, Serialize};

/// The time of requests of one flavor in each stage at the server. All stages but the first are a
/// thread's time, which the requests of a batch share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stages {
    /// Requests by the server's own count, including the lead-in and the opening and closing of
    /// files.
    pub requests: u64,
    /// Seconds that they waited, all together.
    pub queue_seconds: f64,
    /// Seconds in which they were verified and decrypted.
    pub unwrap_seconds: f64,
    /// Seconds in which they were decoded and run, and their results encoded.
    pub execute_seconds: f64,
    /// Seconds in which their replies were signed and encrypted.
    pub wrap_seconds: f64,
    /// Seconds in which their replies went to the kernel.
    pub send_seconds: f64,
}

/// The stages in their order.
pub const STAGES: [&str; 5] = ["queue", "unwrap", "execute", "wrap", "send"];

impl Stages {
    /// The seconds of a stage, by its name.
    pub fn stage_mut(&mut self, name: &str) -> Option<&mut f64> {
        Some(match name {
            "queue" => &mut self.queue_seconds,
            "unwrap" => &mut self.unwrap_seconds,
            "execute" => &mut self.execute_seconds,
            "wrap" => &mut self.wrap_seconds,
            "send" => &mut self.send_seconds,
            _ => return None,
        })
    }

    /// The seconds of all stages, in the order of [`STAGES`].
    pub fn seconds(&self) -> [f64; 5] {
        [self.queue_seconds, self.unwrap_seconds, self.execute_seconds, self.wrap_seconds, self.send_seconds]
    }

    /// Returns the growth since `before`; `None` without a request, or after a restart of the
    /// server.
    pub fn since(&self, before: &Self) -> Option<Self> {
        let requests = self.requests.checked_sub(before.requests).filter(|requests| *requests > 0)?;
        let mut grown = Self { requests, ..Self::default() };
        for ((name, to), from) in STAGES.iter().zip(self.seconds()).zip(before.seconds()) {
            let seconds = to - from;
            if seconds < 0.0 {
                return None;
            }
            *grown.stage_mut(name)? = seconds;
        }
        Some(grown)
    }

    /// Returns the sum of both.
    pub fn and(&self, other: &Self) -> Self {
        let mut sum = Self { requests: self.requests + other.requests, ..*self };
        for (name, more) in STAGES.iter().zip(other.seconds()) {
            if let Some(seconds) = sum.stage_mut(name) {
                *seconds += more;
            }
        }
        sum
    }
}

/// The mean time of one request in each stage, in microseconds, over the repetitions of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageTimes {
    /// Time in the queue.
    pub queue_us: Interval,
    /// Verifying and decrypting it.
    pub unwrap_us: Interval,
    /// Decoding and running it, encoding its results.
    pub execute_us: Interval,
    /// Signing and encrypting its reply.
    pub wrap_us: Interval,
    /// Handing its reply to the kernel.
    pub send_us: Interval,
}

impl StageTimes {
    /// Draws them from the samples that count; `None` unless all have them.
    pub fn of(samples: &[&Sample]) -> Option<Self> {
        let each = |stage: usize| {
            let values = samples.iter().map(|sample| {
                let stages = sample.server_stages.as_ref()?;
                Some(stages.seconds()[stage] * 1e6 / stages.requests as f64)
            });
            Interval::of(values.collect::<Option<Vec<f64>>>()?)
        };
        Some(Self {
            queue_us: each(0)?,
            unwrap_us: each(1)?,
            execute_us: each(2)?,
            wrap_us: each(3)?,
            send_us: each(4)?,
        })
    }

    /// All of them, in the order of [`STAGES`].
    pub fn all(&self) -> [Interval; 5] {
        [self.queue_us, self.unwrap_us, self.execute_us, self.wrap_us, self.send_us]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(requests: u64, seconds: f64) -> Stages {
        let mut stages = Stages { requests, ..Stages::default() };
        for (at, name) in STAGES.iter().enumerate() {
            *stages.stage_mut(name).unwrap() = seconds * (at + 1) as f64;
        }
        stages
    }

    #[test]
    fn the_growth_of_counters_is_a_repetitions_cost_unless_they_started_anew() {
        let (before, after) = (stages(100, 1.0), stages(150, 1.5));
        assert_eq!(after.since(&before), Some(stages(50, 0.5)));
        assert_eq!(before.since(&after), None);
        assert_eq!(after.since(&after), None);
        assert_eq!(stages(50, 0.5).and(&stages(50, 0.5)), stages(100, 1.0));
    }

    #[test]
    fn the_times_of_a_request_are_means_over_each_repetition() {
        let sample = |requests| Sample { server_stages: Some(stages(requests, 1.0)), ..Sample::default() };
        let samples = [sample(1_000_000), sample(500_000), sample(250_000)];
        let times = StageTimes::of(&samples.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((times.queue_us.median, times.send_us.median, times.send_us.high), (2.0, 10.0, 20.0));
        let unknown = Sample::default();
        assert_eq!(StageTimes::of(&[&samples[0], &unknown]), None);
    }
}
