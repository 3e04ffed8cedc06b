//! AES on x86-64, many messages at once.
//!
//! | | encrypts | decrypts |
//! |---|---|---|
//! | `avx512` | 4, 8 or 16 chains, four to a register | 16 blocks at a time |
//! | `avx2` | 2, 4, 8 or 16 chains, two to a register | 16 blocks at a time |
//! | `aesni` | 1, 2, 4 or 8 chains, one to a register | 8 blocks at a time |
//!
//! `fused` hashes and encrypts in one go, `stitched` does so for a message that is alone.
//!
//! This folder is where the crate is not safe Rust: the functions behind it take pointers, since a register
//! gathers blocks of several messages. What they are promised is checked here.
#![allow(unsafe_code)]
// Registers of one step are named by number, several arrays at a time.
#![allow(clippy::needless_range_loop)]

mod aesni;
mod avx2;
mod avx512;
mod fused;
mod lanes;
mod stitched;

pub(crate) use lanes::{CbcLane, SealLane};

use crate::{
    Cpu,
    cipher::{BLOCK, LANES, RoundKeys, UNIT},
};
use lanes::Pointers;

/// Fewer blocks than this are not worth laying the keys of the lanes out side by side.
const WIDE_BLOCKS: usize = 4;

/// Encrypts the first `blocks` blocks of each of up to [`LANES`] lanes, with `R` rounds.
///
/// # Panics
/// If a lane is shorter, or the processor cannot do `cpu`.
pub(crate) fn encrypt<'l, const R: usize>(cpu: Cpu, lanes: impl Iterator<Item = CbcLane<'l>>, blocks: usize) {
    assert!(cpu.is_available() && cpu != Cpu::Portable);
    let lanes = Pointers::of(lanes, blocks * BLOCK);
    let count = lanes.count;
    // SAFETY: the processor has the instructions of `cpu`, those of the smaller sets too; the pointers are good
    // for `blocks` blocks as long as the lanes are borrowed.
    unsafe {
        match cpu {
            _ if count == 0 || blocks == 0 => {}
            Cpu::Avx512 if count > 1 && blocks >= WIDE_BLOCKS => match count {
                2..=4 => avx512::encrypt::<R, 1>(&lanes, blocks),
                5..=8 => avx512::encrypt::<R, 2>(&lanes, blocks),
                _ => avx512::encrypt::<R, 4>(&lanes, blocks),
            },
            Cpu::Avx2 if count > 1 && blocks >= WIDE_BLOCKS => match count {
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

/// Decrypts whole blocks with `R` rounds; `chain` is the ciphertext before them and becomes their last.
///
/// # Panics
/// If the processor cannot do `cpu`.
pub(crate) fn decrypt<const R: usize>(
    cpu: Cpu,
    keys: &RoundKeys,
    chain: &mut [u8; BLOCK],
    data: &mut [[u8; BLOCK]],
) {
    assert!(cpu.is_available() && cpu != Cpu::Portable);
    let Some(&last) = data.last() else { return };
    let (at, blocks) = (data.as_mut_ptr().cast::<u8>(), data.len());
    // SAFETY: the processor has the instructions of `cpu`; `at` is good for `blocks` blocks.
    unsafe {
        match cpu {
            Cpu::Avx512 => avx512::decrypt::<R>(keys, chain, at, blocks),
            Cpu::Avx2 => avx2::decrypt::<R>(keys, chain, at, blocks),
            _ => aesni::decrypt::<R>(keys, chain, at, blocks),
        }
    }
    *chain = last;
}

/// From how many messages on the fused code of AVX-512 wins over hashing and encrypting one after the other: it
/// takes the same time for any number of lanes.
const FUSED_LANES: usize = 6;

/// Returns whether SHA-1 and AES go together for so many messages.
pub(crate) fn fuses(cpu: Cpu, messages: usize) -> bool {
    match messages {
        0 => false,
        1 => cpu != Cpu::Portable && std::arch::is_x86_feature_detected!("sha"),
        2..FUSED_LANES => false,
        _ => cpu == Cpu::Avx512,
    }
}

/// Hashes the first `units` units of each lane and encrypts them then.
///
/// # Panics
/// If a lane is shorter, or [`fuses`] says no for so many lanes.
pub(crate) fn seal<'l, const R: usize>(cpu: Cpu, lanes: impl Iterator<Item = SealLane<'l>>, units: usize) {
    let mut states = [const { None }; LANES];
    let lanes = Pointers::and_states(lanes, &mut states, units * UNIT);
    assert!(cpu.is_available() && fuses(cpu, lanes.count));
    // SAFETY: the processor has what is needed, as `fuses` found; the pointers are good for `units` units.
    unsafe {
        match &mut states[..lanes.count] {
            [Some(state)] => stitched::seal::<R>(&lanes, state, units),
            states => fused::seal::<R>(&lanes, states, units),
        }
    }
}

/// Decrypts the first `units` units of each of several lanes and hashes them then.
///
/// # Panics
/// If a lane is shorter, or there are too few, or the processor has no AVX-512.
pub(crate) fn open<'l, const R: usize>(cpu: Cpu, lanes: impl Iterator<Item = SealLane<'l>>, units: usize) {
    let mut states = [const { None }; LANES];
    let lanes = Pointers::and_states(lanes, &mut states, units * UNIT);
    assert!(cpu.is_available() && lanes.count > 1 && fuses(cpu, lanes.count));
    // SAFETY: the processor has what is needed, as `fuses` found; the pointers are good for `units` units.
    unsafe { fused::open::<R>(&lanes, &mut states[..lanes.count], units) }
}
