//! The hash kernels for x86-64.
#![allow(unsafe_code, reason = "kernels use intrinsics and raw pointers")]

use super::{Units, avx2, avx512, scalar, sha_ni, sha1_lanes, sha2_lanes};

/// A kernel that hashes blocks of several messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Rows of 512 bits, AVX-512.
    Wide,
    /// Rows of 256 bits with the instructions of AVX-512.
    Narrow,
    /// Rows of 256 bits, AVX2.
    Avx2,
    /// The SHA instructions (SHA-NI); not for SHA-384.
    Sha,
    /// General-purpose registers, one message after the other; only for SHA-384.
    Scalar,
}

impl Way {
    /// All kernels, in the order of their declaration.
    pub(super) const ALL: [Way; 5] = [Way::Wide, Way::Narrow, Way::Avx2, Way::Sha, Way::Scalar];

    /// Returns the kernel with this `Debug` name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| format!("{way:?}") == name)
    }

    /// Returns whether the processor supports this kernel.
    fn is_open(self, units: Units) -> bool {
        match self {
            Way::Wide | Way::Narrow => units.avx512() && units.avx2(),
            Way::Avx2 => units.avx2(),
            Way::Sha => units.sha(),
            Way::Scalar => units.bmi(),
        }
    }
}

macro_rules! hash {
    ($by:ident, $word:ty, $words:literal, $lanes:literal, $block:literal, $wide:ident, $narrow:ident, $avx2:ident,
     [$($few:tt)*]) => {
        /// Hashes the first `blocks` blocks of each lane. Returns whether the kernel supports this
        /// number of lanes.
        pub(super) fn $by(
            way: Way,
            units: Units,
            columns: &mut [[$word; $lanes]; $words],
            lanes: &[&[u8]],
            blocks: usize,
        ) -> bool {
            let half = $lanes / 2;
            if !way.is_open(units) || (matches!(way, Way::Narrow | Way::Avx2) && lanes.len() > half) {
                return false;
            }
            let pointers = pointers::<$lanes>(lanes, $block * blocks);
            match way {
                // SAFETY: the kernel is supported, so the processor has the instructions;
                // `pointers` checked the lengths.
                Way::Wide => unsafe { $wide(columns, &pointers, blocks) },
                // SAFETY: the same.
                Way::Narrow => unsafe { $narrow(columns, &pointers, blocks) },
                // SAFETY: the same.
                Way::Avx2 => unsafe { $avx2(columns, &pointers, blocks) },
                Way::Sha | Way::Scalar => {
                    return few!(way, columns, &pointers[..lanes.len()], blocks, $($few)*);
                }
            }
            true
        }
    };
}

/// The most messages that are interleaved with the SHA instructions; with more, registers run out.
const SHA_GROUP: usize = 6;

/// Runs a kernel for a few messages: the SHA instructions in groups, or the scalar kernel message
/// by message.
macro_rules! few {
    ($way:ident, $columns:ident, $lanes:expr, $blocks:ident, scalar) => {{
        if $way != Way::Scalar {
            return false;
        }
        for (lane, pointer) in $lanes.iter().enumerate() {
            some($columns, lane, |states: &mut [_; 1]| {
                let mut columns = states[0].map(|word| [word]);
                // SAFETY: the kernel is supported, so the processor has the instructions;
                // `pointers` checked the lengths.
                unsafe { sha512_scalar(&mut columns, &[*pointer], $blocks) };
                states[0] = columns.map(|[word]| word);
            });
        }
        true
    }};
    ($way:ident, $columns:ident, $lanes:expr, $blocks:ident, $sha:path) => {{
        if $way != Way::Sha {
            return false;
        }
        // As few groups as possible, of equal size.
        let size = $lanes.len().div_ceil($lanes.len().div_ceil(SHA_GROUP));
        for (group, lanes) in $lanes.chunks(size).enumerate() {
            let first = group * size;
            // SAFETY: the kernel is supported, so the processor has the instructions; `pointers`
            // checked the lengths.
            #[expect(clippy::undocumented_unsafe_blocks, reason = "the comment above holds for every arm")]
            match *lanes {
                [a] => some($columns, first, |states| unsafe { $sha(states, [a], $blocks) }),
                [a, b] => some($columns, first, |states| unsafe { $sha(states, [a, b], $blocks) }),
                [a, b, c] => some($columns, first, |states| unsafe { $sha(states, [a, b, c], $blocks) }),
                [a, b, c, d] => {
                    some($columns, first, |states| unsafe { $sha(states, [a, b, c, d], $blocks) })
                }
                [a, b, c, d, e] => {
                    some($columns, first, |states| unsafe { $sha(states, [a, b, c, d, e], $blocks) });
                }
                [a, b, c, d, e, f] => {
                    some($columns, first, |states| unsafe { $sha(states, [a, b, c, d, e, f], $blocks) });
                }
                _ => {}
            };
        }
        true
    }};
}

