//! Runs one batch on every path. All paths make the same tokens and verdicts, and return the
//! plaintext.
//!
//! The differential tests and a fuzz target share this file.

use std::ops::DerefMut;

use orthrus_krb5::{
    ContextKeys, Cpu, Enctype, MicMessage, MicToken, Pause, ProtocolKey, Role, Run, Segments, TokenError,
    UnwrapMessage, Unwrapped, VerifyMessage, WRAP_HEADROOM, WrapMessage,
};

/// The memory of one piece of a token, one message or one signature.
pub(crate) trait Place: DerefMut<Target = [u8]> {
    /// Copies bytes to new memory of the same length.
    fn of(bytes: &[u8]) -> Self;
}

impl Place for Box<[u8]> {
    fn of(bytes: &[u8]) -> Self {
        bytes.into()
    }
}

/// Both sides of one context.
pub(crate) struct ModelContext {
    initiator: ContextKeys,
    acceptor: ContextKeys,
}

impl ModelContext {
    fn new(enctype: Enctype, seed: u8) -> Self {
        let key: Vec<u8> = (0..enctype.key_len() as u8).map(|i| i.wrapping_mul(31) ^ seed).collect();
        let side = |role| {
            ContextKeys::new(enctype, ProtocolKey::AcceptorSubkey(&key), role).expect("the right length")
        };
        Self { initiator: side(Role::Initiator), acceptor: side(Role::Acceptor) }
    }
}

/// The number of contexts: four enctypes with three keys each.
pub(crate) const CONTEXTS: usize = 12;

/// Makes the contexts that messages name by number; the enctypes take turns.
pub(crate) fn contexts() -> Vec<ModelContext> {
    (0..CONTEXTS).map(|n| ModelContext::new(Enctype::ALL[n % 4], n as u8)).collect()
}

/// Damage to a token or a signature in transit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TokenDamage {
    /// The token arrives unchanged.
    None,
    /// The bits of `mask` are flipped in the byte at `at`, modulo the length.
    Flip { at: usize, mask: u8 },
    /// The token ends at `at`, modulo the length.
    Cut { at: usize },
    /// A wrap token is rotated as RFC 4121 section 4.2.5 allows; a signature stays as it is.
    Rotate { count: u16 },
}

/// A message of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// The number of its context.
    pub context: usize,
    /// The length of the plaintext in bytes.
    pub len: usize,
    /// The offsets at which the token is cut into pieces, each modulo its length plus one.
    pub cuts: Vec<usize>,
    /// The damage in transit.
    pub damage: TokenDamage,
}

impl Message {
    /// Makes a message in one piece, without damage.
    pub(crate) fn new(context: usize, len: usize) -> Self {
        Self { context, len, cuts: Vec::new(), damage: TokenDamage::None }
    }

    /// Returns the same message, cut into pieces.
    pub(crate) fn cut(self, cuts: &[usize]) -> Self {
        Self { cuts: cuts.to_vec(), ..self }
    }

    /// Returns the same message with damage.
    pub(crate) fn damaged(self, damage: TokenDamage) -> Self {
        Self { damage, ..self }
    }

    /// Returns the plaintext of message `n`: bytes that do not repeat within a token.
    fn plain(&self, n: usize) -> Vec<u8> {
        let mut state = (n as u64) << 32 | self.len as u64 | 1;
        let mut word = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 32) as u32
        };
        let mut plain: Vec<u8> = (0..self.len.div_ceil(4)).flat_map(|_| word().to_le_bytes()).collect();
        plain.truncate(self.len);
        plain
    }

    /// Copies a token to new memory piece by piece. Without cuts it has one piece.
    fn place<P: Place>(&self, token: &[u8]) -> Vec<P> {
        let mut cuts: Vec<_> = self.cuts.iter().map(|cut| cut % (token.len() + 1)).collect();
        cuts.sort_unstable();
        let ends = cuts.iter().copied().chain([token.len()]);
        let starts = [0].into_iter().chain(cuts.iter().copied());
        starts.zip(ends).map(|(start, end)| P::of(&token[start..end])).collect()
    }

    fn damage(&self, token: &mut Vec<u8>, wrap: bool) {
        let len = token.len();
        match self.damage {
            TokenDamage::None => {}
            TokenDamage::Flip { at, mask } => token[at % len] ^= mask,
            TokenDamage::Cut { at } => token.truncate(at % len),
            TokenDamage::Rotate { count } if wrap => {
                let body = &mut token[16..];
                let by = usize::from(count) % body.len();
                body.rotate_right(by);
                token[6..8].copy_from_slice(&count.to_be_bytes());
            }
            TokenDamage::Rotate { .. } => {}
        }
    }
}

