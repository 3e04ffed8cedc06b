//! Rows in AVX-512 registers: 512 bits wide, and 256 bits wide for few lanes.
//!
//! Rotation and any function of three bits are one instruction each. Narrow rows run on three
//! ports, wide rows on two: half the lanes in two thirds of the time.
#![allow(unsafe_code, reason = "kernels use intrinsics and raw pointers")]

use core::arch::x86_64::*;

use super::rows::Row;

/// The truth tables of the three-bit functions.
const XOR3: i32 = 0x96;
const CHOOSE: i32 = 0xca;
const MAJORITY: i32 = 0xe8;

/// 16 lanes of 32 bits; needs AVX-512F and AVX-512BW.
#[derive(Clone, Copy)]
pub(crate) struct Row16x32(__m512i);

/// 8 lanes of 64 bits; needs AVX-512F and AVX-512BW.
#[derive(Clone, Copy)]
pub(crate) struct Row8x64(__m512i);

/// 8 lanes of 32 bits; needs AVX-512F, AVX-512BW, AVX-512VL and AVX2.
#[derive(Clone, Copy)]
pub(crate) struct Row8x32(__m256i);

/// 4 lanes of 64 bits; needs AVX-512F, AVX-512BW, AVX-512VL and AVX2.
#[derive(Clone, Copy)]
pub(crate) struct Row4x64(__m256i);

macro_rules! row {
    ($row:ident, $word:ty, $signed:ty, $lanes:literal, $load:ident, $store:ident, $fill:ident, $add:ident, $xor:ident,
     $ror:ident, $shr:ident, $logic:ident, $read:path, $hold:path) => {
        impl Row for $row {
            type Word = $word;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn load(from: *const $word) -> Self {
                // SAFETY: the caller guarantees the instructions and the bytes; unaligned access is
                // allowed.
                Self(unsafe { $load(from.cast()) })
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $word) {
                // SAFETY: the caller guarantees the bytes, `self` proves the instructions.
                unsafe { $store(to.cast(), self.0) }
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
                Self(unsafe { $hold(self.0) })
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
                // SAFETY: `self` exists, so the processor has the instructions. A constant count
                // becomes an immediate operand.
                Self(unsafe { $ror(self.0, $fill(bits as $signed)) })
            }

            #[inline(always)]
            fn shift_right(self, bits: u32) -> Self {
                // SAFETY: as for the rotation.
                Self(unsafe { $shr(self.0, $fill(bits as $signed)) })
            }

            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                // SAFETY: `self` exists, so the processor has the instructions.
                Self(unsafe { $xor(self.0, other.0) })
            }

            #[inline(always)]
            fn xor3(self, b: Self, c: Self) -> Self {
                // SAFETY: `self` exists, so the processor has the instructions.
                Self(unsafe { $logic::<XOR3>(self.0, b.0, c.0) })
            }

            #[inline(always)]
            fn choose(self, yes: Self, no: Self) -> Self {
                // SAFETY: `self` exists, so the processor has the instructions.
                Self(unsafe { $logic::<CHOOSE>(self.0, yes.0, no.0) })
            }

            #[inline(always)]
            fn majority(self, b: Self, c: Self) -> Self {
                // SAFETY: `self` exists, so the processor has the instructions.
                Self(unsafe { $logic::<MAJORITY>(self.0, b.0, c.0) })
            }
        }
    };
}

row!(
    Row16x32,
    u32,
    i32,
    16,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    _mm512_set1_epi32,
    _mm512_add_epi32,
    _mm512_xor_si512,
    _mm512_rorv_epi32,
    _mm512_srlv_epi32,
    _mm512_ternarylogic_epi32,
    read_16x32,
    hold
);
row!(
    Row8x64,
    u64,
    i64,
    8,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    _mm512_set1_epi64,
    _mm512_add_epi64,
    _mm512_xor_si512,
    _mm512_rorv_epi64,
    _mm512_srlv_epi64,
    _mm512_ternarylogic_epi64,
    read_8x64,
    hold
);
row!(
    Row8x32,
    u32,
    i32,
    8,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_set1_epi32,
    _mm256_add_epi32,
    _mm256_xor_si256,
    _mm256_rorv_epi32,
    _mm256_srlv_epi32,
    _mm256_ternarylogic_epi32,
    super::avx2::read_8x32,
    super::avx2::hold
);
row!(
    Row4x64,
    u64,
    i64,
    4,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_set1_epi64x,
    _mm256_add_epi64,
    _mm256_xor_si256,
    _mm256_rorv_epi64,
    _mm256_srlv_epi64,
    _mm256_ternarylogic_epi64,
    super::avx2::read_4x64,
    super::avx2::hold
);

/// Returns the row unchanged. It is a barrier against reordering of sums by the compiler.
///
/// # Safety
/// The processor has AVX-512F.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn hold(mut row: __m512i) -> __m512i {
    // SAFETY: the assembly is empty.
    unsafe {
        core::arch::asm!("/* {0} */", inout(zmm_reg) row, options(pure, nomem, nostack, preserves_flags));
    }
    row
}

