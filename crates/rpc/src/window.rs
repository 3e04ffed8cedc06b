//! The window of sequence numbers of a security context (RFC 2203 section 5.3.3.1).

use crate::generated::MAXSEQ;

const WORD_BITS: u32 = u64::BITS;

/// What a [`SequenceWindow`] says of a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum WindowOutcome {
    /// Not seen before; it is now.
    Accepted,
    /// Seen before: to be discarded in silence.
    Replayed,
    /// Below the window, so that nobody knows whether it was seen: to be discarded in silence.
    TooOld,
    /// Above [`MAXSEQ`](crate::MAXSEQ): RPCSEC_GSS_CTXPROBLEM (RFC 2203 section 5.3.3.3).
    BeyondMaxseq,
}

/// Remembers which sequence numbers of a context have been used.
///
/// The window is the last `size` numbers up to the largest one accepted. Verify the MIC of the call's
/// header before asking: what is accepted moves the window, and a forged number would push valid calls out.
///
/// Numbers do not wrap: they end at [`MAXSEQ`](crate::MAXSEQ). The bottom of a window that is not yet `size` numbers above
/// zero is zero.
#[derive(Clone, Debug)]
pub struct SequenceWindow {
    /// One bit a number, at the number modulo the size; a set bit says that the number was seen.
    words: Box<[u64]>,
    /// The largest number accepted; meaningless before the first.
    highest: u32,
    used: bool,
}

impl SequenceWindow {
    /// The default size: a quarter of a million calls a second may overtake each other by 30 milliseconds,
    /// and a context pays one kilobyte for it.
    pub const SIZE_DEFAULT: u32 = 8192;

    /// The largest size, 128 KiB of memory.
    pub const SIZE_MAX: u32 = 1 << 20;

    /// Makes a window of `size` numbers, rounded up to a power of two between 64 and [`Self::SIZE_MAX`].
    pub fn new(size: u32) -> Self {
        let size = size.clamp(WORD_BITS, Self::SIZE_MAX).next_power_of_two();
        Self { words: vec![0; (size / WORD_BITS) as usize].into_boxed_slice(), highest: 0, used: false }
    }

    /// The number of sequence numbers that may be outstanding: what INIT tells the client.
    pub fn size(&self) -> u32 {
        // Bounded by SIZE_MAX in the constructor.
        (self.words.len() as u32) * WORD_BITS
    }

    /// Tells by how many numbers `sequence` is behind the largest one accepted so far; 0 when it is ahead.
    pub fn lag(&self, sequence: u32) -> u32 {
        if self.used { self.highest.saturating_sub(sequence) } else { 0 }
    }

    /// Decides on a sequence number whose header has been verified, and remembers it when accepted.
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

    /// Makes `sequence` the top. The places of the numbers that come into the window are cleared.
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

    /// Clears `count` places from that of `first` on, a word at a time.
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

    /// The word and the bit that stand for a number.
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
