//! Sealed wrap tokens, RFC 4121 section 4.2.6.2.
//!
//! ```text
//! header | encrypted { confounder | plaintext | copy of the header } | checksum
//! ```

use std::ops::Range;

use crate::{
    ContextKeys, Cpu, Run, Segments,
    batch_hmac::{Message, With, batch_hmac},
    cipher::{BLOCK, CIPHER_STATE, CbcLane, UNIT},
    cts, fused,
    fused::FusedProgress,
    hash::{BLOCK_MAX, Hash},
    keys::{KeyedSuite, SuiteKeys, with_suite},
    single,
    suite::{Aes128Sha1, Aes128Sha256, Aes256Sha1, Aes256Sha384},
    token::{HEADER_LEN, sealed_header},
};

/// The number of bytes in front of the plaintext: the header and the confounder.
pub const WRAP_HEADROOM: usize = HEADER_LEN + BLOCK;

/// The maximum number of messages of a batch that are processed together.
pub(crate) const WINDOW: usize = 64;
/// The number of messages that are processed together even if they are long.
const WINDOW_MIN: usize = 16;
/// The number of bytes processed together, so that they stay in the second-level cache between hash
/// and cipher.
const WINDOW_BYTES: usize = 512 << 10;

/// One plaintext to seal in place.
#[derive(Debug)]
pub struct WrapMessage<'a> {
    /// The keys of the context.
    pub keys: &'a ContextKeys,
    /// The sequence number of the token: the sender's next.
    pub sequence: u64,
    /// Random bytes, drawn for this message only.
    pub confounder: [u8; 16],
    /// Space of [`WRAP_HEADROOM`] bytes, the plaintext, and space of
    /// [`ContextKeys::wrap_trailer_len`] bytes. Afterwards the token fills all of it.
    pub token: Segments<'a>,
}

/// Seals each message of a batch.
///
/// Messages of one enctype are processed together; batches of 16 are fastest. Does not allocate.
///
/// # Panics
/// If a token is shorter than [`WRAP_HEADROOM`] plus [`ContextKeys::wrap_trailer_len`].
pub fn wrap(batch: &mut [WrapMessage<'_>]) {
    wrap_with(&mut Run::default(), batch);
}

/// Seals each message of a batch as [`wrap`] does, with the settings of `run`.
///
/// # Panics
/// As [`wrap`] does.
pub fn wrap_with(run: &mut Run<'_>, batch: &mut [WrapMessage<'_>]) {
    for message in batch.iter_mut() {
        message.lay_out();
    }
    if let [message] = batch
        && message.seal_alone(run.cpu)
    {
        return run.worked(message.token.len());
    }
    let mut rest = batch;
    while !rest.is_empty() {
        let (window, later) = rest.split_at_mut(window(rest.iter().map(|message| message.token.len())));
        seal::<Aes128Sha1>(run, window);
        seal::<Aes256Sha1>(run, window);
        seal::<Aes128Sha256>(run, window);
        seal::<Aes256Sha384>(run, window);
        rest = later;
    }
}

/// Returns how many messages of these lengths are processed together.
pub(crate) fn window(lengths: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fits = lengths.take(WINDOW).enumerate().take_while(|(n, length)| {
        bytes += length;
        *n < WINDOW_MIN || bytes <= WINDOW_BYTES
    });
    fits.count()
}

impl<'a> WrapMessage<'a> {
    /// Writes the parts of the token that do not depend on the plaintext.
    fn lay_out(&mut self) {
        let header = sealed_header(self.keys.direction, self.sequence);
        let trailer_at = self.token.len() - self.keys.wrap_trailer_len();
        assert!(trailer_at >= WRAP_HEADROOM, "the caller leaves room for what comes before the plaintext");
        self.token.write(0, &header);
        self.token.write(HEADER_LEN, &self.confounder);
        self.token.write(trailer_at, &header);
    }

    /// Seals the message on the path for a single short message. Returns whether it took that path.
    fn seal_alone(&mut self, cpu: Cpu) -> bool {
        with_suite!(self.keys.suite(), keys => single::seal_if_short(cpu, keys, &mut self.token))
    }

    /// Returns the keys if they are of this suite, the token, and its range to encrypt.
    fn parts<'b, S: KeyedSuite>(
        &'b mut self,
    ) -> Option<(&'b SuiteKeys<S>, &'b mut Segments<'a>, Range<usize>)> {
        let keys = S::of(self.keys.suite())?;
        let end = self.token.len() - S::ENCTYPE.mac_len();
        Some((keys, &mut self.token, HEADER_LEN..end))
    }
}

