//! Holds connections back at random, for tests of servers and of reply order.

use std::time::{Duration, Instant};

use super::link::Link;
use super::links::Links;

/// The longest time for which a connection is held back.
const HELD_MAX: Duration = Duration::from_secs(2);

/// Whether a connection is held back, and the time of the next change.
#[derive(Debug, Default)]
pub(crate) struct EnginePace {
    held: bool,
    /// The number of sent calls at which `held` flips.
    turns_at: u64,
    /// The latest time at which `held` flips.
    until: Option<Instant>,
}

impl EnginePace {
    /// Returns whether the connection is held back.
    pub(crate) const fn is_held(&self) -> bool {
        self.held
    }
}

impl Links {
    /// Holds connections back and releases them: each in turn for up to `lag_max` calls on the
    /// others, at most half of them at once. `sent` is the number of calls sent so far, and
    /// `in_progress` that of calls without a reply.
    pub(super) fn pace(&mut self, lag_max: u32, sent: u64, in_progress: usize, now: Instant) {
        if self.len() < 2 {
            return;
        }
        let stuck: usize = self.iter().map(Link::held_calls).sum();
        if stuck > 0 && stuck == in_progress {
            // No further call would overtake them.
            let free = || EnginePace { held: false, turns_at: sent + 1, until: Some(now + HELD_MAX) };
            self.iter_mut().for_each(|link| link.pace = free());
        }
        let held = self.iter().filter(|link| link.pace.held).count();
        let mut room = (self.len() / 2).saturating_sub(held);
        let Self { all, random, .. } = self;
        for Link { pace, .. } in all {
            if sent < pace.turns_at && pace.until.is_some_and(|until| now < until) {
                continue;
            }
            if pace.held {
                room += 1;
            }
            pace.held = !pace.held && room > 0;
            if pace.held {
                room -= 1;
            }
            pace.turns_at = sent + 1 + random.below(lag_max.max(1).into());
            pace.until = Some(now + HELD_MAX);
        }
    }
}
