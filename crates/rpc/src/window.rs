//! The sequence window of an RPCSEC_GSS context (RFC 2203 section 5.3.3.1).

mod image;

pub use image::WindowImage;

use crate::generated::MAXSEQ;

const WORD_BITS: u32 = u64::BITS;

/// The verdict of a [`SequenceWindow`] on a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum WindowOutcome {
    /// The number is new, and is now marked as seen.
    Accepted,
    /// The number was seen before; discard the call without a reply.
    Replayed,
    /// The number is below the window, so it may have been seen; discard the call without a reply.
    TooOld,
    /// The number is above [`MAXSEQ`](crate::MAXSEQ); answer RPCSEC_GSS_CTXPROBLEM (RFC 2203
    /// section 5.3.3.3).
    BeyondMaxseq,
}

/// Records which sequence numbers of a context have been used.
///
/// The window holds the last `size` numbers up to the largest accepted one. Verify the MIC of the
/// call's header first: an accepted number moves the window, so a forged one would push valid calls
/// out. Numbers do not wrap; they end at [`MAXSEQ`](crate::MAXSEQ).
#[derive(Clone, Debug)]
pub struct SequenceWindow {
    /// One bit for each number, at the number modulo the size; set if the number was seen.
    words: Box<[u64]>,
    /// The largest accepted number; has no meaning until `used` is set.
    highest: u32,
    used: bool,
}

impl SequenceWindow {
    /// Default size in numbers. At 250,000 calls a second, calls can overtake each other by 30 ms.
    /// A context uses 1 KiB for it.
    pub const SIZE_DEFAULT: u32 = 8192;

    /// Largest size in numbers, 128 KiB of memory.
    pub const SIZE_MAX: u32 = 1 << 20;

    /// Makes a window of `size` numbers, rounded up to a power of two between 64 and
    /// [`Self::SIZE_MAX`].
    pub fn new(size: u32) -> Self {
        let size = size.clamp(WORD_BITS, Self::SIZE_MAX).next_power_of_two();
        Self { words: vec![0; (size / WORD_BITS) as usize].into_boxed_slice(), highest: 0, used: false }
    }

    /// Returns the size in numbers: the `seq_window` of the reply to INIT.
    pub fn size(&self) -> u32 {
        // Bounded by SIZE_MAX in the constructor.
        (self.words.len() as u32) * WORD_BITS
    }

    /// Returns how far `sequence` is behind the largest accepted number; 0 if it is ahead.
    pub fn lag(&self, sequence: u32) -> u32 {
        if self.used { self.highest.saturating_sub(sequence) } else { 0 }
    }

    /// Checks the sequence number of a call whose header has been verified, and marks it as seen.
    pub fn check(&mut self, sequence: u32) -> WindowOutcome {
        if sequence > MAXSEQ {
            return WindowOutcome::BeyondMaxseq;
        }
        if !self.used || sequence > self.highest {
            self.move_to(sequence);
        } else if self.highest - sequence >= self.size() {
            return WindowOutcome::TooOld;
        }
        self.mark(sequence)
    }

    /// Makes `sequence` the top, and clears the bits of the numbers that enter the window.
    fn move_to(&mut self, sequence: u32) {
        let distance = if self.used { sequence - self.highest } else { self.size() };
        if distance >= self.size() {
            self.words.fill(0);
        } else {
            self.clear(self.highest + 1, distance);
        }
        self.highest = sequence;
        self.used = true;
    }

    /// Clears `count` bits from that of `first` on, a word at a time.
    fn clear(&mut self, first: u32, count: u32) {
        let mut number = first;
        let mut left = count;
        while left > 0 {
            let (word, bit) = self.place(number);
            let step = left.min(WORD_BITS - bit);
            let ones = if step == WORD_BITS { u64::MAX } else { ((1u64 << step) - 1) << bit };
            if let Some(word) = self.words.get_mut(word) {
                *word &= !ones;
            }
            left -= step;
            // At most MAXSEQ plus a word: no overflow.
            number += step;
        }
    }

    fn mark(&mut self, sequence: u32) -> WindowOutcome {
        let (word, bit) = self.place(sequence);
        match self.words.get_mut(word) {
            Some(word) if *word & (1 << bit) == 0 => {
                *word |= 1 << bit;
                WindowOutcome::Accepted
            }
            _ => WindowOutcome::Replayed,
        }
    }

    /// Returns the word and the bit of a number.
    fn place(&self, number: u32) -> (usize, u32) {
        let position = number & (self.size() - 1);
        ((position / WORD_BITS) as usize, position % WORD_BITS)
    }
}

impl Default for SequenceWindow {
    fn default() -> Self {
        Self::new(Self::SIZE_DEFAULT)
    }
}
