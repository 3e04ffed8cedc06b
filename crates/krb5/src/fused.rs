//! Hashes and encrypts, or decrypts, whole units of a message in one pass.
//!
//! The rest (the last bytes, the padding, the stolen ciphertext) is left to the separate hash and
//! cipher. They continue from the [`FusedProgress`] of each message.

use zeroize::Zeroize;

use crate::{
    Run, Segments,
    cipher::{BLOCK, Key, LANES, RoundKeys},
    hash::{BLOCK_MAX, Hash, LANES_MAX, StateColumns, Units},
    segment_steps::SegmentSteps,
    suite::{FusedLane, Suite},
};

/// The number of units (blocks of the hash) of a lane between two pauses: 8 KiB, or 16 KiB for
/// SHA-384. Laying out the keys of the lanes costs as much as two units.
const STEP_UNITS: usize = 128;

/// The number of units of all lanes that are decrypted before they are hashed: 32 KiB, which stay
/// in the first-level cache.
const TILE_UNITS: usize = 512;

/// The progress of a message.
pub(crate) struct FusedProgress<S: Suite> {
    /// The number of bytes hashed and encrypted, or decrypted and hashed, in whole units.
    pub(crate) done: usize,
    /// The last block of their ciphertext, or the IV.
    pub(crate) chain: [u8; BLOCK],
    /// The hash of these bytes and of everything before them.
    state: <S::Hash as Hash>::State,
    /// Whether the state contains a key.
    keyed: bool,
}

impl<S: Suite> FusedProgress<S> {
    /// The state before the first unit.
    pub(crate) const NEW: Self = Self { done: 0, chain: [0; BLOCK], state: S::Hash::INITIAL, keyed: false };

    /// Sets the hash state; the key, and possibly more, is already hashed into it.
    pub(crate) fn begin(&mut self, state: <S::Hash as Hash>::State) {
        (self.state, self.keyed) = (state, true);
    }

    /// Returns the hash state and the number of bytes in it, `prefix` of which do not belong to the
    /// message; `None` if no unit is done.
    pub(crate) fn start(&self, prefix: usize) -> Option<(<S::Hash as Hash>::State, u64)> {
        (self.done > 0).then_some((self.state, (S::Hash::BLOCK + prefix + self.done) as u64))
    }
}

impl<S: Suite> Drop for FusedProgress<S> {
    fn drop(&mut self) {
        // Most entries of a window are never used, and wiping them takes longer than a short
        // message.
        if self.keyed {
            self.state.zeroize();
        }
    }
}

/// A message and its keys.
pub(crate) struct Message<'b, 't, S: Suite, K> {
    pub(crate) keys: &'b K,
    pub(crate) token: &'b mut Segments<'t>,
    /// The offset of the units in the token.
    pub(crate) start: usize,
    pub(crate) units: usize,
    /// Its state has the key hashed into it.
    pub(crate) progress: &'b mut FusedProgress<S>,
}

/// A message in a lane.
struct BatchLane<'b, 't, S: Suite, K> {
    keys: &'b K,
    steps: SegmentSteps<'b, 't, BLOCK_MAX>,
    progress: &'b mut FusedProgress<S>,
}

impl<'b, 't, S: Suite, K> BatchLane<'b, 't, S, K> {
    fn new(message: Message<'b, 't, S, K>) -> Self {
        let Message { keys, token, start, units, progress } = message;
        Self {
            keys,
            steps: SegmentSteps::new(token, start, start + units * S::Hash::BLOCK, S::Hash::BLOCK),
            progress,
        }
    }

    /// Counts the units that were processed.
    fn advance(&mut self, units: usize) {
        self.steps.advance(units);
        self.progress.done += units * S::Hash::BLOCK;
    }
}

/// The messages in lanes, and the iterator of waiting ones.
struct Lanes<'b, 't, S: Suite, K, M: Iterator<Item = BatchLane<'b, 't, S, K>>> {
    waiting: std::iter::Fuse<M>,
    lanes: [Option<BatchLane<'b, 't, S, K>>; LANES],
}

