//! CBC with ciphertext stealing and a zero IV: the last two blocks are always swapped (RFC 3962
//! section 5).
//!
//! A partial last block is padded with zeros and encrypted like the others. Then it takes the place
//! of the block before it, whose first bytes move to the end. If the last block is whole, this is a
//! swap.

use std::ops::Range;

use crate::{
    Cpu, Run, Segments,
    cipher::{BLOCK, CbcLane, Key, LANES},
    portable::xor,
    segment_steps::SegmentSteps,
    suite::Suite,
};

/// The number of blocks of a lane that are processed between two pauses: 4 KiB.
const STEP_BLOCKS: usize = 256;

/// A message to encrypt, or the rest of one.
pub(crate) struct Plain<'b, 't, S: Suite> {
    pub(crate) key: &'b Key<S::Encrypt>,
    pub(crate) token: &'b mut Segments<'t>,
    /// The range of the message in the token: at least one block.
    pub(crate) range: Range<usize>,
    /// The number of bytes already encrypted, in whole blocks.
    pub(crate) done: usize,
    /// The last block of ciphertext, or the IV.
    pub(crate) chain: [u8; BLOCK],
}

/// A message in a lane.
struct CtsLane<'b, 't, S: Suite> {
    key: &'b Key<S::Encrypt>,
    steps: SegmentSteps<'b, 't, BLOCK>,
    range: Range<usize>,
    chain: [u8; BLOCK],
}

impl<'b, 't, S: Suite> CtsLane<'b, 't, S> {
    fn new(message: Plain<'b, 't, S>) -> Self {
        let Plain { key, token, range, done, chain } = message;
        assert!(range.len() >= BLOCK, "a message begins with its confounder");
        Self { key, steps: SegmentSteps::new(token, range.start + done, range.end, BLOCK), range, chain }
    }

    fn cbc(&mut self) -> CbcLane<'_, S::Encrypt> {
        CbcLane { key: self.key, chain: &mut self.chain, data: self.steps.data() }
    }

    /// Moves the last block of ciphertext, which is in `chain`, to its place.
    fn finish(self) {
        let Self { steps: SegmentSteps { token, .. }, range, chain, .. } = self;
        let Some((before, last)) = last_two(&range) else { return };
        let mut stolen = [0; BLOCK];
        token.read(before, &mut stolen);
        token.write(before, &chain);
        token.write(last, &stolen[..range.end - last]);
    }
}

/// Returns the offsets of the last two blocks of a message, if it has two.
pub(crate) fn last_two(range: &Range<usize>) -> Option<(usize, usize)> {
    let blocks = range.len().div_ceil(BLOCK);
    (blocks > 1).then(|| (range.start + (blocks - 2) * BLOCK, range.start + (blocks - 1) * BLOCK))
}

/// Encrypts messages in place, several at once. Each has at least one block.
pub(crate) fn encrypt<'b, 't: 'b, S: Suite>(
    run: &mut Run<'_>,
    messages: impl Iterator<Item = Plain<'b, 't, S>>,
) {
    let mut waiting = messages.map(CtsLane::new).fuse();
    let mut lanes: [Option<CtsLane<'b, 't, S>>; LANES] = [const { None }; LANES];
    loop {
        for slot in &mut lanes {
            while slot.as_ref().is_none_or(|lane| lane.steps.is_done()) {
                let done = std::mem::replace(slot, waiting.next());
                if let Some(lane) = done {
                    lane.finish();
                } else if slot.is_none() {
                    break;
                }
            }
        }
        let Some(blocks) = lanes.iter_mut().flatten().map(|lane| lane.steps.prepare()).min() else { return };
        let blocks = blocks.min(STEP_BLOCKS);
        S::encrypt(run.cpu, lanes.iter_mut().flatten().map(CtsLane::cbc), blocks);
        let mut count = 0;
        for lane in lanes.iter_mut().flatten() {
            lane.steps.advance(blocks);
            count += 1;
        }
        run.worked(count * blocks * BLOCK);
    }
}

/// Decrypts a message of at least one block from byte `done` on, a multiple of the block length.
/// `chain` is the ciphertext block before that.
pub(crate) fn decrypt<S: Suite>(
    run: &mut Run<'_>,
    key: &Key<S::Decrypt>,
    token: &mut Segments<'_>,
    range: Range<usize>,
    done: usize,
    mut chain: [u8; BLOCK],
) {
    let cpu = run.cpu;
    let Some((before, last)) = last_two(&range) else {
        let mut block = [0; BLOCK];
        token.read(range.start, &mut block);
        token.write(range.start, &xor(block_of::<S>(cpu, key, block), chain));
        return;
    };
    let mut steps = SegmentSteps::<BLOCK>::new(token, range.start + done, before, BLOCK);
    while !steps.is_done() {
        let blocks = steps.prepare().min(LANES * STEP_BLOCKS);
        S::decrypt(cpu, key, &mut chain, &mut steps.data().as_chunks_mut().0[..blocks]);
        steps.advance(blocks);
        run.worked(blocks * BLOCK);
    }

    let (mut stolen, mut front) = ([0; BLOCK], [0; BLOCK]);
    let front = &mut front[..range.end - last];
    token.read(before, &mut stolen);
    token.read(last, front);
    let filled = block_of::<S>(cpu, key, stolen);
    token.write(before, &swap_back::<S>(cpu, key, filled, chain, front));
    token.write(last, front);
}

/// Returns the plaintext of the last block but one, and puts the plaintext of the last into
/// `front`. `filled` is the decrypted block that had been padded. `front` is the start of the
/// ciphertext before it; the rest was stolen as padding.
pub(crate) fn swap_back<S: Suite>(
    cpu: Cpu,
    key: &Key<S::Decrypt>,
    filled: [u8; BLOCK],
    chain: [u8; BLOCK],
    front: &mut [u8],
) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..front.len()].copy_from_slice(front);
    let (filled, cipher) = (u128::from_le_bytes(filled), u128::from_le_bytes(block));
    let rest = if front.len() < BLOCK { filled & (!0 << (8 * front.len())) } else { 0 };
    front.copy_from_slice(&(filled ^ cipher).to_le_bytes()[..front.len()]);
    xor(block_of::<S>(cpu, key, (cipher | rest).to_le_bytes()), chain)
}

/// Decrypts one block without chaining.
pub(crate) fn block_of<S: Suite>(cpu: Cpu, key: &Key<S::Decrypt>, block: [u8; BLOCK]) -> [u8; BLOCK] {
    let mut blocks = [block];
    S::decrypt(cpu, key, &mut [0; BLOCK], &mut blocks);
    blocks[0]
}
