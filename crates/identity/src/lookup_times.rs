//! The time that sources take for lookups.

use crate::lookups::{LookupAnswer, LookupKey};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The upper bounds of the classes of times in milliseconds; a last class has no bound.
const BOUNDS_MS: [u64; 10] = [1, 5, 10, 50, 100, 200, 500, 1_000, 2_000, 5_000];

/// Lookups whose times are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupKind {
    /// The account of a principal, for a new context or a refresh.
    Principal,
    /// The account of a user ID, for the groups of an AUTH_SYS caller.
    Account,
    /// The name of a number, or the number of a name, for owners of files.
    Owner,
}

impl LookupKind {
    /// All kinds of lookups.
    pub const ALL: [Self; 3] = [Self::Principal, Self::Account, Self::Owner];

    /// Returns its name in metrics.
    pub fn name(self) -> &'static str {
        ["principal", "account", "owner"][self as usize]
    }
}

/// The times of lookups, by kind.
#[derive(Debug, Default)]
pub(crate) struct LookupTimes([LookupClasses; LookupKind::ALL.len()]);

/// The number of lookups in each class of times.
#[derive(Debug, Default)]
pub(crate) struct LookupClasses {
    microseconds: AtomicU64,
    classes: [AtomicU64; BOUNDS_MS.len() + 1],
}

/// The times of lookups since the server's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupHistogram {
    /// The upper bound of each class with the number of its lookups; the last class has none.
    pub classes: Vec<(Option<Duration>, u64)>,
    /// The sum of the times.
    pub time: Duration,
}

impl LookupTimes {
    /// Returns the classes for lookups of a key.
    pub(crate) fn of(&self, key: &LookupKey) -> &LookupClasses {
        self.of_kind(match key {
            LookupKey::Principal(_) => LookupKind::Principal,
            LookupKey::Account(_) => LookupKind::Account,
            LookupKey::User(_) | LookupKey::Group(_) | LookupKey::Uid(_) | LookupKey::Gid(_) => {
                LookupKind::Owner
            }
        })
    }

    pub(crate) fn of_kind(&self, kind: LookupKind) -> &LookupClasses {
        &self.0[kind as usize]
    }
}

impl LookupClasses {
    /// Runs a lookup and counts its time.
    pub(crate) fn measure(&self, look_up: impl FnOnce() -> LookupAnswer) -> LookupAnswer {
        let began = Instant::now();
        let answer = look_up();
        self.add(began.elapsed());
        answer
    }

    fn add(&self, time: Duration) {
        let class = BOUNDS_MS.partition_point(|bound| Duration::from_millis(*bound) < time);
        if let Some(count) = self.classes.get(class) {
            count.fetch_add(1, Relaxed);
        }
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.microseconds.fetch_add(microseconds, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> LookupHistogram {
        let bounds = BOUNDS_MS.map(Duration::from_millis).into_iter().map(Some).chain([None]);
        let counts = self.classes.iter().map(|count| count.load(Relaxed));
        LookupHistogram {
            classes: bounds.zip(counts).collect(),
            time: Duration::from_micros(self.microseconds.load(Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_are_counted_by_kind_and_time() {
        let times = LookupTimes::default();
        times.of(&LookupKey::Principal("alice@R".to_owned())).add(Duration::from_millis(5));
        times.of(&LookupKey::Group(5)).add(Duration::from_secs(60));
        times.of(&LookupKey::Uid("alice".to_owned())).measure(|| LookupAnswer::Id(Ok(None)));
        let of = |kind| times.of_kind(kind).snapshot();
        let counts = |kind| of(kind).classes.iter().map(|(_, count)| *count).sum::<u64>();
        assert_eq!(LookupKind::ALL.map(counts), [1, 0, 2]);
        assert_eq!(of(LookupKind::Principal).classes[1], (Some(Duration::from_millis(5)), 1));
        assert_eq!(of(LookupKind::Owner).classes.last(), Some(&(None, 1)));
        assert!(of(LookupKind::Owner).time >= Duration::from_secs(60));
    }
}
