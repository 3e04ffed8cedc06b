//! Compares batches of messages with the `hmac` crate and the published vectors.

use hmac::{KeyInit, Mac};

use super::*;
use crate::{
    Cpu,
    hash::{Sha1, Sha256, Sha384},
};

const CPUS: [Cpu; 4] = [Cpu::Avx512, Cpu::Avx2, Cpu::AesNi, Cpu::Portable];

/// A message of a batch, with its expected digest.
struct DigestCase<H: Hash> {
    key: HmacKey<H>,
    prefix: usize,
    data: Vec<u8>,
    suffix: Option<Header>,
    expected: Vec<u8>,
}

impl<H: Hash> DigestCase<H> {
    fn new<M: Mac + KeyInit>(seed: usize, prefix: usize, len: usize, suffix: Option<Header>) -> Self {
        let data: Vec<u8> = (0..prefix + len).map(|n| ((n * n + 13 * n + 7 * seed) % 253) as u8).collect();
        let key: Vec<u8> = (0..20 + seed % 13).map(|n| (n * 5 + seed) as u8).collect();
        let mut library = <M as KeyInit>::new_from_slice(&key).expect("any length");
        library.update(&data);
        library.update(suffix.as_ref().map_or(&[], |suffix| &suffix[..]));
        let expected = library.finalize().into_bytes().to_vec();
        Self { key: HmacKey::new(&key), prefix, data, suffix, expected }
    }

    fn message(&self) -> Message<'_, H> {
        let (prefix, data) = self.data.split_at(self.prefix);
        Message { key: &self.key, start: None, prefix, from: 0, len: data.len(), suffix: self.suffix }
    }
}

/// Hashes the batch with each instruction set and compares the digests.
fn agrees<H: Hash>(cases: &[DigestCase<H>]) {
    for cpu in CPUS {
        let mut seen = vec![false; cases.len()];
        let messages = cases
            .iter()
            .enumerate()
            .map(|(n, case)| (case.message(), With { data: &case.data[case.prefix..], with: n }));
        batch_hmac(&mut Run::new(cpu), messages, |With { with: n, .. }, digest| {
            assert_eq!(digest[..H::DIGEST], cases[n].expected[..], "{cpu}, message {n} of {}", cases.len());
            seen[n] = true;
        });
        assert!(seen.iter().all(|&seen| seen), "{cpu}");
    }
}

fn every_length<H: Hash, M: Mac + KeyInit>() {
    for (prefix, suffix) in [(0, None), (16, None), (0, Some([9; 16])), (16, Some([7; 16]))] {
        // One batch of all lengths, whose lanes end at different times. Then batches of one length.
        let lengths = (0..=300).chain([1000, 4095, 4096, 4097, 70_001]);
        let all: Vec<_> =
            lengths.enumerate().map(|(n, len)| DigestCase::new::<M>(n, prefix, len, suffix)).collect();
        agrees::<H>(&all);
        for count in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33] {
            for len in [0, 1, 55, 111, 112, 128, 255, 256, 600] {
                let some: Vec<_> = (0..count).map(|n| DigestCase::new::<M>(n, prefix, len, suffix)).collect();
                agrees::<H>(&some);
            }
        }
    }
}

#[test]
fn batches_of_all_lengths_and_keys_give_the_digests_of_the_library() {
    // RFC 2104 section 2
    every_length::<Sha1, hmac::Hmac<sha1::Sha1>>();
    every_length::<Sha256, hmac::Hmac<sha2::Sha256>>();
    every_length::<Sha384, hmac::Hmac<sha2::Sha384>>();
}

#[test]
fn messages_in_pieces_give_the_digests_of_the_library() {
    // RFC 2104 section 2
    let cases: Vec<_> = (0..40)
        .map(|n| DigestCase::<Sha384>::new::<hmac::Hmac<sha2::Sha384>>(n, 16, 37 * n + n % 5, Some([3; 16])))
        .collect();
    for cpu in CPUS {
        for cut in [1, 13, 64, 127, 128, 129, 500] {
            let mut copies: Vec<Vec<u8>> = cases.iter().map(|case| case.data.clone()).collect();
            let mut pieces: Vec<Vec<&mut [u8]>> = copies
                .iter_mut()
                .map(|copy| copy.chunks_mut(cut).flat_map(|piece| [piece, &mut []]).collect())
                .collect();
            let mut segments: Vec<_> =
                pieces.iter_mut().map(|pieces| Segments::Many(&mut pieces[..])).collect();
            // The first bytes are the prefix, so the data starts behind them.
            let messages = cases.iter().zip(&mut segments).enumerate().map(|(n, (case, data))| {
                (Message { from: case.prefix, ..case.message() }, With { data, with: n })
            });
            batch_hmac(&mut Run::new(cpu), messages, |With { with: n, .. }, digest| {
                assert_eq!(digest[..48], cases[n].expected[..], "{cpu}, pieces of {cut}, message {n}");
            });
        }
    }
}

#[test]
fn a_pause_comes_while_long_messages_are_hashed() {
    let case = DigestCase::<Sha1>::new::<hmac::Hmac<sha1::Sha1>>(0, 0, 1 << 20, None);
    for cpu in CPUS {
        let mut pauses = 0;
        let mut pause = || pauses += 1;
        let mut run = Run::new(cpu).with_pause(crate::Pause::new(128 << 10, &mut pause));
        let messages = (0..3).map(|_| (case.message(), &case.data[..]));
        batch_hmac(&mut run, messages, |_, digest| assert_eq!(digest[..20], case.expected[..]));
        assert!(pauses >= 16, "{cpu}: {pauses} pauses");
    }
}

/// RFC 2202 section 3 and RFC 4231 sections 4.2 to 4.4: the cases with a key of at most one block.
#[test]
fn the_published_vectors_hold_on_every_path() {
    let unhex = |text: &str| -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
    };
    fn holds<H: Hash>(key: &[u8], data: &[u8], expected: &[u8]) {
        let key = HmacKey::<H>::new(key);
        for cpu in CPUS {
            // The same message sixteen times, to fill every lane.
            let message =
                || Message { key: &key, start: None, prefix: &[], from: 0, len: data.len(), suffix: None };
            batch_hmac(&mut Run::new(cpu), (0..16).map(|_| (message(), data)), |_, digest| {
                assert_eq!(&digest[..H::DIGEST], expected, "{cpu}");
            });
        }
    }
    let (jefe, what) = (&b"Jefe"[..], &b"what do ya want for nothing?"[..]);
    holds::<Sha1>(&[0x0b; 20], b"Hi There", &unhex("b617318655057264e28bc0b6fb378c8ef146be00"));
    holds::<Sha1>(jefe, what, &unhex("effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"));
    holds::<Sha1>(&[0xaa; 20], &[0xdd; 50], &unhex("125d7342b9ac11cd91a39af48aa17b4f63f175d3"));
    let expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
    holds::<Sha256>(&[0x0b; 20], b"Hi There", &unhex(expected));
    let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    holds::<Sha256>(jefe, what, &unhex(expected));
    let expected = [
        "afd03944d84895626b0825f4ab46907f15f9dadbe4101ec6",
        "82aa034c7cebc59cfaea9ea9076ede7f4af152e8b2fa9cb6",
    ];
    holds::<Sha384>(&[0x0b; 20], b"Hi There", &unhex(&expected.concat()));
    let expected = [
        "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47",
        "e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649",
    ];
    holds::<Sha384>(jefe, what, &unhex(&expected.concat()));
}
