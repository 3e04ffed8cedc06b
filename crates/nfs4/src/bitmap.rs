//! `bitmap4` (RFC 8881 section 3.2).
#![allow(clippy::indexing_slicing, reason = "each index is below WORDS; const functions have no `get`")]

use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};

use xdr::{Decode, Decoder, Encode, Encoder, Error};

const WORDS: usize = 4;

/// The most words that a received bitmap may have. Numbers defined so far fill three.
pub const BITMAP_WORDS_MAX: usize = 64;

/// A set of small numbers: attributes, operations, notification types.
///
/// It holds the numbers 0 to 127 in place. Of larger numbers that a peer sent, it keeps only that
/// there were some ([`Bitmap4::has_beyond`]): no known number is that large. A peer that requests
/// an unknown attribute gets nothing, and one that sets it gets NFS4ERR_ATTRNOTSUPP.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Bitmap4 {
    words: [u32; WORDS],
    beyond: bool,
}

impl Bitmap4 {
    /// The set without members.
    pub const EMPTY: Self = Self { words: [0; WORDS], beyond: false };

    /// Makes the empty set.
    pub const fn new() -> Self {
        Self::EMPTY
    }

    /// Makes a set of its members; numbers above 127 are not kept.
    pub const fn of(members: &[u32]) -> Self {
        let mut set = Self::EMPTY;
        let mut rest = members;
        while let [first, others @ ..] = rest {
            set = set.with(*first);
            rest = others;
        }
        set
    }

    /// Returns the set with one more member; a number above 127 changes nothing.
    pub const fn with(mut self, bit: u32) -> Self {
        let word = (bit / 32) as usize;
        if word < WORDS {
            self.words[word] |= 1 << (bit % 32);
        }
        self
    }

    /// Adds a member; a number above 127 changes nothing.
    pub const fn set(&mut self, bit: u32) {
        *self = self.with(bit);
    }

    /// Removes a member; no effect if it is absent.
    pub const fn clear(&mut self, bit: u32) {
        let word = (bit / 32) as usize;
        if word < WORDS {
            self.words[word] &= !(1 << (bit % 32));
        }
    }

    /// Returns whether a number is a member.
    pub const fn contains(&self, bit: u32) -> bool {
        let word = (bit / 32) as usize;
        word < WORDS && self.words[word] & (1 << (bit % 32)) != 0
    }

    /// Returns whether the peer's bitmap had members above 127.
    pub const fn has_beyond(&self) -> bool {
        self.beyond
    }

    /// Returns whether there is no member.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0 && !self.beyond
    }

    /// The number of members up to 127.
    pub const fn len(&self) -> usize {
        let mut count = 0;
        let mut word = 0;
        while word < WORDS {
            count += self.words[word].count_ones() as usize;
            word += 1;
        }
        count
    }

    /// Returns the members of both sets.
    pub const fn and(&self, other: &Self) -> Self {
        let mut both = Self { words: self.words, beyond: self.beyond && other.beyond };
        let mut word = 0;
        while word < WORDS {
            both.words[word] &= other.words[word];
            word += 1;
        }
        both
    }

    /// Returns the members of either set.
    pub const fn or(&self, other: &Self) -> Self {
        let mut either = Self { words: self.words, beyond: self.beyond || other.beyond };
        let mut word = 0;
        while word < WORDS {
            either.words[word] |= other.words[word];
            word += 1;
        }
        either
    }

    /// Returns the members that the other set does not have.
    pub const fn and_not(&self, other: &Self) -> Self {
        let mut rest = *self;
        let mut word = 0;
        while word < WORDS {
            rest.words[word] &= !other.words[word];
            word += 1;
        }
        rest
    }

    /// Returns whether all members are in the other set.
    pub const fn is_subset_of(&self, other: &Self) -> bool {
        self.and_not(other).is_empty()
    }

    /// Returns the members up to 127 in ascending order.
    pub const fn iter(&self) -> Bits {
        Bits { words: self.words, word: 0 }
    }

    /// The words up to the last one that is not zero, as they go over the wire.
    pub fn words(&self) -> &[u32] {
        let used = self.words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        self.words.get(..used).unwrap_or(&[])
    }
}

/// Walks the members of a [`Bitmap4`] in ascending order.
#[derive(Clone, Debug)]
pub struct Bits {
    words: [u32; WORDS],
    word: usize,
}

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            let word = self.words.get_mut(self.word)?;
            if *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                return Some(self.word as u32 * 32 + bit);
            }
            self.word += 1;
        }
    }
}

