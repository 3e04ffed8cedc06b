//! AES kernels for x86-64 that process many messages at once.
//!
//! | module | encryption | decryption |
//! |---|---|---|
//! | `avx512` | 4, 8 or 16 chains, four per register | 16 blocks at a time |
//! | `avx2` with VAES | 2, 4, 8 or 16 chains, two per register | 16 blocks at a time |
//! | `aesni`, `avx2` | 1, 2, 4 or 8 chains, one per register | 8 blocks at a time |
//!
//! `fused` hashes and encrypts sixteen messages in one pass, and `stitched` a few. `stitched_sha2`
//! encrypts, then hashes the ciphertext.
//!
//! The kernels are unsafe functions that take pointers, since a register gathers blocks of several
//! messages. This file checks their requirements.
#![allow(unsafe_code, reason = "kernels use intrinsics and raw pointers")]
#![allow(clippy::needless_range_loop, reason = "registers of a step share the index in several arrays")]

mod aesni;
mod avx2;
mod avx512;
mod fused;
mod lanes;
mod stitched;
mod stitched_sha2;

pub(crate) use lanes::{CbcLane, SealLane};

use crate::{
    Cpu,
    cipher::{BLOCK, LANES, RoundKeys, UNIT},
    hash::{Hash, Maker, Sha256, Sha384},
};
use lanes::Pointers;

/// The fewest blocks for which interleaving the keys of the lanes is worth its cost.
const WIDE_BLOCKS: usize = 4;

/// Encrypts the first `blocks` blocks of each of up to [`LANES`] lanes, with `R` rounds.
///
/// # Panics
/// If a lane is shorter, or the processor lacks `cpu`.
pub(crate) fn encrypt<'l, const R: usize>(cpu: Cpu, lanes: impl Iterator<Item = CbcLane<'l>>, blocks: usize) {
    assert!(cpu.is_available() && cpu != Cpu::Portable);
    let lanes = Pointers::of(lanes, blocks * BLOCK);
    let count = lanes.count;
    // SAFETY: the processor has the instructions of `cpu` and of the smaller sets; the pointers are
    // valid for `blocks` blocks as long as the lanes are borrowed.
    unsafe {
        match cpu {
            _ if count == 0 || blocks == 0 => {}
            Cpu::Avx512 if count > 1 && blocks >= WIDE_BLOCKS => match count {
                2..=4 => avx512::encrypt::<R, 1>(&lanes, blocks),
                5..=8 => avx512::encrypt::<R, 2>(&lanes, blocks),
                _ => avx512::encrypt::<R, 4>(&lanes, blocks),
            },
            Cpu::Avx2 if count > 1 && blocks >= WIDE_BLOCKS && has_vaes() => match count {
                2 => avx2::encrypt::<R, 1>(&lanes, blocks),
                3..=4 => avx2::encrypt::<R, 2>(&lanes, blocks),
                5..=8 => avx2::encrypt::<R, 4>(&lanes, blocks),
                _ => avx2::encrypt::<R, 8>(&lanes, blocks),
            },
            _ => {
                for first in (0..count).step_by(8) {
                    match count - first {
                        1 => aesni::encrypt::<R, 1>(&lanes, first, blocks),
                        2 => aesni::encrypt::<R, 2>(&lanes, first, blocks),
                        3..=4 => aesni::encrypt::<R, 4>(&lanes, first, blocks),
                        _ => aesni::encrypt::<R, 8>(&lanes, first, blocks),
                    }
                }
            }
        }
    }
}

