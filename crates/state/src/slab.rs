//! Storage with keys that are never confused: an index, and a generation that changes when the
//! place is used again.

/// Names a value of a [`Slab`]; a key of a removed value finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SlabKey {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl SlabKey {
    /// A key below all others.
    pub(crate) const MIN: Self = Self { index: 0, generation: 0 };
    /// A key above all others.
    pub(crate) const MAX: Self = Self { index: u32::MAX, generation: u32::MAX };

    /// Whether the generation is one of an entry.
    pub(crate) fn is_generation(self) -> bool {
        (1..=GENERATION_MAX).contains(&self.generation)
    }
}

/// The highest generation: one bit less than 32, so that a stateid has a bit to spare for its kind.
const GENERATION_MAX: u32 = u32::MAX >> 1;

#[derive(Debug)]
enum SlabContent<T> {
    Taken(T),
    Free { next: Option<u32> },
}

#[derive(Debug)]
struct SlabEntry<T> {
    generation: u32,
    place: SlabContent<T>,
}

/// A vector with holes that are filled again.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<SlabEntry<T>>,
    free: Option<u32>,
    len: usize,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: None, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the key that the next value will get.
    pub(crate) fn next_key(&self) -> SlabKey {
        match self.free.and_then(|index| Some((index, self.entries.get(index as usize)?))) {
            Some((index, entry)) => {
                let again = entry.generation >= GENERATION_MAX;
                SlabKey { index, generation: if again { 1 } else { entry.generation + 1 } }
            }
            None => SlabKey { index: self.entries.len() as u32, generation: 1 },
        }
    }

    pub(crate) fn insert(&mut self, value: T) -> SlabKey {
        let key = self.next_key();
        self.len += 1;
        let entry = SlabEntry { generation: key.generation, place: SlabContent::Taken(value) };
        match self.entries.get_mut(key.index as usize) {
            Some(place) => {
                if let SlabEntry { place: SlabContent::Free { next }, .. } = std::mem::replace(place, entry) {
                    self.free = next;
                }
            }
            None => self.entries.push(entry),
        }
        key
    }

    pub(crate) fn get(&self, key: SlabKey) -> Option<&T> {
        match self.entries.get(key.index as usize) {
            Some(SlabEntry { generation, place: SlabContent::Taken(value) })
                if *generation == key.generation =>
            {
                Some(value)
            }
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, key: SlabKey) -> Option<&mut T> {
        match self.entries.get_mut(key.index as usize) {
            Some(SlabEntry { generation, place: SlabContent::Taken(value) })
                if *generation == key.generation =>
            {
                Some(value)
            }
            _ => None,
        }
    }

    /// Returns the present entry at this index, of any generation.
    pub(crate) fn at(&self, index: u32) -> Option<&T> {
        match self.entries.get(index as usize) {
            Some(SlabEntry { place: SlabContent::Taken(value), .. }) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn remove(&mut self, key: SlabKey) -> Option<T> {
        self.get(key)?;
        let entry = self.entries.get_mut(key.index as usize)?;
        let SlabContent::Taken(value) =
            std::mem::replace(&mut entry.place, SlabContent::Free { next: self.free })
        else {
            return None;
        };
        self.free = Some(key.index);
        self.len -= 1;
        Some(value)
    }

    /// Returns the free places, each with the generation that it had last.
    pub(crate) fn free_keys(&self) -> impl Iterator<Item = SlabKey> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| match &entry.place {
            SlabContent::Free { .. } => Some(SlabKey { index: index as u32, generation: entry.generation }),
            SlabContent::Taken(_) => None,
        })
    }

    /// Makes a slab with so many places, which were never used, for [`Slab::fill`].
    pub(crate) fn with_places(places: usize) -> Self {
        let unused = || SlabEntry { generation: 0, place: SlabContent::Free { next: None } };
        Self { entries: std::iter::repeat_with(unused).take(places).collect(), free: None, len: 0 }
    }

    /// Gives a place its value, or the key that a removed value had. Returns false if it has one.
    pub(crate) fn fill(&mut self, key: SlabKey, value: Option<T>) -> bool {
        let unused = |entry: &&mut SlabEntry<T>| {
            entry.generation == 0 && matches!(entry.place, SlabContent::Free { .. })
        };
        let Some(entry) = self.entries.get_mut(key.index as usize).filter(unused) else { return false };
        entry.generation = key.generation;
        if let Some(value) = value {
            entry.place = SlabContent::Taken(value);
            self.len += 1;
        }
        true
    }

    /// Returns the slab with all places filled: the others are free.
    pub(crate) fn filled(mut self) -> Self {
        for (index, entry) in (0..).zip(&mut self.entries) {
            if let SlabContent::Free { next } = &mut entry.place {
                *next = self.free.replace(index);
            }
        }
        self
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SlabKey, &T)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| match &entry.place {
            SlabContent::Taken(value) => {
                Some((SlabKey { index: index as u32, generation: entry.generation }, value))
            }
            SlabContent::Free { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_a_removed_value_finds_nothing_even_when_the_place_is_taken_again() {
        let mut slab = Slab::new();
        let old = slab.insert("a");
        assert_eq!(slab.remove(old), Some("a"));
        let new = slab.insert("b");
        assert_eq!(new.index, old.index);
        assert_eq!(slab.get(old), None);
        assert_eq!(slab.remove(old), None);
        assert_eq!(slab.get(new), Some(&"b"));
        assert_eq!(slab.len(), 1);
    }
}
