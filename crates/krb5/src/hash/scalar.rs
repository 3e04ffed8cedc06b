//! A row of one lane in a general-purpose register. It is the fastest for a single message with
//! SHA-384, since the rotation of BMI2 keeps its operand and so needs no copy.
#![allow(unsafe_code, reason = "kernels use intrinsics and raw pointers")]

use std::arch::x86_64::__m128i;

use super::rows::Row;

/// One lane of 64 bits; needs no special instructions.
#[derive(Clone, Copy)]
pub(crate) struct Row1x64(u64);

impl Row1x64 {
    /// Returns the row and an AES block unchanged. It keeps the AES instructions at their place in
    /// the source, between rounds of the hash.
    #[inline(always)]
    pub(crate) fn hold_with(mut self, mut block: __m128i) -> (Self, __m128i) {
        // SAFETY: the assembly is empty.
        unsafe {
            std::arch::asm!("/* {0} {1} */", inout(reg) self.0, inout(xmm_reg) block,
                options(nostack, nomem, preserves_flags));
        }
        (self, block)
    }
}

impl Row for Row1x64 {
    type Word = u64;
    const LANES: usize = 1;

    #[inline(always)]
    unsafe fn load(from: *const u64) -> Self {
        // SAFETY: the caller guarantees the word; unaligned access is allowed.
        Self(unsafe { from.read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u64) {
        // SAFETY: the caller guarantees the word.
        unsafe { to.write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn read_block(lanes: &[*const u8], at: usize) -> [Self; 16] {
        // SAFETY: the caller guarantees 16 words at offset `at` of the pointer; unaligned access is
        // allowed.
        let words = unsafe { lanes[0].add(at).cast::<[u64; 16]>().read_unaligned() };
        let mut rows = [Self(0); 16];
        for (row, word) in rows.iter_mut().zip(words) {
            *row = Self(u64::from_be(word));
        }
        rows
    }

    #[inline(always)]
    fn hold(self) -> Self {
        self
    }

    #[inline(always)]
    fn fill(self, word: u64) -> Self {
        Self(word)
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    #[inline(always)]
    fn rotate_right(self, bits: u32) -> Self {
        Self(self.0.rotate_right(bits))
    }

    #[inline(always)]
    fn shift_right(self, bits: u32) -> Self {
        Self(self.0 >> bits)
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }

    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        Self(self.0 ^ b.0 ^ c.0)
    }

    #[inline(always)]
    fn choose(self, yes: Self, no: Self) -> Self {
        Self((self.0 & yes.0) ^ (!self.0 & no.0))
    }

    #[inline(always)]
    fn majority(self, b: Self, c: Self) -> Self {
        Self((self.0 & b.0) ^ (c.0 & (self.0 ^ b.0)))
    }

    #[inline(always)]
    fn majority_after(self, b: Self, _: Self, b_xor_c: Self) -> (Self, Self) {
        // If b and c agree, take their bit, else the one of this row.
        let a_xor_b = self.0 ^ b.0;
        (Self(b.0 ^ (a_xor_b & b_xor_c.0)), Self(a_xor_b))
    }
}
