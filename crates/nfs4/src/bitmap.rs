//! Attribute and operation bitmaps (RFC 8881 section 3.3.7).

use xdr::{Decode, Decoder, Encode, Encoder, Error};

/// Words that are kept: attributes of 4.2 and its extensions end in the third.
const WORDS: usize = 3;

/// Words that a peer may send; those behind the third are dropped.
const WIRE_WORDS_MAX: usize = 8;

/// A set of small numbers, as `bitmap4` on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bitmap4 {
    words: [u32; WORDS],
}

impl Bitmap4 {
    /// The empty set.
    pub const EMPTY: Self = Self { words: [0; WORDS] };

    /// Adds `bit`; bits above 95 are ignored.
    pub const fn set(&mut self, bit: u32) {
        if (bit as usize) < WORDS * 32 {
            self.words[bit as usize / 32] |= 1 << (bit % 32);
        }
    }

    /// Whether `bit` is in the set.
    pub const fn contains(&self, bit: u32) -> bool {
        (bit as usize) < WORDS * 32 && self.words[bit as usize / 32] & (1 << (bit % 32)) != 0
    }
}

impl Encode for Bitmap4 {
    fn encode(&self, encoder: &mut Encoder) {
        let used = self.words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        encoder.array_len(used);
        for word in self.words.iter().take(used) {
            encoder.u32(*word);
        }
    }
}

impl<'a> Decode<'a> for Bitmap4 {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, Error> {
        let mut found = Self::EMPTY;
        for at in 0..decoder.array_len(WIRE_WORDS_MAX)? {
            let word = decoder.u32()?;
            if let Some(kept) = found.words.get_mut(at) {
                *kept = word;
            }
        }
        Ok(found)
    }
}