hash!(sha1, u32, 5, 16, 64, sha1_wide, sha1_narrow, sha1_avx2, [sha_ni::sha1]);
hash!(sha256, u32, 8, 16, 64, sha256_wide, sha256_narrow, sha256_avx2, [sha_ni::sha256]);
hash!(sha512, u64, 8, 8, 128, sha512_wide, sha512_narrow, sha512_avx2, [scalar]);

/// Changes the states of `N` columns with `change`.
fn some<W: Copy + Default, const N: usize, const WORDS: usize, const LANES: usize>(
    columns: &mut [[W; LANES]; WORDS],
    first: usize,
    change: impl FnOnce(&mut [[W; WORDS]; N]),
) {
    let mut states = [[W::default(); WORDS]; N];
    for (lane, state) in states.iter_mut().enumerate() {
        for (word, column) in state.iter_mut().zip(columns.iter()) {
            *word = column[first + lane];
        }
    }
    change(&mut states);
    for (lane, state) in states.iter().enumerate() {
        for (word, column) in state.iter().zip(columns.iter_mut()) {
            column[first + lane] = *word;
        }
    }
}

/// Returns the pointers of the lanes. Unused entries repeat the first lane.
///
/// # Panics
/// If a lane has fewer than `bytes` bytes, or there are no lanes or too many.
fn pointers<const N: usize>(lanes: &[&[u8]], bytes: usize) -> [*const u8; N] {
    assert!((1..=N).contains(&lanes.len()), "there are {N} lanes");
    assert!(lanes.iter().all(|lane| lane.len() >= bytes), "a lane is shorter than the blocks to take in");
    std::array::from_fn(|n| lanes[if n < lanes.len() { n } else { 0 }].as_ptr())
}

macro_rules! rows {
    ($name:ident, $word:ty, $words:literal, $lanes:literal, $features:literal, $compress:path) => {
        /// # Safety
        /// The processor has the listed features; `blocks` blocks can be read behind each pointer.
        #[target_feature(enable = $features)]
        unsafe fn $name(columns: &mut [[$word; $lanes]; $words], lanes: &[*const u8; $lanes], blocks: usize) {
            // SAFETY: the caller guarantees both.
            unsafe { $compress(columns, lanes, blocks) }
        }
    };
}

use sha1_lanes::compress as sha1_rows;
use sha2_lanes::compress as sha2_rows;

rows!(sha1_wide, u32, 5, 16, "avx512f,avx512bw", sha1_rows::<avx512::Row16x32, 16>);
rows!(sha256_wide, u32, 8, 16, "avx512f,avx512bw", sha2_rows::<avx512::Row16x32, 16>);
rows!(sha512_wide, u64, 8, 8, "avx512f,avx512bw", sha2_rows::<avx512::Row8x64, 8>);
rows!(sha1_narrow, u32, 5, 16, "avx512f,avx512bw,avx512vl,avx2", sha1_rows::<avx512::Row8x32, 16>);
rows!(sha256_narrow, u32, 8, 16, "avx512f,avx512bw,avx512vl,avx2", sha2_rows::<avx512::Row8x32, 16>);
rows!(sha512_narrow, u64, 8, 8, "avx512f,avx512bw,avx512vl,avx2", sha2_rows::<avx512::Row4x64, 8>);
rows!(sha1_avx2, u32, 5, 16, "avx2", sha1_rows::<avx2::Row8x32, 16>);
rows!(sha256_avx2, u32, 8, 16, "avx2", sha2_rows::<avx2::Row8x32, 16>);
rows!(sha512_avx2, u64, 8, 8, "avx2", sha2_rows::<avx2::Row4x64, 8>);
rows!(sha512_scalar, u64, 8, 1, "bmi1,bmi2", sha2_rows::<scalar::Row1x64, 1>);
