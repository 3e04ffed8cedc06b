//! Images of tables: entries keep their keys, and keys that were used are not given out again.

use super::{STRIPE_BITS, STRIPES, Table, inner, outer};
use crate::order::Leaf;
use crate::slab::{Slab, SlabKey};
use crate::sync::RwLock;
use crate::table::{Stripe, Stripes};
use image::{ImageError, ensure};
use minicbor::{Decode, Encode};

/// A key in an image: index and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct KeyImage(#[n(0)] u32, #[n(1)] u32);

impl From<SlabKey> for KeyImage {
    fn from(key: SlabKey) -> Self {
        let SlabKey { index, generation } = key;
        Self(index, generation)
    }
}

impl From<KeyImage> for SlabKey {
    fn from(KeyImage(index, generation): KeyImage) -> Self {
        Self { index, generation }
    }
}

/// The entries of a table, and the last keys of its free places.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct TableImage<T> {
    #[n(0)]
    pub(crate) taken: Vec<(KeyImage, T)>,
    #[n(1)]
    free: Vec<KeyImage>,
}

/// Places of a restored table for each one that its image lists: a version with more stripes leaves
/// gaps.
const PLACES_PER_ENTRY_MAX: usize = 4;

impl<T> TableImage<T> {
    /// Makes images of the entries, or stops at the first that fails.
    pub(crate) fn try_map<R>(
        self,
        mut of: impl FnMut(SlabKey, T) -> Result<R, ImageError>,
    ) -> Result<TableImage<R>, ImageError> {
        let taken = self.taken.into_iter().map(|(key, value)| Ok((key, of(key.into(), value)?)));
        Ok(TableImage { taken: taken.collect::<Result<_, ImageError>>()?, free: self.free })
    }
}

impl<T> Table<T> {
    /// Makes an image of the table, with images of its entries.
    pub(crate) fn image<R>(&self, mut of: impl FnMut(SlabKey, &T) -> R) -> TableImage<R> {
        let (mut taken, mut free) = (Vec::with_capacity(self.len()), Vec::new());
        let Self { stripes } = self;
        for (number, stripe) in stripes.iter().enumerate() {
            let slab = stripe.read();
            taken.extend(slab.iter().map(|(key, value)| {
                let key = outer(number, key);
                (key.into(), of(key, value))
            }));
            free.extend(slab.free_keys().map(|key| KeyImage::from(outer(number, key))));
        }
        TableImage { taken, free }
    }

    /// Restores a table; `make` gets the entries one after another.
    pub(crate) fn restore<R>(
        image: TableImage<R>,
        mut make: impl FnMut(SlabKey, R) -> Result<T, ImageError>,
    ) -> Result<Self, ImageError> {
        let TableImage { taken, free } = image;
        let mut places = [0; STRIPES];
        for key in taken.iter().map(|(key, _)| key).chain(&free) {
            let SlabKey { index, .. } = SlabKey::from(*key);
            let places = &mut places[index as usize % STRIPES];
            *places = (*places).max((index >> STRIPE_BITS) as usize + 1);
        }
        let listed = taken.len() + free.len();
        let all = places.iter().sum::<usize>();
        ensure(all <= listed * PLACES_PER_ENTRY_MAX, "a table with large gaps")?;
        let mut slabs = places.map(Slab::with_places);
        let mut fill = |key: SlabKey, value| {
            let is_first = slabs[key.index as usize % STRIPES].fill(inner(key), value);
            ensure(is_first, "a key is listed twice")
        };
        for (key, value) in taken {
            let key = SlabKey::from(key);
            ensure(key.is_usable(), "a key that no table gives out")?;
            fill(key, Some(make(key, value)?))?;
        }
        free.into_iter().try_for_each(|key| fill(key.into(), None))?;
        let stripes = slabs.into_iter().map(|slab| Stripe(Leaf::new(RwLock::new(slab.filled()))));
        Ok(Self { stripes: Stripes(stripes.collect()) })
    }
}

impl SlabKey {
    /// Whether a table may have given the key out, and a stateid can hold it.
    pub(crate) fn is_usable(self) -> bool {
        self.is_generation() && self.index < 1 << 31
    }
}

const _: () = assert!(1 << STRIPE_BITS == STRIPES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_and_those_of_removed_entries_do_not_come_back() {
        let table = Table::new();
        let keys: Vec<SlabKey> = (0..300).map(|n| table.insert(n, n)).collect();
        keys.iter().step_by(3).for_each(|key| assert!(table.remove(*key).is_some()));
        let image = table.image(|_, value| *value);
        let restored = Table::restore(image.clone(), |_, value| Ok(value)).unwrap();
        assert_eq!(restored.image(|_, value| *value), image);
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(restored.get(*key), (n % 3 != 0).then_some(n as u32));
        }
        let fresh: Vec<SlabKey> = (0..300).map(|n| restored.insert(n, 1000 + n)).collect();
        assert!(fresh.iter().all(|key| !keys.contains(key)));
        assert_eq!(restored.len(), 500);
    }

    #[test]
    fn an_image_of_a_version_with_other_stripes_is_restored() {
        // Half or a quarter of the stripes, or twice as many: only the indexes have a meaning.
        for spread in [1, 2, 4] {
            let taken = (0..100).map(|n| (KeyImage(n * spread, 7), n)).collect();
            let table = Table::restore(TableImage { taken, free: vec![] }, |_, value| Ok(value)).unwrap();
            let key = |n: u32| SlabKey { index: n * spread, generation: 7 };
            assert!((0..100).all(|n| table.get(key(n)) == Some(n)));
            let fresh = table.insert(0, 1);
            assert!((0..100).all(|n| key(n) != fresh));
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let restore = |taken: &[KeyImage], free: &[KeyImage]| {
            let taken = taken.iter().map(|key| (*key, ())).collect();
            Table::restore(TableImage { taken, free: free.to_vec() }, |_, ()| Ok(())).is_ok()
        };
        assert!(restore(&[KeyImage(0, 1)], &[KeyImage(1, 1)]));
        assert!(!restore(&[KeyImage(0, 1), KeyImage(0, 2)], &[]));
        assert!(!restore(&[KeyImage(0, 1)], &[KeyImage(0, 1)]));
        assert!(!restore(&[KeyImage(0, 0)], &[]));
        assert!(!restore(&[KeyImage(0, u32::MAX)], &[]));
        assert!(!restore(&[KeyImage(1 << 30, 1)], &[]));
        assert!(!restore(&[KeyImage(u32::MAX, 1)], &[]));
    }
}