/// Borrows the pieces of tokens.
fn borrow<P: Place>(tokens: &mut [Vec<P>]) -> Vec<Vec<&mut [u8]>> {
    tokens.iter_mut().map(|pieces| pieces.iter_mut().map(|piece| &mut **piece).collect()).collect()
}

/// Returns the segments of a token; a single piece becomes `Segments::One`.
fn segments<'a>(pieces: &'a mut [&'a mut [u8]]) -> Segments<'a> {
    match pieces {
        [whole] => Segments::One(whole),
        pieces => Segments::Many(pieces),
    }
}

/// Seals the batch with the settings of `run`.
pub(crate) fn seal<P: Place>(
    contexts: &[ModelContext],
    messages: &[Message],
    run: &mut Run<'_>,
) -> Vec<Vec<u8>> {
    let mut tokens: Vec<Vec<P>> = messages
        .iter()
        .enumerate()
        .map(|(n, message)| {
            let trailer = contexts[message.context].initiator.wrap_trailer_len();
            let plain = message.plain(n);
            message.place(&[&[0xa5; WRAP_HEADROOM][..], &plain, &[0x5a; 40][..trailer]].concat())
        })
        .collect();
    let mut pieces = borrow(&mut tokens);
    let mut batch: Vec<_> = pieces
        .iter_mut()
        .zip(messages)
        .enumerate()
        .map(|(n, (pieces, message))| WrapMessage {
            keys: &contexts[message.context].initiator,
            sequence: n as u64 | 1 << 40,
            confounder: [n as u8; 16],
            token: segments(pieces),
        })
        .collect();
    orthrus_krb5::wrap_with(run, &mut batch);
    tokens.iter().map(|pieces| pieces.iter().flat_map(|piece| piece.iter().copied()).collect()).collect()
}

/// The result of opening a token, with the plaintext.
type OpenedToken = Result<(Unwrapped, Vec<u8>), TokenError>;

/// Opens tokens on the other side, with the settings of `run`.
fn open<P: Place>(
    contexts: &[ModelContext],
    messages: &[Message],
    tokens: &[Vec<u8>],
    run: &mut Run<'_>,
) -> Vec<OpenedToken> {
    let mut placed: Vec<Vec<P>> =
        messages.iter().zip(tokens).map(|(message, token)| message.place(token)).collect();
    let mut pieces = borrow(&mut placed);
    let mut batch: Vec<_> = pieces
        .iter_mut()
        .zip(messages)
        .map(|(pieces, message)| UnwrapMessage {
            keys: &contexts[message.context].acceptor,
            token: segments(pieces),
            result: Err(TokenError::Malformed),
        })
        .collect();
    orthrus_krb5::unwrap_with(run, &mut batch);
    let results: Vec<_> = batch.into_iter().map(|message| message.result).collect();
    let opened = results.into_iter().zip(&placed).enumerate().map(|(n, (result, pieces))| {
        let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        let plain = messages[n].plain(n);
        if result == Err(TokenError::BadIntegrity) && plain.len() >= 16 {
            let leaked = bytes.windows(16).any(|window| *window == plain[..16]);
            assert!(!leaked, "message {n} was refused, and its plaintext is there");
        }
        result.map(|opened| (opened.clone(), bytes[opened.plain].to_vec()))
    });
    opened.collect()
}

/// Signs the plaintexts with the settings of `run`.
fn sign<P: Place>(contexts: &[ModelContext], messages: &[Message], run: &mut Run<'_>) -> Vec<Vec<u8>> {
    let data: Vec<P> = messages.iter().enumerate().map(|(n, message)| P::of(&message.plain(n))).collect();
    let mut batch: Vec<_> = messages
        .iter()
        .zip(&data)
        .zip(0..)
        .map(|((message, data), sequence)| MicMessage {
            keys: &contexts[message.context].initiator,
            sequence,
            data,
            token: MicToken::EMPTY,
        })
        .collect();
    orthrus_krb5::get_mic_with(run, &mut batch);
    batch.iter().map(|message| message.token.to_vec()).collect()
}

/// Verifies signatures on the other side, with the settings of `run`.
fn check<P: Place>(
    contexts: &[ModelContext],
    messages: &[Message],
    tokens: &[Vec<u8>],
    run: &mut Run<'_>,
) -> Vec<Result<u64, TokenError>> {
    let data: Vec<P> = messages.iter().enumerate().map(|(n, message)| P::of(&message.plain(n))).collect();
    let tokens: Vec<P> = tokens.iter().map(|token| P::of(token)).collect();
    let mut batch: Vec<_> = messages
        .iter()
        .zip(&data)
        .zip(&tokens)
        .map(|((message, data), token)| VerifyMessage {
            keys: &contexts[message.context].acceptor,
            data,
            token,
            result: Err(TokenError::Malformed),
        })
        .collect();
    orthrus_krb5::verify_mic_with(run, &mut batch);
    batch.iter().map(|message| message.result).collect()
}

/// Runs `work` on every path, the portable one first, and returns the common result. Each path runs
/// once without pauses and once with them.
fn agreed<T: PartialEq>(what: &str, mut work: impl FnMut(&mut Run<'_>) -> Vec<T>) -> Vec<T> {
    let expected = work(&mut Run::new(Cpu::Portable));
    for cpu in Cpu::available() {
        let undisturbed = work(&mut Run::new(cpu));
        let mut pauses = 0;
        let mut pause = || pauses += 1;
        let disturbed = work(&mut Run::new(cpu).with_pause(Pause::new(100, &mut pause)));
        for (way, results) in [("", undisturbed), (" with pauses", disturbed)] {
            assert_eq!(results.len(), expected.len());
            let wrong: Vec<_> = (0..expected.len()).filter(|&n| results[n] != expected[n]).collect();
            assert!(wrong.is_empty(), "{what}, {cpu}{way}: messages {wrong:?} of {}", expected.len());
        }
    }
    expected
}

/// Proves that all paths agree on a batch: on the tokens, and on the results of opening them after
/// their damage.
///
/// # Panics
/// If the paths differ, or if an undamaged message does not come back.
pub(crate) fn agree<P: Place>(contexts: &[ModelContext], messages: &[Message]) {
    let mut tokens = agreed("wrap", |run| seal::<P>(contexts, messages, run));
    for (message, token) in messages.iter().zip(&mut tokens) {
        message.damage(token, true);
    }
    let opened = agreed("unwrap", |run| open::<P>(contexts, messages, &tokens, run));
    let genuine =
        |message: &Message| matches!(message.damage, TokenDamage::None | TokenDamage::Rotate { .. });
    for (n, (message, opened)) in messages.iter().zip(opened).enumerate() {
        match opened {
            Ok((unwrapped, plain)) => {
                assert!(unwrapped.sealed && unwrapped.sequence == n as u64 | 1 << 40);
                assert!(plain == message.plain(n), "message {n}: {message:?}");
            }
            Err(error) => assert!(!genuine(message), "message {n}: {message:?}: {error}"),
        }
    }
    let mut signatures = agreed("get_mic", |run| sign::<P>(contexts, messages, run));
    for (message, signature) in messages.iter().zip(&mut signatures) {
        message.damage(signature, false);
    }
    let checked = agreed("verify_mic", |run| check::<P>(contexts, messages, &signatures, run));
    for (n, (message, checked)) in messages.iter().zip(checked).enumerate() {
        match checked {
            Ok(sequence) => assert_eq!(sequence, n as u64),
            Err(error) => assert!(!genuine(message), "signature {n}: {message:?}: {error}"),
        }
    }
}
