//! Exports by a small number, so that counters are found without a search.

use std::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, PoisonError};

/// Exports with counters of their own, in the order of their first request. The requests of further
/// exports are counted together.
pub(crate) const EXPORT_COUNTERS_MAX: usize = 32;
/// Places of exports: none, those with counters of their own, and the others together.
pub(crate) const PLACES: usize = EXPORT_COUNTERS_MAX + 2;
/// The place of all further exports.
pub(crate) const OTHERS: u8 = EXPORT_COUNTERS_MAX as u8 + 1;

/// The exports that have counters.
#[derive(Debug, Default)]
pub(crate) struct ExportPlaces {
    ids: [AtomicU32; EXPORT_COUNTERS_MAX],
    used: AtomicUsize,
    names: Mutex<Vec<(u32, String)>>,
}

impl ExportPlaces {
    /// Returns the place of the export with this number and pseudo path, from 1.
    pub(crate) fn place(&self, id: u32, name: &str) -> u8 {
        let used = self.used.load(Acquire);
        let known = self.ids.iter().take(used).position(|known| known.load(Relaxed) == id);
        match known {
            Some(at) => at as u8 + 1,
            None if used < EXPORT_COUNTERS_MAX => self.add(id, name),
            None => OTHERS,
        }
    }

    fn add(&self, id: u32, name: &str) -> u8 {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = names.iter().position(|(known, _)| *known == id) {
            return at as u8 + 1;
        }
        let Some(free) = self.ids.get(names.len()) else { return OTHERS };
        free.store(id, Relaxed);
        names.push((id, name.to_owned()));
        self.used.store(names.len(), Release);
        names.len() as u8
    }

    /// Returns numbers and pseudo paths in the order of their places.
    pub(crate) fn names(&self) -> Vec<(u32, String)> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_export_keeps_its_place_and_those_beyond_the_limit_share_one() {
        let places = ExportPlaces::default();
        for round in 0..2 {
            for id in 0..40_u32 {
                let expected = if id < 32 { id as u8 + 1 } else { OTHERS };
                assert_eq!(places.place(id * 7, &format!("/{id}")), expected, "{round} {id}");
            }
        }
        assert_eq!(places.names().len(), EXPORT_COUNTERS_MAX);
        assert_eq!(places.names()[3], (21, "/3".to_owned()));
    }
}