impl<'b, 't, S: Suite, K, M: Iterator<Item = BatchLane<'b, 't, S, K>>> Lanes<'b, 't, S, K, M> {
    fn new(waiting: M) -> Self {
        Self { waiting: waiting.fuse(), lanes: [const { None }; LANES] }
    }

    /// Drops finished messages and refills the first `most` lanes. Returns how many are in use.
    fn fill(&mut self, most: usize) -> usize {
        let mut count = 0;
        for slot in &mut self.lanes[..most] {
            if slot.as_ref().is_none_or(|lane| lane.steps.is_done()) {
                *slot = self.waiting.find(|lane| !lane.steps.is_done());
            }
            count += usize::from(slot.is_some());
        }
        count
    }

    fn active(&mut self) -> impl Iterator<Item = &mut BatchLane<'b, 't, S, K>> {
        self.lanes.iter_mut().flatten()
    }

    /// Returns how many units of each lane are ready.
    fn prepare(&mut self) -> usize {
        let units = self.active().map(|lane| lane.steps.prepare()).min();
        units.unwrap_or_default().min(STEP_UNITS)
    }
}

/// Hashes and encrypts messages, as long as enough of them are left for this to be faster.
pub(crate) fn seal<'b, 't: 'b, S: Suite>(
    run: &mut Run<'_>,
    messages: impl Iterator<Item = Message<'b, 't, S, RoundKeys>>,
) {
    let mut lanes = Lanes::new(messages.map(BatchLane::new));
    loop {
        let count = lanes.fill(LANES);
        if !S::fuses(run.cpu, count) {
            // A unit in the bounce buffer is also unchanged in the token.
            return;
        }
        let units = lanes.prepare();
        let fused = lanes.active().map(|BatchLane { keys, steps, progress }| FusedLane {
            keys,
            chain: &mut progress.chain,
            state: &mut progress.state,
            data: steps.data(),
        });
        S::seal(run.cpu, fused, units);
        lanes.active().for_each(|lane| lane.advance(units));
        run.worked(count * units * S::Hash::BLOCK);
    }
}

/// Decrypts and hashes messages. CBC decryption has no serial dependency, so each message is
/// decrypted alone. The tiles of all messages are hashed together while they are in the first-level
/// cache.
pub(crate) fn open<'b, 't: 'b, S: Suite>(
    run: &mut Run<'_>,
    messages: impl Iterator<Item = Message<'b, 't, S, Key<S::Decrypt>>>,
) {
    let hashes = Units::of(run.cpu);
    let mut lanes = Lanes::new(messages.map(BatchLane::new));
    let mut columns = <S::Hash as Hash>::Columns::default();
    loop {
        let count = lanes.fill(S::Hash::lanes_max(hashes).min(LANES));
        if count == 0 {
            break;
        }
        let units = lanes.prepare();
        for (n, lane) in lanes.active().enumerate() {
            columns.put(n, &lane.progress.state);
        }
        let tile = TILE_UNITS / count;
        for from in (0..units).step_by(tile) {
            let now = tile.min(units - from);
            let bytes = from * S::Hash::BLOCK..(from + now) * S::Hash::BLOCK;
            let mut plain: [&[u8]; LANES_MAX] = [&[]; LANES_MAX];
            for (plain, BatchLane { keys, steps, progress }) in plain.iter_mut().zip(lanes.active()) {
                let data = &mut steps.data()[bytes.clone()];
                S::decrypt(run.cpu, keys, &mut progress.chain, data.as_chunks_mut().0);
                *plain = data;
            }
            S::Hash::compress_columns(hashes, &mut columns, &plain[..count], now);
        }
        for (n, lane) in lanes.active().enumerate() {
            lane.progress.state = columns.get(n);
            lane.advance(units);
        }
        run.worked(count * units * S::Hash::BLOCK);
    }
    columns.zeroize();
}
