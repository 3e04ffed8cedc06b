//! Hashes of the numbers of connections.
//!
//! A shard finds a connection a dozen times for each request. The server gives the numbers itself,
//! so no peer can choose some that collide, and a multiplication spreads them.

use std::hash::{BuildHasherDefault, Hasher};

/// Makes hashes of numbers of connections.
pub(crate) type IdHash = BuildHasherDefault<IdHasher>;

/// The hash of one number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing: the table takes both the highest and the lowest bits.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn numbers_in_a_row_and_numbers_of_one_of_many_shards_spread() {
        for stride in [1, 2, 64, 1 << 20] {
            let hashes: Vec<u64> =
                (1..=4096_u64).map(|number| IdHash::default().hash_one(number * stride)).collect();
            let low: HashSet<u64> = hashes.iter().map(|hash| hash & 0xfff).collect();
            let high: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            // A random function leaves 63 % of the places in use.
            assert!(low.len() > 2400, "{} places of 4096 with stride {stride}", low.len());
            assert_eq!(high.len(), 128, "tags with stride {stride}");
        }
    }
}
