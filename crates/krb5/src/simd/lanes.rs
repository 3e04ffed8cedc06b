//! Lanes in the form that the kernels need.

use std::mem::MaybeUninit;

use crate::cipher::{BLOCK, LANES, RoundKeys};

/// A message during CBC encryption.
pub(crate) struct CbcLane<'l> {
    pub(crate) keys: &'l RoundKeys,
    /// The previous block of ciphertext, or the IV.
    pub(crate) chain: &'l mut [u8; BLOCK],
    /// The data behind that block.
    pub(crate) data: &'l mut [u8],
}

/// A message that is hashed and encrypted.
pub(crate) struct SealLane<'l, H> {
    pub(crate) cbc: CbcLane<'l>,
    pub(crate) state: &'l mut H,
}

/// The pointers of lanes. Entries behind the last lane repeat the first one, so that registers are
/// always full: both compute the same result and write it to the same place. Every step reads all
/// lanes before it writes any.
pub(super) struct Pointers {
    pub(super) count: usize,
    pub(super) keys: [*const RoundKeys; LANES],
    pub(super) chain: [*mut [u8; BLOCK]; LANES],
    pub(super) at: [*mut u8; LANES],
}

impl Pointers {
    /// Collects up to [`LANES`] lanes.
    ///
    /// # Panics
    /// If a lane has fewer than `bytes` bytes.
    pub(super) fn of<'l>(lanes: impl Iterator<Item = CbcLane<'l>>, bytes: usize) -> Self {
        let nowhere = std::ptr::null_mut();
        let mut all = Self {
            count: 0,
            keys: [std::ptr::null(); LANES],
            chain: [std::ptr::null_mut(); LANES],
            at: [nowhere; LANES],
        };
        for lane in lanes {
            assert!(lane.data.len() >= bytes, "a lane is shorter than the blocks to take");
            let n = all.count;
            all.keys[n] = lane.keys;
            all.chain[n] = lane.chain;
            all.at[n] = lane.data.as_mut_ptr();
            all.count += 1;
        }
        for n in all.count..LANES {
            all.keys[n] = all.keys[0];
            all.chain[n] = all.chain[0];
            all.at[n] = all.at[0];
        }
        all
    }

    /// Collects lanes with the states of their hashes.
    pub(super) fn and_states<'l, H>(
        lanes: impl Iterator<Item = SealLane<'l, H>>,
        states: &mut [Option<&'l mut H>; LANES],
        bytes: usize,
    ) -> Self {
        let mut places = states.iter_mut();
        let lanes = lanes.map(|lane| {
            if let Some(place) = places.next() {
                *place = Some(lane.state);
            }
            lane.cbc
        });
        Self::of(lanes, bytes)
    }
}

/// The round keys of lanes interleaved, so that one load fills a register with the keys of its
/// lanes.
#[repr(C, align(64))]
pub(super) struct KeysAbreast([[[u8; BLOCK]; LANES]; RoundKeys::MAX]);

impl KeysAbreast {
    /// Interleaves the keys of the first `count` lanes for `rounds` rounds, calls `work` with them,
    /// and wipes them.
    ///
    /// # Safety
    /// The first `count` lanes have valid key pointers.
    #[inline(always)]
    pub(super) unsafe fn with(lanes: &Pointers, count: usize, rounds: usize, work: impl FnOnce(*const u8)) {
        let mut place = MaybeUninit::<Self>::uninit();
        let abreast = place.as_mut_ptr().cast::<[u8; BLOCK]>();
        for lane in 0..count {
            // SAFETY: the caller guarantees the keys.
            let keys = unsafe { &*lanes.keys[lane] };
            for (round, key) in keys.0[..=rounds].iter().enumerate() {
                // SAFETY: the address is inside `place`.
                unsafe { abreast.add(round * LANES + lane).write(*key) };
            }
        }
        work(abreast.cast());
        // SAFETY: the range is inside `place`, and any bytes may be written there.
        unsafe { place.as_mut_ptr().cast::<u8>().write_bytes(0, (rounds + 1) * LANES * BLOCK) };
        // The assembly uses the pointer, so that the compiler cannot remove the zeros as dead.
        // SAFETY: the assembly is empty.
        unsafe {
            std::arch::asm!("/* {0} */", in(reg) place.as_mut_ptr(), options(nostack, preserves_flags));
        }
    }

    /// The distance between the keys of two rounds in bytes.
    pub(super) const ROUND: usize = LANES * BLOCK;
}
