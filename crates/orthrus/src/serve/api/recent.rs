//! The events of the last hour.

use super::{ApiParts, status};
use crate::api::watched;
use handover::RecentEventsImage;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often the counters are noted.
const RECENT_INTERVAL: Duration = Duration::from_secs(60);
/// Notes of counters: an hour of them, with the one at its begin.
const RECENT_NOTES_MAX: usize = 61;

/// The counters of a moment, by name.
type Counts = BTreeMap<String, u64>;

/// The counters that should not grow, as they were in the last hour. Notes of the process before
/// can be negative, since some counters begin anew.
#[derive(Default)]
pub(in crate::serve) struct RecentEvents {
    notes: Mutex<VecDeque<BTreeMap<String, i64>>>,
    /// The notes of the process before, until the first one of this process.
    inherited: Mutex<RecentEventsImage>,
}

impl RecentEvents {
    /// Goes on with the notes of another process.
    pub(in crate::serve) fn inherit(image: RecentEventsImage) -> Self {
        Self { notes: Mutex::default(), inherited: Mutex::new(image) }
    }

    fn notes(&self) -> MutexGuard<'_, VecDeque<BTreeMap<String, i64>>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, counts: Counts) {
        let counts: BTreeMap<_, _> = counts.into_iter().map(|(name, count)| (name, signed(count))).collect();
        let inherited = std::mem::take(&mut *self.inherited.lock().unwrap_or_else(PoisonError::into_inner));
        let mut notes = self.notes();
        for grown in inherited {
            let mut before = counts.clone();
            for (name, grown) in grown {
                *before.entry(name).or_default() -= signed(grown);
            }
            notes.push_back(before);
        }
        notes.push_back(counts);
        let surplus = notes.len().saturating_sub(RECENT_NOTES_MAX);
        notes.drain(..surplus);
    }

    /// Returns by how much counters are above those of an hour ago, or of the first note.
    pub(super) fn since(&self, counts: Counts) -> Counts {
        grown(self.notes().front(), &counts).into_iter().collect()
    }

    /// Returns the notes for the next process.
    fn image(&self, counts: &Counts) -> RecentEventsImage {
        self.notes().iter().map(|note| grown(Some(note), counts)).collect()
    }
}

/// Returns the counters that are above those of a note, and by how much.
fn grown(note: Option<&BTreeMap<String, i64>>, counts: &Counts) -> Vec<(String, u64)> {
    let before = |name: &str| note.and_then(|note| note.get(name)).copied().unwrap_or_default();
    let grown = counts.iter().map(|(name, count)| {
        let grown = signed(*count).saturating_sub(before(name));
        (name.clone(), u64::try_from(grown).unwrap_or_default())
    });
    grown.filter(|(_, grown)| *grown > 0).collect()
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns the events of the last hour, for the next process.
pub(super) fn image(parts: &ApiParts) -> RecentEventsImage {
    parts.recent.image(&watched(&status::counters(parts)))
}

/// Starts the thread that notes the counters, for as long as the process lives.
///
/// # Errors
/// When the system gives no thread.
pub(in crate::serve) fn watch(parts: &Arc<ApiParts>) -> std::io::Result<()> {
    let parts = parts.clone();
    let note = move || parts.recent.note(watched(&status::counters(&parts)));
    note();
    let watch = move || {
        loop {
            std::thread::sleep(RECENT_INTERVAL);
            note();
        }
    };
    std::thread::Builder::new().name("recent".into()).spawn(watch).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_recent_for_an_hour() {
        let recent = RecentEvents::default();
        let counts = |panics| Counts::from([("panics".to_owned(), panics), ("stalls".to_owned(), 0)]);
        recent.note(counts(3));
        let grown = Counts::from([("panics".to_owned(), 2)]);
        for _ in 0..60 {
            assert_eq!(recent.since(counts(5)), grown);
            recent.note(counts(5));
        }
        recent.note(counts(5));
        assert!(recent.since(counts(5)).is_empty());
    }

    #[test]
    fn events_before_an_upgrade_stay_recent_for_the_rest_of_their_hour() {
        let counts = |panics| Counts::from([("panics".to_owned(), panics)]);
        let before = RecentEvents::default();
        [0, 0, 3].into_iter().for_each(|panics| before.note(counts(panics)));
        // Some counters begin anew in the next process, and others go on.
        for first in [0, 4] {
            let recent = RecentEvents::inherit(before.image(&counts(4)));
            (0..58).for_each(|_| recent.note(counts(first)));
            assert_eq!(recent.since(counts(first + 1)), counts(5));
            (0..2).for_each(|_| recent.note(counts(first)));
            assert_eq!(recent.since(counts(first + 1)), counts(2), "one came after the third note");
        }
    }
}