/// Decrypts whole blocks with `R` rounds. `chain` is the ciphertext block before them, and is set
/// to their last one.
///
/// # Panics
/// If the processor lacks `cpu`.
pub(crate) fn decrypt<const R: usize>(
    cpu: Cpu,
    keys: &RoundKeys,
    chain: &mut [u8; BLOCK],
    data: &mut [[u8; BLOCK]],
) {
    assert!(cpu.is_available() && cpu != Cpu::Portable);
    let Some(&last) = data.last() else { return };
    let (at, blocks) = (data.as_mut_ptr().cast::<u8>(), data.len());
    // SAFETY: the processor has the instructions of `cpu`; `at` is valid for `blocks` blocks.
    unsafe {
        match cpu {
            Cpu::Avx512 => avx512::decrypt::<R>(keys, chain, at, blocks),
            Cpu::Avx2 if has_vaes() => avx2::decrypt::<R>(keys, chain, at, blocks),
            _ => aesni::decrypt::<R>(keys, chain, at, blocks),
        }
    }
    *chain = last;
}

/// Returns whether AES works on registers of 256 bits. Processors with AVX2 from before 2019 have
/// AES for one block at a time only.
fn has_vaes() -> bool {
    std::arch::is_x86_feature_detected!("vaes")
}

/// A kernel that hashes and encrypts in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    /// Sixteen messages in rows of 512 bits. The time does not depend on their number.
    Wide,
    /// AES interleaved with the SHA instructions, for a few messages.
    Stitched,
}

impl Kernel {
    /// Returns the fastest kernel for this number of messages, if there is one. The threshold of
    /// [`Kernel::Wide`] was measured on a Zen 5 and on a Sapphire Rapids.
    fn of(cpu: Cpu, messages: usize) -> Option<Self> {
        let wide_from = if Maker::here() == Maker::Amd { 7 } else { 6 };
        let kernel =
            if Kernel::Wide.is_open(cpu) && messages >= wide_from { Kernel::Wide } else { Kernel::Stitched };
        (messages > 0 && kernel.is_open(cpu)).then_some(kernel)
    }

    /// Returns whether the processor supports the kernel with `cpu`.
    fn is_open(self, cpu: Cpu) -> bool {
        match self {
            Kernel::Wide => cpu == Cpu::Avx512,
            Kernel::Stitched => cpu != Cpu::Portable && std::arch::is_x86_feature_detected!("sha"),
        }
    }
}

/// Returns whether SHA-1 and AES run in one pass for this number of messages.
pub(crate) fn fuses(cpu: Cpu, messages: usize) -> bool {
    Kernel::of(cpu, messages).is_some()
}

/// Hashes the first `units` units of each lane, then encrypts them.
///
/// # Panics
/// If a lane is shorter, or [`fuses`] returns false for this number of lanes.
pub(crate) fn seal<'l, const R: usize>(
    cpu: Cpu,
    lanes: impl Iterator<Item = SealLane<'l, [u32; 5]>>,
    units: usize,
) {
    let mut states = [const { None }; LANES];
    let lanes = Pointers::and_states(lanes, &mut states, units * UNIT);
    #[expect(clippy::expect_used, reason = "the caller asked `fuses` first")]
    let kernel = Kernel::of(cpu, lanes.count).expect("hash and cipher go together for so many lanes");
    seal_by::<R>(kernel, cpu, &lanes, &mut states[..lanes.count], units);
}

/// Does the same with a given kernel, for at least one lane.
///
/// # Panics
/// If the processor does not support the kernel.
fn seal_by<const R: usize>(
    kernel: Kernel,
    cpu: Cpu,
    lanes: &Pointers,
    states: &mut [Option<&mut [u32; 5]>],
    units: usize,
) {
    assert!(cpu.is_available() && kernel.is_open(cpu) && states.len() == lanes.count);
    if kernel == Kernel::Wide {
        // SAFETY: the processor has AVX-512 and VAES; the pointers are valid for `units` units.
        unsafe { fused::seal::<R>(lanes, states, units) }
        return;
    }
    // As few groups as possible, of equal size.
    let size = lanes.count.div_ceil(lanes.count.div_ceil(stitched::GROUP));
    for (group, states) in states.chunks_mut(size).enumerate() {
        let first = group * size;
        // SAFETY: the processor has AES-NI and the SHA instructions; the pointers are valid for
        // `units` units, and there is one for each state.
        unsafe {
            match states.len() {
                1 => stitched::seal::<R, 1>(lanes, first, states, units),
                2 => stitched::seal::<R, 2>(lanes, first, states, units),
                3 => stitched::seal::<R, 3>(lanes, first, states, units),
                _ => stitched::seal::<R, 4>(lanes, first, states, units),
            }
        }
    }
}

