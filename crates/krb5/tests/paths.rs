//! Every instruction set makes and opens the same tokens, for any batch and any segments.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::OnceLock;

use orthrus_krb5::{
    ContextKeys, Cpu, Enctype, Pause, ProtocolKey, Role, Run, Segments, TokenError, UnwrapMessage, Unwrapped,
    WRAP_HEADROOM, WrapMessage, unwrap_with, wrap_with,
};
use proptest::prelude::*;

/// Both sides of two contexts of each enctype.
fn contexts() -> &'static [(ContextKeys, ContextKeys)] {
    static CONTEXTS: OnceLock<Vec<(ContextKeys, ContextKeys)>> = OnceLock::new();
    let side = |n: usize, role| {
        let enctype = Enctype::ALL[n % 4];
        ContextKeys::new(enctype, ProtocolKey::AcceptorSubkey(&vec![n as u8 + 1; enctype.key_len()]), role)
            .expect("the right length")
    };
    CONTEXTS.get_or_init(|| (0..8).map(|n| (side(n, Role::Acceptor), side(n, Role::Initiator))).collect())
}

fn room(contexts: &[(ContextKeys, ContextKeys)], context: usize, len: usize, seed: usize) -> Vec<u8> {
    let plain = (0..len).map(|n| (n * 7 + n / 251 + seed) as u8);
    let mut token = vec![0; WRAP_HEADROOM];
    token.extend(plain);
    token.resize(token.len() + contexts[context].0.wrap_trailer_len(), 0);
    token
}

