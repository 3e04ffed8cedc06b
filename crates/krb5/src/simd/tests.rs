//! Every way to hash and encrypt in one go, against the libraries.

use aes::cipher::{BlockCipherEncrypt, KeyInit};

use super::*;
use crate::{
    hash::{Hash, Sha1},
    portable::xor,
};

/// A message, and what a state and a chain of its own become with it.
struct Case {
    keys: RoundKeys,
    chain: [u8; BLOCK],
    state: [u32; 5],
    data: Vec<u8>,
    expected: ([u8; BLOCK], [u32; 5], Vec<u8>),
}

fn case(lane: usize, units: usize) -> Case {
    let key: [u8; 32] = std::array::from_fn(|n| (n * 7 + lane) as u8);
    // Longer than what is worked on, and at an odd address, as tokens are.
    let data: Vec<u8> = (0..lane + units * UNIT + 5).map(|n| ((n * n + 11 * n + lane) % 251) as u8).collect();
    let (chain, state) = ([lane as u8; BLOCK], Sha1::INITIAL.map(|word| word ^ lane as u32));
    let mut expected = (chain, state, data.clone());
    let library = aes::Aes256Enc::new(&key.into());
    let units = &mut expected.2[lane..lane + units * UNIT];
    Sha1::compress(&mut expected.1, units);
    for block in units.as_chunks_mut::<BLOCK>().0 {
        let mut next: crate::cipher::Block = xor(*block, expected.0).into();
        library.encrypt_block(&mut next);
        (expected.0, *block) = (next.into(), next.into());
    }
    Case { keys: RoundKeys::encrypting(&key), chain, state, data, expected }
}

#[test]
fn every_way_to_hash_and_encrypt_gives_what_the_libraries_give_for_every_number_of_lanes() {
    // FIPS 180-4 section 6.1, RFC 3962 section 5
    for (kernel, cpu) in [Kernel::Wide, Kernel::Stitched].into_iter().zip([Cpu::Avx512, Cpu::AesNi]) {
        if !cpu.is_available() || !kernel.is_open(cpu) {
            println!("skipped: this processor cannot do {kernel:?}");
            continue;
        }
        for (count, units) in (1..=LANES).flat_map(|count| [(count, 0), (count, 1), (count, 2), (count, 7)]) {
            let mut cases: Vec<_> = (0..count).map(|lane| case(lane, units)).collect();
            let mut states = [const { None }; LANES];
            let lanes = cases.iter_mut().enumerate().map(|(lane, Case { keys, chain, state, data, .. })| {
                SealLane { cbc: CbcLane { keys, chain, data: &mut data[lane..] }, state }
            });
            let lanes = Pointers::and_states(lanes, &mut states, units * UNIT);
            seal_by::<14>(kernel, cpu, &lanes, &mut states[..count], units);
            for (lane, Case { chain, state, data, expected, .. }) in cases.into_iter().enumerate() {
                assert!(
                    (chain, state, data) == expected,
                    "{kernel:?}, lane {lane} of {count}, {units} units"
                );
            }
        }
    }
}
