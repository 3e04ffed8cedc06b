//! Compares every kernel that hashes and encrypts with the crates `aes`, `sha1` and `sha2`.

use aes::cipher::{BlockCipherEncrypt, KeyInit};

use super::*;
use crate::{
    hash::{Hash, Sha1},
    portable::xor,
};

/// The input of a kernel, or its expected result.
#[derive(Clone, PartialEq)]
struct KernelBlocks<T> {
    chain: [u8; BLOCK],
    state: T,
    data: Vec<u8>,
}

struct KernelCase<H: Hash> {
    keys: RoundKeys,
    work: KernelBlocks<H::State>,
    expected: KernelBlocks<H::State>,
}

/// Makes a message for a lane, with its own key, chain and state.
fn case<H: Hash>(lane: usize, units: usize) -> KernelCase<H> {
    let key: [u8; 32] = std::array::from_fn(|n| (n * 7 + lane) as u8);
    // Longer than the units, and at an odd address, as tokens are.
    let len = lane + units * H::BLOCK + 5;
    let data: Vec<u8> = (0..len).map(|n| ((n * n + 11 * n + lane) % 251) as u8).collect();
    let mut state = H::INITIAL;
    H::compress(&mut state, &[lane as u8; 128][..H::BLOCK]);
    let work = KernelBlocks { chain: [lane as u8; BLOCK], state, data };
    let KernelBlocks { mut chain, mut state, mut data } = work.clone();
    let library = aes::Aes256Enc::new(&key.into());
    let units = &mut data[lane..lane + units * H::BLOCK];
    // RFC 3962 hashes the plaintext, RFC 8009 the ciphertext.
    let plain_is_hashed = H::DIGEST == Sha1::DIGEST;
    if plain_is_hashed {
        H::compress(&mut state, units);
    }
    for block in units.as_chunks_mut::<BLOCK>().0 {
        let mut next: crate::cipher::Block = xor(*block, chain).into();
        library.encrypt_block(&mut next);
        (chain, *block) = (next.into(), next.into());
    }
    if !plain_is_hashed {
        H::compress(&mut state, units);
    }
    KernelCase { keys: RoundKeys::encrypting(&key), work, expected: KernelBlocks { chain, state, data } }
}

/// Seals 0 to 7 units of each of up to `most` lanes and compares the results.
fn agrees<H: Hash<State: PartialEq>>(
    what: &str,
    most: usize,
    seal: impl Fn(Vec<SealLane<'_, H::State>>, usize),
) {
    for (count, units) in (1..=most).flat_map(|count| [0, 1, 2, 7].map(|units| (count, units))) {
        let mut cases: Vec<_> = (0..count).map(|lane| case::<H>(lane, units)).collect();
        let lanes = cases.iter_mut().enumerate().map(|(lane, KernelCase { keys, work, .. })| SealLane {
            cbc: CbcLane { keys, chain: &mut work.chain, data: &mut work.data[lane..] },
            state: &mut work.state,
        });
        seal(lanes.collect(), units);
        for (lane, KernelCase { work, expected, .. }) in cases.into_iter().enumerate() {
            assert!(work == expected, "{what}, lane {lane} of {count}, {units} units");
        }
    }
}

#[test]
fn every_way_to_hash_and_encrypt_gives_what_the_libraries_give_for_every_number_of_lanes() {
    // FIPS 180-4 section 6.1, RFC 3962 section 5
    for (kernel, cpu) in [Kernel::Wide, Kernel::Stitched].into_iter().zip([Cpu::Avx512, Cpu::AesNi]) {
        if !cpu.is_available() || !kernel.is_open(cpu) {
            println!("skipped: this processor cannot do {kernel:?}");
            continue;
        }
        agrees::<Sha1>(&format!("{kernel:?}"), LANES, |lanes, units| {
            let mut states = [const { None }; LANES];
            let pointers = Pointers::and_states(lanes.into_iter(), &mut states, units * UNIT);
            seal_by::<14>(kernel, cpu, &pointers, &mut states[..pointers.count], units);
        });
    }
}

#[test]
fn encryption_with_the_hash_behind_it_gives_what_the_libraries_give_for_every_number_of_lanes() {
    // FIPS 180-4 sections 6.2 and 6.5, RFC 8009 section 5
    if !Cpu::AesNi.is_available() || !fuses_sha256(Cpu::AesNi, 1) || !fuses_sha384(Cpu::AesNi, 1) {
        println!("skipped: this processor has no AES-NI, or no SHA instructions, or no BMI2");
        return;
    }
    agrees::<Sha256>("SHA-256", LANES, |lanes, units| {
        seal_sha256::<14>(Cpu::AesNi, lanes.into_iter(), units);
    });
    agrees::<Sha384>("SHA-384", 1, |lanes, units| {
        seal_sha384::<14>(Cpu::AesNi, lanes.into_iter(), units);
    });
}
