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

/// A message on its way: the first `done` blocks of `data` are ciphertext, the last of them is in `chain`.
struct Lane<'a, E> {
    key: &'a E,
    data: &'a mut [u8],
    done: usize,
    chain: Block,
}

impl<'a, E: Encrypt> Lane<'a, E> {
    fn new((key, data): (&'a E, &'a mut [u8])) -> Self {
        assert!(data.len() >= BLOCK, "a message begins with its confounder");
        Self { key, data, done: 0, chain: Block::default() }
    }

    fn remaining(&self) -> usize {
        self.data.len() / BLOCK - self.done
    }

    /// Swaps the last two blocks; a last block that is not whole takes what it lacks from the one before.
    fn finish(self) {
        let whole = self.data.len() / BLOCK * BLOCK;
        let (head, tail) = self.data.split_at_mut(whole);
        let blocks = head.as_chunks_mut::<BLOCK>().0;
        match blocks {
            [.., before, last] if tail.is_empty() => std::mem::swap(before, last),
            [.., last] if !tail.is_empty() => {
                let mut stolen: Block = (*last).into();
                for (byte, plain) in stolen.iter_mut().zip(tail.iter()) {
                    *byte ^= plain;
                }
                self.key.encrypt_block(&mut stolen);
                tail.copy_from_slice(&last[..tail.len()]);
                *last = stolen.into();
            }
            _ => {}
        }
    }
}

/// Encrypts messages in place, many at once; each has at least one block.
pub(crate) fn encrypt<'a, E: Encrypt + 'a>(messages: impl IntoIterator<Item = (&'a E, &'a mut [u8])>) {
    let mut waiting = messages.into_iter().map(Lane::new).fuse();
    let mut lanes: [Option<Lane<'a, E>>; LANES] = Default::default();
    loop {
        // Lanes that are done were taken out below: the next messages take their places.
        let mut active: [Option<&mut Lane<'a, E>>; LANES] = Default::default();
        let mut count = 0;
        let mut steps = usize::MAX;
        for slot in &mut lanes {
            if slot.is_none() {
                *slot = waiting.next();
            }
            if let (Some(lane), Some(place)) = (slot, active.get_mut(count)) {
                steps = steps.min(lane.remaining());
                *place = Some(lane);
                count += 1;
            }
        }
        let Some((Some(first), rest)) = active[..count].split_first_mut() else { return };
        let key = first.key;
        if rest.iter().flatten().all(|lane| std::ptr::eq(lane.key, key)) {
            key.encrypt_with_backend(LockStep { lanes: &mut active[..count], steps });
        } else {
            lock_step(&mut active[..count], steps, |key, block| key.encrypt_block(block));
        }
        for slot in &mut lanes {
            if let Some(lane) = slot.take_if(|lane| lane.remaining() == 0) {
                lane.finish();
            }
        }
    }
}

/// Lanes of one key, to run inside the library's choice of instructions: no call for a block.
struct LockStep<'l, 'm, 'a, E> {
    lanes: &'l mut [Option<&'m mut Lane<'a, E>>],
    steps: usize,
}

impl<E> BlockSizeUser for LockStep<'_, '_, '_, E> {
    type BlockSize = U16;
}

impl<E> BlockCipherEncClosure for LockStep<'_, '_, '_, E> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        lock_step(self.lanes, self.steps, |_, block| backend.encrypt_block(block.into()));
    }
}

/// Encrypts the next `steps` blocks of every lane, one block of each in turn.
#[inline(always)]
fn lock_step<E>(lanes: &mut [Option<&mut Lane<'_, E>>], steps: usize, cipher: impl Fn(&E, &mut Block)) {
    for _ in 0..steps {
        for lane in lanes.iter_mut().flatten() {
            let at = lane.done * BLOCK;
            let Some(block) = lane.data.get_mut(at..at + BLOCK) else { continue };
            for (chain, plain) in lane.chain.iter_mut().zip(block.iter()) {
                *chain ^= plain;
            }
            cipher(lane.key, &mut lane.chain);
            block.copy_from_slice(&lane.chain);
            lane.done += 1;
        }
    }
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
            for ((out, plain), before) in cipher.iter_mut().zip(plain.iter()).zip(before) {
                *out = plain ^ before;
            }
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
