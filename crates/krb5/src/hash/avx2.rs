//! Rows in the registers of AVX2: 8 lanes of 32 bits, 4 lanes of 64 bits.
#![allow(unsafe_code, reason = "kernels use intrinsics and raw pointers")]

use core::arch::x86_64::*;

use super::rows::Row;

/// 8 lanes of 32 bits; needs AVX2.
#[derive(Clone, Copy)]
pub(crate) struct Row8x32(__m256i);

/// 4 lanes of 64 bits; needs AVX2.
#[derive(Clone, Copy)]
pub(crate) struct Row4x64(__m256i);

macro_rules! row {
    ($row:ident, $word:ty, $signed:ty, $lanes:literal, $fill:ident, $add:ident, $shr:ident, $shl:ident,
     $read:ident) => {
        impl Row for $row {
            type Word = $word;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn load(from: *const $word) -> Self {
                // SAFETY: the caller guarantees the instructions and the bytes; unaligned access is
                // allowed.
                Self(unsafe { _mm256_loadu_si256(from.cast()) })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $word) {
                // SAFETY: the caller guarantees the bytes, `self` proves the instructions.
                unsafe { _mm256_storeu_si256(to.cast(), self.0) }
            }

            #[inline(always)]
            unsafe fn read_block(lanes: &[*const u8], at: usize) -> [Self; 16] {
                // SAFETY: the caller guarantees the instructions, the pointers and the bytes behind
                // them.
                let read = unsafe { $read(lanes, at) };
                let mut rows = [Self(read[0]); 16];
                for (row, read) in rows.iter_mut().zip(read) {
                    *row = Self(read);
                }
                rows
            }

            #[inline(always)]
            fn hold(self) -> Self {
                // SAFETY: `self` exists, so the processor has the instructions.
                Self(unsafe { hold(self.0) })
            }

            #[inline(always)]
            fn fill(self, word: $word) -> Self {
                // SAFETY: `self` exists, so the processor has the instructions.
                Self(unsafe { $fill(word as $signed) })
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                // SAFETY: `self` exists, so the processor has the instructions.
                Self(unsafe { $add(self.0, other.0) })
            }

            #[inline(always)]
            fn rotate_right(self, bits: u32) -> Self {
                let left = <$word>::BITS - bits;
                // SAFETY: `self` exists, so the processor has the instructions. A constant count
                // becomes an immediate operand.
                unsafe {
                    let low = $shr(self.0, $fill(bits as $signed));
                    let high = $shl(self.0, $fill(left as $signed));
                    Self(_mm256_or_si256(low, high))
                }
            }

            #[inline(always)]
            fn shift_right(self, bits: u32) -> Self {
                // SAFETY: as for the rotation.
                Self(unsafe { $shr(self.0, $fill(bits as $signed)) })
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                // SAFETY: `self` exists, so the processor has the instructions.
                Self(unsafe { _mm256_xor_si256(self.0, other.0) })
            }

            #[inline(always)]
            fn xor3(self, b: Self, c: Self) -> Self {
                // SAFETY: `self` exists, so the processor has the instructions.
                Self(unsafe { _mm256_xor_si256(_mm256_xor_si256(self.0, b.0), c.0) })
            }

            #[inline(always)]
            fn choose(self, yes: Self, no: Self) -> Self {
                // SAFETY: `self` exists, so the processor has the instructions.
                unsafe {
                    let differ = _mm256_xor_si256(yes.0, no.0);
                    Self(_mm256_xor_si256(no.0, _mm256_and_si256(self.0, differ)))
                }
            }

            #[inline(always)]
            fn majority(self, b: Self, c: Self) -> Self {
                // SAFETY: `self` exists, so the processor has the instructions.
                unsafe {
                    // If the first two agree, take their bit, else the third one.
                    let differ = _mm256_xor_si256(self.0, b.0);
                    let third = _mm256_and_si256(differ, c.0);
                    Self(_mm256_or_si256(third, _mm256_and_si256(self.0, b.0)))
                }
            }

            #[inline(always)]
            fn majority_after(self, b: Self, _: Self, b_xor_c: Self) -> (Self, Self) {
                // If b and c agree, take their bit, else the one of this row.
                let a_xor_b = self.xor(b);
                // SAFETY: `self` exists, so the processor has the instructions.
                let differ = Self(unsafe { _mm256_and_si256(a_xor_b.0, b_xor_c.0) });
                (b.xor(differ), a_xor_b)
            }
        }
    };
}