/// Cuts bytes into pieces of these lengths; the rest is the last piece.
fn cut<'a>(mut bytes: &'a mut [u8], lengths: &[usize]) -> Vec<&'a mut [u8]> {
    let mut pieces = Vec::new();
    for &length in lengths {
        let (piece, rest) = bytes.split_at_mut(length.min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    pieces
}

/// Seals messages of (context, length) as one batch; `cuts` are the lengths of each token's pieces.
fn seal(run: &mut Run<'_>, messages: &[(usize, usize)], cuts: &[usize]) -> Vec<Vec<u8>> {
    let contexts = contexts();
    let seeds = messages.iter().enumerate();
    let mut tokens: Vec<_> =
        seeds.map(|(seed, &(context, len))| room(contexts, context, len, seed)).collect();
    let mut pieces: Vec<_> = tokens.iter_mut().map(|token| cut(token, cuts)).collect();
    let mut batch: Vec<_> = pieces
        .iter_mut()
        .zip(messages)
        .enumerate()
        .map(|(n, (pieces, &(context, _)))| WrapMessage {
            keys: &contexts[context].0,
            sequence: n as u64,
            confounder: [n as u8; 16],
            token: segments(pieces),
        })
        .collect();
    wrap_with(run, &mut batch);
    tokens
}

fn segments<'a>(pieces: &'a mut [&'a mut [u8]]) -> Segments<'a> {
    if pieces.len() == 1 { Segments::One(&mut *pieces[0]) } else { Segments::Many(pieces) }
}

fn open(
    run: &mut Run<'_>,
    messages: &[(usize, usize)],
    cuts: &[usize],
    tokens: &mut [Vec<u8>],
) -> Vec<Result<Unwrapped, TokenError>> {
    let contexts = contexts();
    let mut pieces: Vec<_> = tokens.iter_mut().map(|token| cut(token, cuts)).collect();
    let mut batch: Vec<_> = pieces
        .iter_mut()
        .zip(messages)
        .map(|(pieces, &(context, _))| UnwrapMessage {
            keys: &contexts[context].1,
            token: segments(pieces),
            result: Err(TokenError::Malformed),
        })
        .collect();
    unwrap_with(run, &mut batch);
    batch.into_iter().map(|message| message.result).collect()
}

/// Seals and opens with every instruction set, and compares with the portable path.
fn agrees(messages: &[(usize, usize)], cuts: &[usize]) {
    let contexts = contexts();
    let expected = seal(&mut Run::new(Cpu::Portable), messages, &[]);
    for cpu in Cpu::available() {
        let tokens = seal(&mut Run::new(cpu), messages, cuts);
        for (n, (token, expected)) in tokens.iter().zip(&expected).enumerate() {
            assert!(token == expected, "{cpu}: token {n} of {messages:?}, cuts {cuts:?}");
        }
        let mut tokens = expected.clone();
        let opened = open(&mut Run::new(cpu), messages, cuts, &mut tokens);
        for (n, (opened, &(context, len))) in opened.into_iter().zip(messages).enumerate() {
            let plain = opened
                .unwrap_or_else(|error| panic!("{cpu}: {error}: token {n} of {messages:?}, cuts {cuts:?}"));
            let expected = room(contexts, context, len, n);
            assert!(tokens[n][plain.plain] == expected[WRAP_HEADROOM..][..len], "{cpu}: plaintext {n}");
        }
    }
}

#[test]
fn batches_of_1_to_64_agree() {
    // RFC 3962 section 6, RFC 8009 section 5
    for size in 1..=64 {
        for context in 0..4 {
            let messages: Vec<_> = (0..size).map(|n| (context + n % 2 * 4, 150 * (n % 3) + size)).collect();
            agrees(&messages, &[]);
        }
    }
}

#[test]
fn every_length_agrees_alone_and_with_others() {
    for context in 0..4 {
        for len in 0..300 {
            agrees(&[(context, len)], &[]);
            agrees(&[(context, len); 7], &[]);
        }
    }
}

#[test]
fn every_cut_of_a_short_message_agrees() {
    for context in 0..4 {
        for len in [0, 5, 100] {
            for first in 0..WRAP_HEADROOM + len + 40 {
                agrees(&[(context, len)], &[first]);
                agrees(&[(context, len), (context + 4, len + 9)], &[first / 2, 0, first % 37]);
                if first % 3 == 0 {
                    agrees(&[(context, len); 9], &[first, 16, 1]);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() })]

    #[test]
    fn mixed_batches_in_pieces_agree(
        messages in proptest::collection::vec((0..8usize, 0..9000usize), 1..=64),
        cuts in proptest::collection::vec(0..3000usize, 0..5),
    ) {
        agrees(&messages, &cuts);
    }
}

#[test]
fn long_messages_agree() {
    for context in 0..4 {
        agrees(&[(context, 1 << 20)], &[]);
        let messages: Vec<_> = (0..17).map(|n| (context, 70_000 - n * 4001)).collect();
        agrees(&messages, &[100, 4096]);
    }
}

#[test]
fn others_get_their_turn_inside_a_batch() {
    for cpu in Cpu::available() {
        for context in 0..4 {
            let messages = [(context, 256 << 10); 8];
            let mut calls = 0;
            let mut count = || calls += 1;
            let mut run = Run::new(cpu).with_pause(Pause::new(128 << 10, &mut count));
            let mut tokens = seal(&mut run, &messages, &[]);
            assert!(tokens == seal(&mut Run::new(cpu), &messages, &[]));
            let opened = open(&mut run, &messages, &[], &mut tokens);
            assert!(opened.iter().all(Result::is_ok));
            // 2 MiB are sealed and opened, with a call at least every 128 KiB plus one step of the
            // lanes.
            assert!(calls >= 20, "{cpu}, enctype {}: {calls} calls", Enctype::ALL[context]);
        }
    }
}

#[test]
fn a_forged_token_is_refused_by_every_set_and_spoils_no_other() {
    // RFC 4121 section 4.2.4
    for cpu in Cpu::available() {
        for context in 0..4 {
            let messages = [(context, 5000); 9];
            let mut tokens = seal(&mut Run::new(cpu), &messages, &[]);
            tokens[3][1000] ^= 1;
            let opened = open(&mut Run::new(cpu), &messages, &[], &mut tokens);
            for (n, opened) in opened.into_iter().enumerate() {
                assert_eq!(opened.err(), (n == 3).then_some(TokenError::BadIntegrity), "{cpu}");
            }
            assert!(tokens[3].iter().all(|&byte| byte == 0));
        }
    }
}