/// Returns whether AES and SHA-256 run in one pass for this number of messages: as long as the SHA
/// instructions are the fastest.
pub(crate) fn fuses_sha256(cpu: Cpu, messages: usize) -> bool {
    let most = match (cpu, Maker::here()) {
        (Cpu::Avx512, Maker::Amd) => 8,
        (Cpu::Avx512, Maker::Other) => 6,
        _ => LANES,
    };
    (1..=most).contains(&messages) && Kernel::Stitched.is_open(cpu)
}

/// Encrypts the first `units` units (64 bytes) of each lane and hashes the ciphertext with SHA-256.
///
/// # Panics
/// If a lane is shorter, or the processor does not support this with `cpu`.
pub(crate) fn seal_sha256<'l, const R: usize>(
    cpu: Cpu,
    lanes: impl Iterator<Item = SealLane<'l, [u32; 8]>>,
    units: usize,
) {
    let mut states = [const { None }; LANES];
    let lanes = Pointers::and_states(lanes, &mut states, units * Sha256::BLOCK);
    assert!(cpu.is_available() && Kernel::Stitched.is_open(cpu) && lanes.count > 0);
    let size = lanes.count.div_ceil(lanes.count.div_ceil(stitched::GROUP));
    for (group, states) in states[..lanes.count].chunks_mut(size).enumerate() {
        let first = group * size;
        // SAFETY: the processor has AES-NI and the SHA instructions; the pointers are valid for
        // `units` units, and there is one for each state.
        unsafe {
            match states.len() {
                1 => stitched_sha2::seal_sha256::<R, 1>(&lanes, first, states, units),
                2 => stitched_sha2::seal_sha256::<R, 2>(&lanes, first, states, units),
                3 => stitched_sha2::seal_sha256::<R, 3>(&lanes, first, states, units),
                _ => stitched_sha2::seal_sha256::<R, 4>(&lanes, first, states, units),
            }
        }
    }
}

/// Returns whether AES and SHA-384 run in one pass for this number of messages: only for one, whose
/// hash uses general-purpose registers.
pub(crate) fn fuses_sha384(cpu: Cpu, messages: usize) -> bool {
    use std::arch::is_x86_feature_detected as has;
    messages == 1 && cpu != Cpu::Portable && has!("bmi1") && has!("bmi2")
}

/// Encrypts the first `units` units (128 bytes) of one lane and hashes the ciphertext with SHA-384.
///
/// # Panics
/// If the lane is shorter, if there are others, or if the processor does not support this with
/// `cpu`.
pub(crate) fn seal_sha384<'l, const R: usize>(
    cpu: Cpu,
    lanes: impl Iterator<Item = SealLane<'l, [u64; 8]>>,
    units: usize,
) {
    let mut states = [const { None }; LANES];
    let lanes = Pointers::and_states(lanes, &mut states, units * Sha384::BLOCK);
    const { assert!(R == 14, "RFC 8009 section 5 has SHA-384 with keys of 256 bits only") };
    assert!(cpu.is_available() && fuses_sha384(cpu, lanes.count));
    if let Some(state) = &mut states[0] {
        // SAFETY: the processor has AES-NI, BMI1 and BMI2; the pointers are valid for `units`
        // units.
        unsafe { stitched_sha2::seal_sha384(&lanes, state, units) }
    }
}

#[cfg(test)]
mod tests;
