//! CBC with ciphertext stealing and a zero IV: the last two blocks are always swapped (RFC 3962 section 5).

use aes::cipher::{BlockCipherEncBackend, BlockCipherEncClosure, BlockSizeUser, consts::U16};

use crate::cipher::{BLOCK, Block, Decrypt, Encrypt};

/// How many messages are encrypted in lock step.
///
/// A block of CBC waits for the one before, some 60 cycles; blocks of other messages fill the wait. Two
/// AES rounds can start in a cycle and 16 chains keep that busy, more only cost registers.
const LANES: usize = 16;

/// How many blocks are decrypted between two looks at the ciphertext: what the widest AES code takes at once.
const DECRYPT_BLOCKS: usize = 64;

/// A message on its way: the first `done` blocks of `data` are ciphertext.
struct Lane<'a> {
    data: &'a mut [u8],
    done: usize,
}

impl<'a> Lane<'a> {
    fn new(data: &'a mut [u8]) -> Self {
        assert!(data.len() >= BLOCK, "a message begins with its confounder");
        Self { data, done: 0 }
    }

    fn remaining(&self) -> usize {
        self.data.len() / BLOCK - self.done
    }

    /// Hands out the next blocks with the ciphertext before them.
    fn advance(&mut self, steps: usize) -> Row<'_> {
        let (before, now) = self.data.as_chunks_mut::<BLOCK>().0.split_at_mut(self.done);
        self.done += steps;
        let chain = before.last().map_or_else(Block::default, |&block| block.into());
        Row { blocks: now.iter_mut(), chain }
    }

    /// Swaps the last two blocks; a last block that is not whole takes what it lacks from the one before.
    fn finish(self, key: &impl Encrypt) {
        let (blocks, tail) = self.data.as_chunks_mut::<BLOCK>();
        match blocks {
            [.., before, last] if tail.is_empty() => std::mem::swap(before, last),
            [.., last] if !tail.is_empty() => {
                let mut stolen: Block = (*last).into();
                for (byte, plain) in stolen.iter_mut().zip(tail.iter()) {
                    *byte ^= plain;
                }
                key.encrypt_block(&mut stolen);
                tail.copy_from_slice(&last[..tail.len()]);
                *last = stolen.into();
            }
            _ => {}
        }
    }
}

/// Encrypts messages in place, many at once; each has at least one block.
pub(crate) fn encrypt<'a>(key: &impl Encrypt, messages: impl IntoIterator<Item = &'a mut [u8]>) {
    let mut waiting = messages.into_iter().map(Lane::new).fuse();
    let mut lanes: [Option<Lane<'a>>; LANES] = Default::default();
    loop {
        for slot in lanes.iter_mut().filter(|slot| slot.is_none()) {
            *slot = waiting.next();
        }
        let Some(steps) = lanes.iter().flatten().map(Lane::remaining).min() else { return };
        let mut rows: [Option<Row<'_>>; LANES] = Default::default();
        let mut count = 0;
        for (place, lane) in rows.iter_mut().zip(lanes.iter_mut().flatten()) {
            *place = Some(lane.advance(steps));
            count += 1;
        }
        key.encrypt_with_backend(LockStep { rows: &mut rows[..count], steps });
        for slot in &mut lanes {
            if let Some(lane) = slot.take_if(|lane| lane.remaining() == 0) {
                lane.finish(key);
            }
        }
    }
}

/// The blocks of one lane in a run of lock steps, and the ciphertext before them.
struct Row<'l> {
    blocks: std::slice::IterMut<'l, [u8; BLOCK]>,
    chain: Block,
}

/// Encrypts one block of each row in turn, `steps` times.
///
/// This runs inside the library's choice of instructions: a call for each block would cost more than the block,
/// as the code for VAES spreads out the round keys at every call.
struct LockStep<'l, 'r> {
    rows: &'l mut [Option<Row<'r>>],
    steps: usize,
}