/// Reads 64 bytes of each of 16 lanes and transposes them: row `n` holds word `n` of each lane.
///
/// # Safety
/// The processor has AVX-512F and AVX-512BW; `lanes` has 16 pointers with 64 bytes at offset `at`
/// of each.
#[inline(always)]
unsafe fn read_16x32(lanes: &[*const u8], at: usize) -> [__m512i; 16] {
    // SAFETY: the caller guarantees the instructions and 64 bytes behind each of the 16 pointers.
    unsafe {
        let order = byte_order_32();
        let mut rows = [_mm512_setzero_si512(); 16];
        // Groups of lanes l, l + 4, l + 8 and l + 12: quarter q of `four[l][q]` holds words 4 q to
        // 4 q + 3.
        let mut four = [[_mm512_setzero_si512(); 4]; 4];
        for l in 0..4 {
            four[l] = turn_quarters(load_four(&lanes[l..], 4, at, order));
        }
        for q in 0..4 {
            let (a, b, c, d) = (four[0][q], four[1][q], four[2][q], four[3][q]);
            let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
            rows[4 * q] = _mm512_unpacklo_epi64(ab_low, cd_low);
            rows[4 * q + 1] = _mm512_unpackhi_epi64(ab_low, cd_low);
            rows[4 * q + 2] = _mm512_unpacklo_epi64(ab_high, cd_high);
            rows[4 * q + 3] = _mm512_unpackhi_epi64(ab_high, cd_high);
        }
        rows
    }
}

/// Reads 128 bytes of each of 8 lanes and transposes them: row `n` holds word `n` of each lane.
///
/// # Safety
/// The processor has AVX-512F and AVX-512BW; `lanes` has 8 pointers with 128 bytes at offset `at`
/// of each.
#[inline(always)]
unsafe fn read_8x64(lanes: &[*const u8], at: usize) -> [__m512i; 16] {
    // SAFETY: the caller guarantees the instructions and 128 bytes behind each of the 8 pointers.
    unsafe {
        let mut rows = [_mm512_setzero_si512(); 16];
        let order = byte_order_64();
        for half in 0..2 {
            let even = turn_quarters(load_four(lanes, 2, at + 64 * half, order));
            let odd = turn_quarters(load_four(&lanes[1..], 2, at + 64 * half, order));
            for q in 0..4 {
                rows[8 * half + 2 * q] = _mm512_unpacklo_epi64(even[q], odd[q]);
                rows[8 * half + 2 * q + 1] = _mm512_unpackhi_epi64(even[q], odd[q]);
            }
        }
        rows
    }
}

/// Reads 64 bytes of each of four lanes, `step` lanes apart, and orders their bytes.
///
/// # Safety
/// The processor has AVX-512F; 64 bytes can be read at offset `at` of each of the pointers.
#[inline(always)]
unsafe fn load_four(lanes: &[*const u8], step: usize, at: usize, order: __m512i) -> [__m512i; 4] {
    // SAFETY: the caller guarantees the instructions, the pointers and the bytes behind them.
    unsafe {
        [
            _mm512_shuffle_epi8(_mm512_loadu_si512(lanes[0].add(at).cast()), order),
            _mm512_shuffle_epi8(_mm512_loadu_si512(lanes[step].add(at).cast()), order),
            _mm512_shuffle_epi8(_mm512_loadu_si512(lanes[2 * step].add(at).cast()), order),
            _mm512_shuffle_epi8(_mm512_loadu_si512(lanes[3 * step].add(at).cast()), order),
        ]
    }
}

/// Transposes four rows of four quarters of 128 bits.
///
/// # Safety
/// The processor has AVX-512F.
#[inline(always)]
unsafe fn turn_quarters([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        let ab_low = _mm512_shuffle_i32x4::<0b01_00_01_00>(a, b);
        let ab_high = _mm512_shuffle_i32x4::<0b11_10_11_10>(a, b);
        let cd_low = _mm512_shuffle_i32x4::<0b01_00_01_00>(c, d);
        let cd_high = _mm512_shuffle_i32x4::<0b11_10_11_10>(c, d);
        [
            _mm512_shuffle_i32x4::<0b10_00_10_00>(ab_low, cd_low),
            _mm512_shuffle_i32x4::<0b11_01_11_01>(ab_low, cd_low),
            _mm512_shuffle_i32x4::<0b10_00_10_00>(ab_high, cd_high),
            _mm512_shuffle_i32x4::<0b11_01_11_01>(ab_high, cd_high),
        ]
    }
}

/// Returns the byte order that converts big-endian words of 32 bits to native ones.
///
/// # Safety
/// The processor has AVX-512F.
#[inline(always)]
unsafe fn byte_order_32() -> __m512i {
    // SAFETY: the caller guarantees the instructions.
    unsafe { _mm512_set4_epi32(0x0c0d_0e0f, 0x0809_0a0b, 0x0405_0607, 0x0001_0203) }
}

/// Returns the byte order that converts big-endian words of 64 bits to native ones.
///
/// # Safety
/// The processor has AVX-512F.
#[inline(always)]
unsafe fn byte_order_64() -> __m512i {
    // SAFETY: the caller guarantees the instructions.
    unsafe { _mm512_set4_epi32(0x0809_0a0b, 0x0c0d_0e0f, 0x0001_0203, 0x0405_0607) }
}