row!(
    Row8x32,
    u32,
    i32,
    8,
    _mm256_set1_epi32,
    _mm256_add_epi32,
    _mm256_srlv_epi32,
    _mm256_sllv_epi32,
    read_8x32
);
row!(
    Row4x64,
    u64,
    i64,
    4,
    _mm256_set1_epi64x,
    _mm256_add_epi64,
    _mm256_srlv_epi64,
    _mm256_sllv_epi64,
    read_4x64
);

/// Returns the row unchanged. It is a barrier against reordering of sums by the compiler.
///
/// # Safety
/// The processor has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn hold(mut row: __m256i) -> __m256i {
    // SAFETY: the assembly is empty.
    unsafe {
        core::arch::asm!("/* {0} */", inout(ymm_reg) row, options(pure, nomem, nostack, preserves_flags));
    }
    row
}

/// Reads 64 bytes of each of 8 lanes and transposes them: row `n` holds word `n` of each lane.
///
/// # Safety
/// The processor has AVX2; `lanes` has 8 pointers with 64 bytes at offset `at` of each.
#[inline(always)]
pub(super) unsafe fn read_8x32(lanes: &[*const u8], at: usize) -> [__m256i; 16] {
    // SAFETY: the caller guarantees the instructions and 64 bytes behind each of the 8 pointers.
    unsafe {
        let mut rows = [_mm256_setzero_si256(); 16];
        let order = _mm256_setr_epi32(
            0x0001_0203,
            0x0405_0607,
            0x0809_0a0b,
            0x0c0d_0e0f,
            0x0001_0203,
            0x0405_0607,
            0x0809_0a0b,
            0x0c0d_0e0f,
        );
        for quarter in 0..4 {
            // Lane l in the lower half, lane l + 4 in the upper: no shuffle has to cross the
            // halves.
            let from = at + 16 * quarter;
            let (a, b) = (read_pair(lanes[0], lanes[4], from), read_pair(lanes[1], lanes[5], from));
            let (c, d) = (read_pair(lanes[2], lanes[6], from), read_pair(lanes[3], lanes[7], from));
            let (ab_low, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
            let (cd_low, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
            rows[4 * quarter] = _mm256_shuffle_epi8(_mm256_unpacklo_epi64(ab_low, cd_low), order);
            rows[4 * quarter + 1] = _mm256_shuffle_epi8(_mm256_unpackhi_epi64(ab_low, cd_low), order);
            rows[4 * quarter + 2] = _mm256_shuffle_epi8(_mm256_unpacklo_epi64(ab_high, cd_high), order);
            rows[4 * quarter + 3] = _mm256_shuffle_epi8(_mm256_unpackhi_epi64(ab_high, cd_high), order);
        }
        rows
    }
}

/// Reads 128 bytes of each of 4 lanes and transposes them: row `n` holds word `n` of each lane.
///
/// # Safety
/// The processor has AVX2; `lanes` has 4 pointers with 128 bytes at offset `at` of each.
#[inline(always)]
pub(super) unsafe fn read_4x64(lanes: &[*const u8], at: usize) -> [__m256i; 16] {
    // SAFETY: the caller guarantees the instructions and 128 bytes behind each of the 4 pointers.
    unsafe {
        let mut rows = [_mm256_setzero_si256(); 16];
        let order = _mm256_setr_epi32(
            0x0405_0607,
            0x0001_0203,
            0x0c0d_0e0f,
            0x0809_0a0b,
            0x0405_0607,
            0x0001_0203,
            0x0c0d_0e0f,
            0x0809_0a0b,
        );
        for eighth in 0..8 {
            let from = at + 16 * eighth;
            let (a, b) = (read_pair(lanes[0], lanes[2], from), read_pair(lanes[1], lanes[3], from));
            rows[2 * eighth] = _mm256_shuffle_epi8(_mm256_unpacklo_epi64(a, b), order);
            rows[2 * eighth + 1] = _mm256_shuffle_epi8(_mm256_unpackhi_epi64(a, b), order);
        }
        rows
    }
}

/// Reads 16 bytes of one lane into the lower half and 16 bytes of another into the upper half.
///
/// # Safety
/// The processor has AVX2; 16 bytes can be read at offset `at` of each pointer.
#[inline(always)]
unsafe fn read_pair(low: *const u8, high: *const u8, at: usize) -> __m256i {
    // SAFETY: the caller guarantees the instructions and the bytes.
    unsafe { _mm256_loadu2_m128i(high.add(at).cast(), low.add(at).cast()) }
}
