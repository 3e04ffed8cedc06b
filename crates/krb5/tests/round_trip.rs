//! Each side opens and verifies the tokens of the other, for any length and any batch.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use orthrus_krb5::{
    CPU_VARIABLE, ContextKeys, Cpu, Enctype, MicMessage, MicToken, ProtocolKey, Role, Run, Segments,
    TokenError, UnwrapMessage, VerifyMessage, WRAP_HEADROOM, WrapMessage,
};
use proptest::prelude::*;

/// Starts a run on the path that `cargo xtask memcheck` chooses, or on the best one.
#[expect(clippy::disallowed_methods, reason = "tests have an environment")]
fn run() -> Run<'static> {
    Run::new(std::env::var(CPU_VARIABLE).map_or_else(|_| Cpu::best(), |name| name.parse().expect("a name")))
}

const LENGTH_MAX: usize = 1 << 20;

/// Both sides of one context.
struct ContextPair {
    initiator: ContextKeys,
    acceptor: ContextKeys,
}

impl ContextPair {
    fn new(enctype: Enctype, seed: u8) -> Self {
        let key: Vec<u8> = (0..enctype.key_len() as u8).map(|i| i.wrapping_mul(31) ^ seed).collect();
        let side = |role| {
            ContextKeys::new(enctype, ProtocolKey::AcceptorSubkey(&key), role).expect("the right length")
        };
        Self { initiator: side(Role::Initiator), acceptor: side(Role::Acceptor) }
    }
}

/// Eight contexts: the messages of a batch come from several.
fn contexts() -> Vec<ContextPair> {
    (0..8).map(|n| ContextPair::new(Enctype::ALL[n % 4], n as u8)).collect()
}

fn plaintext(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9).wrapping_add(seed) >> 7) as u8).collect()
}

fn confounder(n: usize) -> [u8; 16] {
    [n as u8; 16]
}

/// Seals messages of (context, length) as one batch, behind `start` bytes that must not change.
fn seal(contexts: &[ContextPair], messages: &[(usize, usize)], start: usize) -> Vec<Vec<u8>> {
    let mut buffers: Vec<Vec<u8>> = messages
        .iter()
        .enumerate()
        .map(|(n, &(context, len))| {
            let mut buffer = vec![0xa5; start + WRAP_HEADROOM];
            buffer.extend(plaintext(len, n as u64));
            buffer.resize(buffer.len() + contexts[context].acceptor.wrap_trailer_len(), 0);
            buffer
        })
        .collect();
    let mut batch: Vec<_> = buffers
        .iter_mut()
        .zip(messages)
        .enumerate()
        .map(|(n, (buffer, &(context, _)))| WrapMessage {
            keys: &contexts[context].acceptor,
            sequence: n as u64 | 1 << 40,
            confounder: confounder(n),
            token: Segments::from(&mut buffer[start..]),
        })
        .collect();
    orthrus_krb5::wrap_with(&mut run(), &mut batch);
    buffers
}

