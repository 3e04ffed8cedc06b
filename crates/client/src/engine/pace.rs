//! Holds connections back at random, for tests of servers and of reply order.

use std::time::{Duration, Instant};

use super::link::Link;
use crate::client::Client;

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

impl Client {
    /// Holds connections back and releases them: each in turn for up to
    /// [`Options::lag_max`](crate::Options::lag_max) calls on the others, at most half of them at
    /// once.
    pub(super) fn pace(&mut self, now: Instant) {
        let Some(lag_max) = self.options.lag_max.filter(|_| self.links.len() > 1) else { return };
        let sent = self.statistics.calls_sent;
        let stuck: usize = self.links.iter().map(Link::held_calls).sum();
        if stuck > 0 && stuck == self.calls.len() {
            // No further call would overtake them.
            let free = || EnginePace { held: false, turns_at: sent + 1, until: Some(now + HELD_MAX) };
            self.links.iter_mut().for_each(|link| link.pace = free());
        }
        let mut room = (self.links.len() / 2).saturating_sub(self.held_links());
        for link in &mut self.links {
            let pace = &mut link.pace;
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
            pace.turns_at = sent + 1 + self.random.below(lag_max.max(1).into());
            pace.until = Some(now + HELD_MAX);
        }
    }

    fn held_links(&self) -> usize {
        self.links.iter().filter(|link| link.pace.held).count()
    }
}
