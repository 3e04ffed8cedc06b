//! CBC with ciphertext stealing and a zero IV: the last two blocks are always swapped (RFC 3962 section 5).
//!
//! A last block that is not whole is filled up with zeros and encrypted like the others; then it takes the place of
//! the one before, whose front moves to the end. With a whole last block that is a swap.

use std::ops::Range;

use crate::{
    Cpu, Run, Segments,
    cipher::{BLOCK, CbcLane, Key, LANES, Suite},
    portable::xor,
    segments::Cursor,
};

/// How many blocks of a lane are worked on before others get their turn: 4 KiB.
const STEP_BLOCKS: usize = 256;

/// A message to encrypt, or what is left of it.
pub(crate) struct Plain<'b, 't, S: Suite> {
    pub(crate) key: &'b Key<S::Encrypt>,
    pub(crate) token: &'b mut Segments<'t>,
    /// Where the message lies in the token: a block at least.
    pub(crate) range: Range<usize>,
    /// How many bytes are encrypted already: whole blocks.
    pub(crate) done: usize,
    /// The last block of ciphertext.
    pub(crate) chain: [u8; BLOCK],
}

/// A message on its way.
struct Lane<'b, 't, S: Suite> {
    message: Plain<'b, 't, S>,
    cursor: Cursor,
    /// A block that does not lie in one piece, or that is filled up.
    bounce: [u8; BLOCK],
    bounced: bool,
}

impl<'b, 't, S: Suite> Lane<'b, 't, S> {
    fn new(message: Plain<'b, 't, S>) -> Self {
        assert!(message.range.len() >= BLOCK, "a message begins with its confounder");
        let cursor = message.token.cursor(message.range.start + message.done);
        Self { message, cursor, bounce: [0; BLOCK], bounced: false }
    }

    fn is_done(&self) -> bool {
        self.cursor.at >= self.message.range.end
    }

    /// Returns how many blocks can be encrypted where they lie, or in the bounce.
    fn prepare(&mut self) -> usize {
        if self.bounced {
            return 1;
        }
        let left = self.message.range.end - self.cursor.at;
        let whole = self.message.token.run(&mut self.cursor).len().min(left) / BLOCK;
        if whole > 0 {
            return whole;
        }
        self.bounced = true;
        self.bounce = [0; BLOCK];
        let mut from = self.cursor;
        self.message.token.read_on(&mut from, &mut self.bounce[..left.min(BLOCK)]);
        1
    }

    fn cbc(&mut self) -> CbcLane<'_, S::Encrypt> {
        let Plain { key, token, chain, .. } = &mut self.message;
        let data = if self.bounced { &mut self.bounce } else { token.run_mut(&mut self.cursor) };
        CbcLane { key, chain, data }
    }

    /// Takes note of encrypted blocks.
    fn advance(&mut self, blocks: usize) {
        if !self.bounced {
            self.cursor.advance(blocks * BLOCK);
        } else if self.cursor.at + BLOCK <= self.message.range.end {
            self.message.token.write_on(&mut self.cursor, &self.bounce);
        } else {
            // The block that was filled up is the chain now and gets its place in the end.
            self.cursor.at = self.message.range.end;
        }
        self.bounced = false;
    }

    fn finish(self) {
        let Plain { token, range, chain, .. } = self.message;
        let Some((before, last)) = last_two(&range) else { return };
        let mut stolen = [0; BLOCK];
        token.read(before, &mut stolen);
        token.write(before, &chain);
        token.write(last, &stolen[..range.end - last]);
    }
}

/// Returns where the last two blocks of a message begin, if it has two.
fn last_two(range: &Range<usize>) -> Option<(usize, usize)> {
    let blocks = range.len().div_ceil(BLOCK);
    (blocks > 1).then(|| (range.start + (blocks - 2) * BLOCK, range.start + (blocks - 1) * BLOCK))
}

/// Encrypts messages in place, many at once; each has at least one block.
pub(crate) fn encrypt<'b, 't: 'b, S: Suite>(
    run: &mut Run<'_>,
    messages: impl Iterator<Item = Plain<'b, 't, S>>,
) {
    let mut waiting = messages.map(Lane::new).fuse();
    let mut lanes: [Option<Lane<'b, 't, S>>; LANES] = [const { None }; LANES];
    loop {
        for slot in &mut lanes {
            while slot.as_ref().is_none_or(Lane::is_done) {
                let done = std::mem::replace(slot, waiting.next());
                if let Some(lane) = done {
                    lane.finish();
                } else if slot.is_none() {
                    break;
                }
            }
        }
        let Some(blocks) = lanes.iter_mut().flatten().map(Lane::prepare).min() else { return };
        let blocks = blocks.min(STEP_BLOCKS);
        S::encrypt(run.cpu, lanes.iter_mut().flatten().map(Lane::cbc), blocks);
        let mut count = 0;
        for lane in lanes.iter_mut().flatten() {
            lane.advance(blocks);
            count += 1;
        }
        run.worked(count * blocks * BLOCK);
    }
}

/// Decrypts what is left of a message of at least one block: behind `done` bytes, whole blocks, whose last
/// ciphertext is `chain`.
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
    let mut cursor = token.cursor(range.start + done);
    while cursor.at < before {
        let left = before - cursor.at;
        let piece = token.run_mut(&mut cursor);
        let whole = (piece.len().min(left) / BLOCK).min(LANES * STEP_BLOCKS);
        if whole > 0 {
            S::decrypt(cpu, key, &mut chain, &mut piece.as_chunks_mut().0[..whole]);
            cursor.advance(whole * BLOCK);
        } else {
            let mut block = [[0; BLOCK]];
            let mut from = cursor;
            token.read_on(&mut from, block.as_flattened_mut());
            S::decrypt(cpu, key, &mut chain, &mut block);
            token.write_on(&mut cursor, block.as_flattened());
        }
        run.worked(whole.max(1) * BLOCK);
    }

    // What was filled up, and the front of the block before it.
    let (mut stolen, mut front) = ([0; BLOCK], [0; BLOCK]);
    let front = &mut front[..range.end - last];
    token.read(before, &mut stolen);
    token.read(last, front);
    let mut filled = block_of::<S>(cpu, key, stolen);
    let mut plain = [0; BLOCK];
    for ((plain, filled), front) in plain.iter_mut().zip(&mut filled).zip(front.iter()) {
        *plain = *filled ^ front;
        *filled = *front;
    }
    token.write(before, &xor(block_of::<S>(cpu, key, filled), chain));
    token.write(last, &plain[..front.len()]);
}

/// Decrypts one block without a chain.
fn block_of<S: Suite>(cpu: Cpu, key: &Key<S::Decrypt>, block: [u8; BLOCK]) -> [u8; BLOCK] {
    let mut blocks = [block];
    S::decrypt(cpu, key, &mut [0; BLOCK], &mut blocks);
    blocks[0]
}
