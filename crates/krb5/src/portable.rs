//! AES by the `aes` crate. It uses hardware support if there is any; its software is constant-time.

use aes::cipher::{BlockCipherEncBackend, BlockCipherEncClosure, BlockSizeUser, consts::U16};

use crate::cipher::{BLOCK, Block, CbcLane, Decrypt, Encrypt, LANES};

/// The number of blocks that are decrypted at once: as many as the widest AES code takes.
const DECRYPT_BLOCKS: usize = 64;

/// Encrypts the first `blocks` blocks of each of up to [`LANES`] lanes. Lanes with the same key are
/// interleaved block by block.
pub(crate) fn encrypt<'l, E: Encrypt + 'l>(lanes: impl Iterator<Item = CbcLane<'l, E>>, blocks: usize) {
    let mut all: [Option<CbcLane<'l, E>>; LANES] = [const { None }; LANES];
    for (place, lane) in all.iter_mut().zip(lanes) {
        *place = Some(lane);
    }
    while let Some(key) = all.iter().flatten().map(|lane| lane.key).next() {
        let mut rows: [Option<CbcLane<'l, E>>; LANES] = [const { None }; LANES];
        let same = all.iter_mut().filter_map(|lane| lane.take_if(|lane| std::ptr::eq(lane.key, key)));
        let mut count = 0;
        for (row, lane) in rows.iter_mut().zip(same) {
            *row = Some(lane);
            count += 1;
        }
        key.library.encrypt_with_backend(LockStep { rows: &mut rows[..count], blocks });
    }
}

/// Encrypts one block of each row in turn, `blocks` times.
///
/// This runs inside the crate's dispatch on the instruction set: one dispatch per block would cost
/// more than the block.
struct LockStep<'r, 'l, E> {
    rows: &'r mut [Option<CbcLane<'l, E>>],
    blocks: usize,
}

impl<E> BlockSizeUser for LockStep<'_, '_, E> {
    type BlockSize = U16;
}

impl<E> BlockCipherEncClosure for LockStep<'_, '_, E> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        for at in 0..self.blocks {
            for row in self.rows.iter_mut().flatten() {
                let block = &mut row.data.as_chunks_mut::<BLOCK>().0[at];
                let mut chain: Block = xor(*block, *row.chain).into();
                backend.encrypt_block((&mut chain).into());
                *row.chain = chain.into();
                *block = chain.into();
            }
        }
    }
}

/// Decrypts blocks. `chain` is the ciphertext block before them, and is set to their last one.
pub(crate) fn decrypt<D: Decrypt>(key: &D, chain: &mut [u8; BLOCK], blocks: &mut [[u8; BLOCK]]) {
    for run in blocks.chunks_mut(DECRYPT_BLOCKS) {
        let mut plain = [Block::default(); DECRYPT_BLOCKS];
        let plain = &mut plain[..run.len()];
        for (to, from) in plain.iter_mut().zip(run.iter()) {
            *to = (*from).into();
        }
        key.decrypt_blocks(plain);
        for (cipher, plain) in run.iter_mut().zip(plain.iter()) {
            let next = *cipher;
            *cipher = xor((*plain).into(), *chain);
            *chain = next;
        }
    }
}

/// XORs two blocks as integers, since a loop over bytes is not compiled to one register.
#[inline(always)]
pub(crate) fn xor(a: [u8; BLOCK], b: [u8; BLOCK]) -> [u8; BLOCK] {
    (u128::from_ne_bytes(a) ^ u128::from_ne_bytes(b)).to_ne_bytes()
}