impl BlockSizeUser for LockStep<'_, '_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for LockStep<'_, '_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        for _ in 0..self.steps {
            for row in self.rows.iter_mut().flatten() {
                let Some(block) = row.blocks.next() else { continue };
                let mut chain: Block = xor(*block, row.chain.into()).into();
                backend.encrypt_block((&mut chain).into());
                row.chain = chain;
                *block = chain.into();
            }
        }
    }
}

/// Encrypts one message in place and shows it to `look` before every `step` bytes, a multiple of the block: what
/// lies before the position is plain CBC, what lies behind it is plaintext. The last look is behind the last block
/// that is whole, before the last two are swapped.
///
/// A chain of blocks leaves the processor idle for most of the time: `look` can hash for next to nothing.
pub(crate) fn encrypt_one<E: Encrypt>(key: &E, data: &mut [u8], step: usize, look: impl FnMut(&[u8], usize)) {
    assert!(data.len() >= BLOCK, "a message begins with its confounder");
    key.encrypt_with_backend(Alone { data: &mut *data, step, look });
    Lane { data, done: 0 }.finish(key);
}

/// One message to encrypt, inside the library's choice of instructions.
struct Alone<'a, F> {
    data: &'a mut [u8],
    step: usize,
    look: F,
}

impl<F> BlockSizeUser for Alone<'_, F> {
    type BlockSize = U16;
}

impl<F: FnMut(&[u8], usize)> BlockCipherEncClosure for Alone<'_, F> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(mut self, backend: &B) {
        let whole = self.data.len() / BLOCK * BLOCK;
        let mut chain = Block::default();
        for at in (0..whole).step_by(self.step) {
            (self.look)(self.data, at);
            let end = whole.min(at + self.step);
            for block in self.data[at..end].as_chunks_mut::<BLOCK>().0 {
                chain = xor(*block, chain.into()).into();
                backend.encrypt_block((&mut chain).into());
                *block = chain.into();
            }
        }
        (self.look)(self.data, whole);
    }
}

/// Adds two blocks: as one number, since byte by byte it does not end up in one register.
#[inline(always)]
fn xor(a: [u8; BLOCK], b: [u8; BLOCK]) -> [u8; BLOCK] {
    (u128::from_ne_bytes(a) ^ u128::from_ne_bytes(b)).to_ne_bytes()
}

/// Decrypts a message of at least one block in place.
pub(crate) fn decrypt<D: Decrypt>(key: &D, data: &mut [u8]) {
    unsteal(key, data);
    let whole = data.as_chunks_mut::<BLOCK>().0;
    let mut before = [0; BLOCK];
    for run in whole.chunks_mut(DECRYPT_BLOCKS) {
        let mut plain = [Block::default(); DECRYPT_BLOCKS];
        let plain = &mut plain[..run.len()];
        for (to, from) in plain.iter_mut().zip(run.iter()) {
            *to = (*from).into();
        }
        key.decrypt_blocks(plain);
        for (cipher, plain) in run.iter_mut().zip(plain.iter()) {
            let next = *cipher;
            *cipher = xor((*plain).into(), before);
            before = next;
        }
    }
}

/// Undoes the stealing: the blocks become plain CBC, the bytes behind the last whole block become plaintext.
fn unsteal<D: Decrypt>(key: &D, data: &mut [u8]) {
    let whole = data.len() / BLOCK * BLOCK;
    let (head, tail) = data.split_at_mut(whole);
    match head.as_chunks_mut::<BLOCK>().0 {
        [.., before, last] if tail.is_empty() => std::mem::swap(before, last),
        [.., last] if !tail.is_empty() => {
            let mut stolen: Block = (*last).into();
            key.decrypt_block(&mut stolen);
            last.copy_from_slice(&stolen);
            for ((tail, last), stolen) in tail.iter_mut().zip(last.iter_mut()).zip(stolen.iter()) {
                *last = *tail;
                *tail ^= stolen;
            }
        }
        _ => {}
    }
}
