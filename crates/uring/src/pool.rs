//! Buffers that the kernel takes for itself when bytes arrive: waiting for them takes none.

#![allow(unsafe_code)]

use io_uring::IoUring;
use io_uring::types::BufRingEntry;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// What the kernel wants the ring of entries to start at a multiple of, and at least what any machine's pages are.
const ALIGNMENT: usize = 64 << 10;

/// The kernel's name for the one group of buffers in a ring.
pub(crate) const GROUP: u16 = 0;

/// A buffer that the kernel has filled; [`Ring::give_back`](crate::Ring::give_back) makes it free again.
#[derive(Debug, PartialEq, Eq)]
pub struct Chunk {
    index: u16,
}

/// Buffers of one size, and the ring of entries by which the kernel is given them.
pub(crate) struct Pool {
    entries: NonNull<BufRingEntry>,
    entries_layout: Layout,
    memory: NonNull<u8>,
    memory_layout: Layout,
    count: u16,
    size: usize,
    tail: u16,
    /// For each buffer the bytes in it while it is out of the kernel's hands.
    filled: Vec<Option<usize>>,
}

impl Pool {
    /// Makes `count` buffers, a power of two, of `size` bytes each, and gives them to the kernel.
    pub(crate) fn register(ring: &IoUring, count: u16, size: usize) -> io::Result<Self> {
        if !count.is_power_of_two() || size == 0 || u32::try_from(size).is_err() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let layout = |size, align| Layout::from_size_align(size, align).map_err(io::Error::other);
        let entries_layout = layout(usize::from(count) * size_of::<BufRingEntry>(), ALIGNMENT)?;
        let memory_layout = layout(usize::from(count) * size, ALIGNMENT)?;
        let mut pool = Self {
            entries: allocate(entries_layout).cast(),
            entries_layout,
            memory: allocate(memory_layout),
            memory_layout,
            count,
            size,
            tail: 0,
            filled: vec![Some(0); usize::from(count)],
        };
        let address = pool.entries.as_ptr() as u64;
        // SAFETY: `entries` is an allocation of `count` entries that starts at a multiple of the page size. It and the
        // buffers are freed only when no operation can use them any more, see `Ring::drop`.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, count, GROUP, 0)? };
        for index in 0..count {
            pool.give_back(Chunk { index });
        }
        Ok(pool)
    }

    /// Notes that the kernel has filled a buffer.
    pub(crate) fn take(&mut self, index: u16, length: usize) -> Option<Chunk> {
        let filled = self.filled.get_mut(usize::from(index))?;
        *filled = Some(length.min(self.size));
        Some(Chunk { index })
    }

    /// The bytes in a buffer.
    pub(crate) fn bytes(&self, chunk: &Chunk) -> &[u8] {
        let Some(Some(length)) = self.filled.get(usize::from(chunk.index)) else { return &[] };
        // SAFETY: the index is below `count` as `filled` has that many, and the length at most `size`, so the range is
        // inside of the allocation, which was zeroed and so is initialised throughout. `filled` says that the kernel does
        // not have the buffer, and `give_back`, which would change that, needs the pool exclusively.
        unsafe {
            let start = self.memory.as_ptr().add(usize::from(chunk.index) * self.size);
            std::slice::from_raw_parts(start, *length)
        }
    }

    /// Gives a buffer to the kernel.
    pub(crate) fn give_back(&mut self, chunk: Chunk) {
        let index = usize::from(chunk.index);
        // A chunk of another ring must not give the kernel a buffer twice.
        if self.filled.get_mut(index).and_then(Option::take).is_none() {
            return;
        }
        let place = usize::from(self.tail & (self.count - 1));
        // SAFETY: `place` is below `count`, and `index`, too, as `filled` has that many. The kernel reads entries only
        // from its head up to the tail, and there are no more buffers than entries: this entry is not being read.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(place);
            entry.set_addr(self.memory.as_ptr().add(index * self.size) as u64);
            entry.set_len(self.size as u32);
            entry.set_bid(chunk.index);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is a field of the first entry, which is inside of the allocation, aligned, and read by the
        // kernel alone; that is what the release store is for.
        unsafe {
            let tail = BufRingEntry::tail(self.entries.as_ptr());
            AtomicU16::from_ptr(tail.cast_mut()).store(self.tail, Ordering::Release);
        }
    }

    /// Bytes of a buffer.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: both were allocated with these layouts, and are freed here alone.
        unsafe {
            dealloc(self.entries.as_ptr().cast(), self.entries_layout);
            dealloc(self.memory.as_ptr(), self.memory_layout);
        }
    }
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: no layout here is empty: count and size are at least one.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}
