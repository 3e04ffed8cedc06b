//! A keyed permutation of 64-bit numbers: identifiers that are unique and do not reveal the next
//! one.
//!
//! Strangers must not guess client ids and stateids, in NFSv4.0 above all, which has no sessions.
//! Random numbers would have to be remembered, to tell the id of a former client from one that was
//! never issued; a permutation gives the number back. It is a Feistel network over SipHash-1-3 with
//! a key drawn at each start. It has six rounds, since four can be distinguished from random with
//! as many pairs as a busy server issues.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;

const ROUNDS: u64 = 6;

/// The kinds of identifiers: each has a permutation of its own under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    ClientId = 1,
    Stateid = 2,
}

/// The permutations of one start of the server.
#[derive(Clone, Debug)]
pub(crate) struct Scramble {
    keyed: SipHasher13,
}

impl Scramble {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        Self { keyed: SipHasher13::new_with_key(key) }
    }

    fn round(&self, domain: Domain, round: u64, half: u32) -> u32 {
        let mut hasher = self.keyed;
        hasher.write_u64((domain as u64) << 48 | round << 32 | u64::from(half));
        hasher.finish() as u32
    }

    pub(crate) fn scramble(&self, domain: Domain, number: u64) -> u64 {
        let (mut left, mut right) = ((number >> 32) as u32, number as u32);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.round(domain, round, right));
        }
        u64::from(left) << 32 | u64::from(right)
    }

    pub(crate) fn unscramble(&self, domain: Domain, number: u64) -> u64 {
        let (mut left, mut right) = ((number >> 32) as u32, number as u32);
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ self.round(domain, round, left), left);
        }
        u64::from(left) << 32 | u64::from(right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_number_comes_back_and_no_two_are_the_same() {
        let scramble = Scramble::new(&[7; 16]);
        for domain in [Domain::ClientId, Domain::Stateid] {
            let numbers = (0..5000).chain([u64::MAX, 1 << 63, u64::from(u32::MAX)]);
            let all: BTreeSet<u64> = numbers
                .map(|number| {
                    let scrambled = scramble.scramble(domain, number);
                    assert_eq!(scramble.unscramble(domain, scrambled), number);
                    scrambled
                })
                .collect();
            assert_eq!(all.len(), 5003);
        }
    }

    #[test]
    fn neighbours_differ_in_half_of_their_bits_and_keys_and_domains_count() {
        let of = |key: u8, domain| Scramble::new(&[key; 16]).scramble(domain, 1);
        assert_ne!(of(1, Domain::ClientId), of(2, Domain::ClientId));
        assert_ne!(of(1, Domain::ClientId), of(1, Domain::Stateid));
        let scramble = Scramble::new(&[7; 16]);
        let of = |number| scramble.scramble(Domain::ClientId, number);
        let flipped: u32 = (0..1000).map(|number| (of(number) ^ of(number + 1)).count_ones()).sum();
        assert!((30_000..34_000).contains(&flipped), "{flipped}");
    }
}