/// Encrypts and signs the messages of one enctype.
fn seal<S: KeyedSuite>(run: &mut Run<'_>, window: &mut [WrapMessage<'_>]) {
    if !window.iter().any(|message| S::of(message.keys.suite()).is_some()) {
        return;
    }
    let mut progress = [const { FusedProgress::<S>::NEW }; WINDOW];
    if S::ENCTYPE.encrypts_then_macs() {
        together_behind(run, window, &mut progress);
        encrypt(run, window, &progress);
        sign(run, window, &progress, &CIPHER_STATE);
    } else {
        together(run, window, &mut progress);
        sign(run, window, &progress, &[]);
        encrypt(run, window, &progress);
    }
}

/// Hashes and encrypts whole units in one pass, if the suite supports this.
fn together<S: KeyedSuite>(
    run: &mut Run<'_>,
    window: &mut [WrapMessage<'_>],
    progress: &mut [FusedProgress<S>],
) {
    let messages = window.iter_mut().zip(progress).filter_map(|(message, progress)| {
        let (keys, token, Range { start, end }) = message.parts::<S>()?;
        progress.begin(keys.seal_mac.inner);
        Some(fused::Message { keys: &keys.seal.rounds, token, start, units: (end - start) / UNIT, progress })
    });
    fused::seal(run, messages);
}

/// Encrypts and hashes the units behind the first hash block in one pass, if the suite supports
/// this for the size of the batch. Leaves the last two AES blocks: they are swapped before they are
/// hashed.
fn together_behind<S: KeyedSuite>(
    run: &mut Run<'_>,
    window: &mut [WrapMessage<'_>],
    progress: &mut [FusedProgress<S>],
) {
    let count = window.iter().filter(|message| S::of(message.keys.suite()).is_some()).count();
    if !S::fuses(run.cpu, count) {
        return;
    }
    let cpu = run.cpu;
    let messages = window.iter_mut().zip(progress).filter_map(|(message, progress)| {
        let (keys, token, Range { start, end }) = message.parts::<S>()?;
        // The first hash block begins with the cipher state.
        let head = S::Hash::BLOCK - CIPHER_STATE.len();
        let units = (end - start).div_ceil(BLOCK).saturating_sub(2) * BLOCK;
        let units = units.saturating_sub(head) / S::Hash::BLOCK;
        if units > 0 {
            let mut first = [0; BLOCK_MAX];
            let (first, _) = first.split_at_mut(S::Hash::BLOCK);
            let (state, data) = first.split_at_mut(CIPHER_STATE.len());
            state.copy_from_slice(&CIPHER_STATE);
            token.read(start, data);
            let lane = CbcLane { key: &keys.seal, chain: &mut progress.chain, data: &mut *data };
            S::encrypt(cpu, [lane].into_iter(), head / BLOCK);
            token.write(start, data);
            let mut state = keys.seal_mac.inner;
            S::Hash::compress(&mut state, first);
            progress.begin(state);
            progress.done = head;
        }
        let start = start + progress.done;
        Some(fused::Message { keys: &keys.seal.rounds, token, start, units, progress })
    });
    fused::seal(run, messages);
}

fn encrypt<S: KeyedSuite>(run: &mut Run<'_>, window: &mut [WrapMessage<'_>], progress: &[FusedProgress<S>]) {
    let messages = window.iter_mut().zip(progress).filter_map(|(message, progress)| {
        let (keys, token, range) = message.parts::<S>()?;
        Some(cts::Plain { key: &keys.seal, token, range, done: progress.done, chain: progress.chain })
    });
    cts::encrypt::<S>(run, messages);
}

/// Writes the checksums of `prefix` and the current content of the messages.
fn sign<S: KeyedSuite>(
    run: &mut Run<'_>,
    window: &mut [WrapMessage<'_>],
    progress: &[FusedProgress<S>],
    prefix: &[u8],
) {
    let messages = window.iter_mut().zip(progress).filter_map(|(message, progress)| {
        let (keys, token, range) = message.parts::<S>()?;
        let (key, from) = (&keys.seal_mac, range.start + progress.done);
        let start = progress.start(prefix.len());
        let prefix = if start.is_some() { &[] } else { prefix };
        let covered = Message { key, start, prefix, from, len: range.end - from, suffix: None };
        Some((covered, With { data: token, with: range.end }))
    });
    batch_hmac(run, messages, |With { data: token, with: end }, digest| {
        token.write(end, digest.split_at(S::ENCTYPE.mac_len()).0);
    });
}