impl IntoIterator for &Bitmap4 {
    type Item = u32;
    type IntoIter = Bits;

    fn into_iter(self) -> Bits {
        self.iter()
    }
}

impl FromIterator<u32> for Bitmap4 {
    fn from_iter<T: IntoIterator<Item = u32>>(members: T) -> Self {
        members.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl BitAnd for Bitmap4 {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        self.and(&other)
    }
}

impl BitOr for Bitmap4 {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.or(&other)
    }
}

impl Sub for Bitmap4 {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.and_not(&other)
    }
}

impl fmt::Debug for Bitmap4 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = out.debug_set();
        set.entries(self.iter());
        if self.beyond {
            set.entry(&format_args!("128.."));
        }
        set.finish()
    }
}

impl Encode for Bitmap4 {
    fn encode(&self, encoder: &mut Encoder) {
        let words = self.words();
        encoder.array_len(words.len());
        for word in words {
            encoder.u32(*word);
        }
    }
}

impl<'a> Decode<'a> for Bitmap4 {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error> {
        let mut set = Self::EMPTY;
        for index in 0..decoder.array_len(BITMAP_WORDS_MAX)? {
            let word = decoder.u32()?;
            match set.words.get_mut(index) {
                Some(place) => *place = word,
                None => set.beyond |= word != 0,
            }
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(words: &[u32]) -> Result<Bitmap4, Error> {
        let mut encoder = Encoder::new();
        encoder.array(words);
        let bytes = encoder.into_vec();
        let mut decoder = Decoder::new(&bytes);
        let set = decoder.value()?;
        decoder.finish()?;
        Ok(set)
    }

    fn encoded(set: Bitmap4) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.value(&set);
        encoder.into_vec()
    }

    #[test]
    fn bit_n_is_in_word_n_div_32_at_n_mod_32() {
        // RFC 8881 section 3.2
        assert_eq!(encoded(Bitmap4::of(&[0])), [0, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(encoded(Bitmap4::of(&[33])), [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2]);
    }

    #[test]
    fn a_bitmap_is_sent_without_trailing_zero_words() {
        // RFC 8881 section 3.2
        assert_eq!(encoded(Bitmap4::EMPTY), [0, 0, 0, 0]);
        assert_eq!(decoded(&[1, 0, 0]).map(encoded), Ok(encoded(Bitmap4::of(&[0]))));
    }

    #[test]
    fn members_come_out_in_ascending_order_and_survive_the_wire() {
        // RFC 8881 section 3.3.7: attributes are written from the lowest number to the highest
        let members = [1, 4, 31, 32, 63, 64, 86, 127];
        let set = Bitmap4::of(&members);
        assert_eq!(set.iter().collect::<Vec<_>>(), members);
        assert_eq!(decoded(set.words()), Ok(set));
        assert_eq!(set.len(), members.len());
    }

    #[test]
    fn unknown_words_of_a_bitmap_are_dropped_but_noted() {
        // RFC 8881 section 18.30.3: an unknown attribute in SETATTR has to be refused
        let set = decoded(&[1, 0, 0, 0, 8]).unwrap_or_default();
        assert!(set.has_beyond() && set.contains(0) && !set.contains(131) && set.len() == 1);
        assert!(!decoded(&[1, 0, 0, 0, 0]).unwrap_or_default().has_beyond());
    }

    #[test]
    fn a_bitmap_of_absurd_length_is_refused() {
        let words = vec![0; BITMAP_WORDS_MAX + 1];
        let max = BITMAP_WORDS_MAX;
        assert_eq!(decoded(&words), Err(Error::TooLong { length: max + 1, max }));
        assert_eq!(decoded(&words[..max]), Ok(Bitmap4::EMPTY));
    }

    #[test]
    fn sets_combine() {
        let (a, b) = (Bitmap4::of(&[1, 40, 90]), Bitmap4::of(&[40, 90, 100]));
        assert_eq!(a & b, Bitmap4::of(&[40, 90]));
        assert_eq!(a | b, Bitmap4::of(&[1, 40, 90, 100]));
        assert_eq!(a - b, Bitmap4::of(&[1]));
        assert!((a & b).is_subset_of(&a) && !a.is_subset_of(&b));
        let mut c = a;
        c.clear(40);
        c.set(500);
        c.clear(500);
        assert_eq!(c, [1, 90].into_iter().collect());
    }
}
