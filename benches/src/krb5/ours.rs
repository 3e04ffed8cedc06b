//! Our own column: the `krb5` crate on one of its paths, on memory of the same shape as the other
//! columns.

use super::program::WorkDone;
use super::row::{TokenOperation, TokenRow};
use anyhow::ensure;
use krb5::{
    ContextKeys, Cpu, Enctype, MicMessage, MicToken, ProtocolKey, Role, Run, Segments, TokenError,
    UnwrapMessage, VerifyMessage, WRAP_HEADROOM, WrapMessage,
};
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The value of the same constant in `column.h`.
const POOL_BYTES: usize = 1 << 20;
const POOL_MESSAGES_MAX: usize = 256;

/// A row, ready to run: about a mebibyte of messages.
pub(super) struct Ours {
    row: TokenRow,
    cpu: Cpu,
    contexts: Vec<(ContextKeys, ContextKeys)>,
    tokens: Vec<Vec<u8>>,
    /// The tokens before each run.
    saved: Vec<Vec<u8>>,
    signatures: Vec<MicToken>,
}

/// Both sides of a context: the initiator's keys, the acceptor's.
fn sides(enctype: Enctype, seed: u8) -> anyhow::Result<(ContextKeys, ContextKeys)> {
    let key = vec![seed; enctype.key_len()];
    let side = |role| ContextKeys::new(enctype, ProtocolKey::AcceptorSubkey(&key), role);
    Ok((side(Role::Initiator)?, side(Role::Acceptor)?))
}

fn processor_time() -> anyhow::Result<Duration> {
    Ok(Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?))
}

/// Works on messages in batches of `count`; returns the processor time.
fn timed<M>(
    cpu: Cpu,
    count: usize,
    all: &mut [M],
    work: impl Fn(&mut Run<'_>, &mut [M]),
) -> anyhow::Result<Duration> {
    let (mut run, start) = (Run::new(cpu), processor_time()?);
    all.chunks_mut(count).for_each(|batch| work(&mut run, batch));
    Ok(processor_time()?.saturating_sub(start))
}

impl Ours {
    /// Makes the messages; the other side makes the ones to open or check.
    pub(super) fn new(row: TokenRow, cpu: Cpu) -> anyhow::Result<Self> {
        let batches = (POOL_BYTES / (row.count * (row.len + 64))).clamp(1, POOL_MESSAGES_MAX / row.count);
        let contexts: Vec<_> =
            (0..row.contexts).map(|n| sides(row.enctype, n as u8)).collect::<Result<_, _>>()?;
        let Some((ours, _)) = contexts.first() else { anyhow::bail!("a row of no context") };
        let around = if row.operation.seals() { WRAP_HEADROOM + ours.wrap_trailer_len() } else { 0 };
        let saved = vec![vec![0xa7; row.len + around]; batches * row.count];
        let tokens = saved.clone();
        let mut made = Self { row, cpu, contexts, tokens, saved, signatures: Vec::new() };
        match row.operation {
            TokenOperation::Wrap | TokenOperation::Mic => {}
            TokenOperation::Unwrap => {
                made.wrap()?;
                made.saved.clone_from(&made.tokens);
            }
            TokenOperation::Verify => made.signatures = made.mic()?.1,
        }
        Ok(made)
    }

    /// Works for so long.
    pub(super) fn turn(&mut self, length: Duration) -> anyhow::Result<WorkDone> {
        let mut work = WorkDone { bytes: 0.0, used: Duration::ZERO };
        self.once()?;
        while work.used < length {
            work.used += self.once()?;
            work.bytes += (self.tokens.len() * self.row.len) as f64;
        }
        Ok(work)
    }

    /// Puts all messages back and runs them once; returns the processor time.
    fn once(&mut self) -> anyhow::Result<Duration> {
        for (token, saved) in self.tokens.iter_mut().zip(&self.saved) {
            token.copy_from_slice(saved);
        }
        match self.row.operation {
            TokenOperation::Wrap => self.wrap(),
            TokenOperation::Unwrap => self.unwrap(),
            TokenOperation::Mic => Ok(self.mic()?.0),
            TokenOperation::Verify => self.verify(),
        }
    }

    fn wrap(&mut self) -> anyhow::Result<Duration> {
        let contexts = self.contexts.iter().cycle();
        let mut all: Vec<_> = self
            .tokens
            .iter_mut()
            .zip(contexts)
            .zip(0..)
            .map(|((token, (keys, _)), sequence)| WrapMessage {
                keys,
                sequence,
                confounder: [sequence as u8; 16],
                token: Segments::from(token),
            })
            .collect();
        timed(self.cpu, self.row.count, &mut all, krb5::wrap_with)
    }

    fn unwrap(&mut self) -> anyhow::Result<Duration> {
        let contexts = self.contexts.iter().cycle();
        let mut all: Vec<_> = self
            .tokens
            .iter_mut()
            .zip(contexts)
            .map(|(token, (_, keys))| UnwrapMessage {
                keys,
                token: Segments::from(token),
                result: Err(TokenError::Malformed),
            })
            .collect();
        let used = timed(self.cpu, self.row.count, &mut all, krb5::unwrap_with)?;
        ensure!(all.iter().all(|message| message.result.is_ok()), "a token was refused");
        Ok(used)
    }

    fn mic(&self) -> anyhow::Result<(Duration, Vec<MicToken>)> {
        let contexts = self.contexts.iter().cycle();
        let mut all: Vec<_> = self
            .tokens
            .iter()
            .zip(contexts)
            .zip(0..)
            .map(|((data, (keys, _)), sequence)| MicMessage { keys, sequence, data, token: MicToken::EMPTY })
            .collect();
        let used = timed(self.cpu, self.row.count, &mut all, krb5::get_mic_with)?;
        Ok((used, all.iter().map(|message| message.token).collect()))
    }

    fn verify(&self) -> anyhow::Result<Duration> {
        let contexts = self.contexts.iter().cycle();
        let mut all: Vec<_> = self
            .tokens
            .iter()
            .zip(contexts)
            .zip(&self.signatures)
            .map(|((data, (_, keys)), token)| VerifyMessage {
                keys,
                data,
                token,
                result: Err(TokenError::Malformed),
            })
            .collect();
        let used = timed(self.cpu, self.row.count, &mut all, krb5::verify_mic_with)?;
        ensure!(all.iter().all(|message| message.result.is_ok()), "a signature was refused");
        Ok(used)
    }
}

/// Opens a wrap token and checks a MIC token that MIT's library made with a key of sevens: both
/// columns do the same.
pub(super) fn check_tokens_of_mit(enctype: Enctype, wrap: &mut [u8], mic: &[u8]) -> anyhow::Result<()> {
    let (_, acceptor) = sides(enctype, 7)?;
    let mut batch =
        [UnwrapMessage { keys: &acceptor, token: Segments::from(wrap), result: Err(TokenError::Malformed) }];
    krb5::unwrap(&mut batch);
    let [UnwrapMessage { result, .. }] = batch;
    let opened = result?;
    ensure!(opened.plain.len() == 100, "the token has {} bytes of plaintext", opened.plain.len());
    // The message is followed by the header, which is covered but not sent again, and the checksum.
    let (message, header) = mic.split_at(100);
    acceptor.verify(message, header)?;
    Ok(())
}