fn open(contexts: &[ContextPair], messages: &[(usize, usize)], buffers: &mut [Vec<u8>], start: usize) {
    let mut batch: Vec<_> = buffers
        .iter_mut()
        .zip(messages)
        .map(|(buffer, &(context, _))| UnwrapMessage {
            keys: &contexts[context].initiator,
            token: Segments::from(&mut buffer[start..]),
            result: Err(TokenError::Malformed),
        })
        .collect();
    orthrus_krb5::unwrap_with(&mut run(), &mut batch);
    let opened: Vec<_> = batch.into_iter().map(|message| message.result.expect("our own token")).collect();
    for (n, (opened, &(_, len))) in opened.into_iter().zip(messages).enumerate() {
        assert_eq!(opened.sequence, n as u64 | 1 << 40);
        assert!(opened.sealed);
        let plain = &buffers[n][start..][opened.plain];
        assert!(plain == plaintext(len, n as u64), "message {n} of {len} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_batch_of_any_contexts_opens(
        messages in proptest::collection::vec((0..8usize, 0..3000usize), 0..70),
        start in 0..40usize,
    ) {
        // RFC 4121 section 4.2.6.2
        let contexts = contexts();
        let mut buffers = seal(&contexts, &messages, start);
        prop_assert!(buffers.iter().all(|buffer| buffer[..start].iter().all(|&byte| byte == 0xa5)));
        open(&contexts, &messages, &mut buffers, start);
    }

    #[test]
    fn a_batch_makes_the_tokens_that_single_messages_make(
        messages in proptest::collection::vec((0..8usize, 0..600usize), 1..40),
    ) {
        let contexts = contexts();
        let buffers = seal(&contexts, &messages, 0);
        for (n, (buffer, &(context, len))) in buffers.iter().zip(&messages).enumerate() {
            let mut alone = vec![0; WRAP_HEADROOM];
            alone.extend(plaintext(len, n as u64));
            let keys = &contexts[context].acceptor;
            alone.resize(alone.len() + keys.wrap_trailer_len(), 0);
            orthrus_krb5::wrap_with(&mut run(), &mut [WrapMessage {
                keys,
                sequence: n as u64 | 1 << 40,
                confounder: confounder(n),
                token: Segments::from(&mut alone),
            }]);
            prop_assert!(&alone == buffer);
        }
    }

    #[test]
    fn any_rotation_is_undone(enctype in 0..4usize, len in 0..300usize, rrc: u16) {
        // RFC 4121 section 4.2.5: also counts beyond the length of the token.
        let contexts = contexts();
        let messages = [(enctype, len)];
        let mut buffers = seal(&contexts, &messages, 0);
        let body = &mut buffers[0][16..];
        let count = usize::from(rrc) % body.len();
        body.rotate_right(count);
        buffers[0][6..8].copy_from_slice(&rrc.to_be_bytes());
        open(&contexts, &messages, &mut buffers, 0);
    }

    #[test]
    fn any_signature_verifies(
        messages in proptest::collection::vec((0..8usize, 0..700usize), 0..40),
    ) {
        // RFC 4121 section 4.2.6.1
        let contexts = contexts();
        let texts: Vec<_> = messages.iter().map(|&(_, len)| plaintext(len, 3)).collect();
        let mut signed: Vec<_> = messages.iter().zip(&texts).enumerate().map(|(n, (&(context, _), data))| {
            let keys = &contexts[context].initiator;
            MicMessage { keys, sequence: n as u64, data, token: MicToken::EMPTY }
        }).collect();
        orthrus_krb5::get_mic_with(&mut run(), &mut signed);
        let mut checked: Vec<_> = messages.iter().zip(&signed).map(|(&(context, _), mic)| {
            let keys = &contexts[context].acceptor;
            VerifyMessage { keys, data: mic.data, token: &mic.token, result: Err(TokenError::Malformed) }
        }).collect();
        orthrus_krb5::verify_mic_with(&mut run(), &mut checked);
        for (n, message) in checked.iter().enumerate() {
            prop_assert_eq!(message.result, Ok(n as u64));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..Default::default() })]

    #[test]
    fn batches_of_every_size_open_with_lengths_up_to_a_mebibyte(
        long in 0..=LENGTH_MAX,
        lengths in proptest::collection::vec(0..40_000usize, 33),
    ) {
        let contexts = contexts();
        for enctype in 0..4 {
            let mut messages: Vec<_> = lengths.iter().map(|&len| (enctype, len)).collect();
            messages[7].1 = long;
            open(&contexts, &messages, &mut seal(&contexts, &messages, 4), 4);
        }
    }
}

#[test]
fn every_short_length_opens_in_batches_of_one_to_twenty() {
    // RFC 3962 section 5: every length modulo the block.
    let contexts = contexts();
    for context in 0..4 {
        for size in 1..=20 {
            let messages: Vec<_> = (0..size).map(|n| (context, n * 3 + size)).collect();
            open(&contexts, &messages, &mut seal(&contexts, &messages, 0), 0);
        }
        for len in (0..=128).chain([LENGTH_MAX - 1, LENGTH_MAX]) {
            open(&contexts, &[(context, len)], &mut seal(&contexts, &[(context, len)], 0), 0);
        }
    }
}
