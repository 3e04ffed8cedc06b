//! The events of the last hour.

use super::{ApiParts, status};
use crate::api::watched;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the counters are noted.
const RECENT_INTERVAL: Duration = Duration::from_secs(60);
/// Notes of counters: an hour of them, with the one at its begin.
const RECENT_NOTES_MAX: usize = 61;

/// The counters of a moment, by name.
type Counts = BTreeMap<String, u64>;

/// The counters that should not grow, as they were in the last hour.
#[derive(Default)]
pub(in crate::serve) struct RecentEvents(Mutex<VecDeque<Counts>>);

impl RecentEvents {
    fn note(&self, counts: Counts) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() >= RECENT_NOTES_MAX {
            notes.pop_front();
        }
        notes.push_back(counts);
    }

    /// Returns by how much counters are above those of an hour ago, or of the start of this
    /// process.
    pub(super) fn since(&self, counts: Counts) -> Counts {
        let notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = |name: &str| notes.front().and_then(|note| note.get(name)).copied().unwrap_or_default();
        let grown = counts.into_iter().map(|(name, count)| {
            let grown = count.saturating_sub(before(&name));
            (name, grown)
        });
        grown.filter(|(_, grown)| *grown > 0).collect()
    }
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
}
