//! Reuses the memory of records.
//!
//! A thread that moves many records keeps their buffers. It reuses the last one first, since that
//! is still in the processor's caches. Threads that have not called [`keep`] always allocate, and
//! free the buffers that they give back.

use std::cell::RefCell;

/// The bytes besides the data of a record for which a size has space.
const AROUND: usize = 2 << 10;

/// The buffer sizes in bytes: small ones for records without data, and one for each common size of
/// READ and WRITE. A record of a size that is missing here always allocates.
const SIZES: [usize; 12] = [
    256,
    1 << 10,
    AROUND + (1 << 10),
    AROUND + (4 << 10),
    AROUND + (8 << 10),
    AROUND + (16 << 10),
    AROUND + (32 << 10),
    AROUND + (64 << 10),
    AROUND + (128 << 10),
    AROUND + (256 << 10),
    AROUND + (512 << 10),
    AROUND + (1 << 20),
];

/// The buffers of one size, the last used at the end, and the minimum of their number since the
/// last trim.
#[derive(Debug)]
struct SizeStack {
    spare: Vec<Vec<u8>>,
    idle: usize,
}

/// The buffers that a thread keeps.
#[derive(Debug)]
struct Memory {
    stacks: [SizeStack; SIZES.len()],
    bytes: usize,
    bytes_max: usize,
}

thread_local! {
    static MEMORY: RefCell<Memory> = const {
        RefCell::new(Memory {
            stacks: [const { SizeStack { spare: Vec::new(), idle: 0 } }; SIZES.len()],
            bytes: 0,
            bytes_max: 0,
        })
    };
}

/// Lets the calling thread keep at most this many bytes from now on.
pub fn keep(bytes_max: usize) {
    MEMORY.with_borrow_mut(|memory| memory.bytes_max = bytes_max);
}

/// Takes an empty vector with a capacity of at least `capacity` bytes.
pub fn take(capacity: usize) -> Vec<u8> {
    let Some(size) = size_for(capacity) else { return Vec::with_capacity(capacity) };
    match MEMORY.with_borrow_mut(|memory| memory.take(size)) {
        Some(mut kept) => {
            kept.clear();
            kept
        }
        None => Vec::with_capacity(SIZES.get(size).copied().unwrap_or(capacity)),
    }
}

/// Takes a kept vector with a capacity of at least `capacity` bytes, if there is one. It has its
/// old content.
pub fn take_kept(capacity: usize) -> Option<Vec<u8>> {
    MEMORY.with_borrow_mut(|memory| memory.take(size_for(capacity)?))
}

/// Rounds up to the size that [`take`] returns, unless that is much more, so that a grown buffer
/// can be reused.
pub(crate) fn rounded(capacity: usize) -> usize {
    let size = size_for(capacity).and_then(|size| SIZES.get(size).copied());
    size.filter(|size| size - capacity <= AROUND).unwrap_or(capacity)
}

/// Takes back a buffer that is no longer needed.
pub fn give(buffer: Vec<u8>) {
    // The buffer is freed after the borrow of the thread's memory has ended.
    drop(MEMORY.with_borrow_mut(|memory| memory.give(buffer)));
}

/// Reserves space for `more` bytes. A vector that is too small moves to a kept buffer, and its own
/// buffer is given back.
pub fn reserve(buffer: &mut Vec<u8>, more: usize) {
    if buffer.capacity() - buffer.len() >= more {
        return;
    }
    let mut larger = take(buffer.len().saturating_add(more));
    larger.extend_from_slice(buffer);
    give(std::mem::replace(buffer, larger));
}

/// Moves a vector that uses a small part of its capacity to a smaller buffer, so that its own can
/// be reused.
pub fn fit(buffer: &mut Vec<u8>) {
    let wanted = size_for(buffer.len()).and_then(|size| SIZES.get(size));
    if wanted.is_none_or(|wanted| buffer.capacity() / SLACK_MAX <= *wanted) {
        return;
    }
    let mut smaller = take(buffer.len());
    smaller.extend_from_slice(buffer);
    give(std::mem::replace(buffer, smaller));
}

/// Frees the buffers of the calling thread that were not used since the last call.
pub fn trim() {
    drop(MEMORY.with_borrow_mut(Memory::trim));
}

/// The capacity of a vector as a multiple of its length, above which [`fit`] moves it.
const SLACK_MAX: usize = 4;

/// Returns the smallest size with space for this many bytes.
fn size_for(capacity: usize) -> Option<usize> {
    SIZES.iter().position(|size| *size >= capacity)
}

impl Memory {
    fn take(&mut self, size: usize) -> Option<Vec<u8>> {
        let stack = self.stacks.get_mut(size)?;
        let kept = stack.spare.pop()?;
        stack.idle = stack.idle.min(stack.spare.len());
        self.bytes -= kept.capacity();
        Some(kept)
    }

    /// Gives back a buffer; returns it if it is not kept.
    fn give(&mut self, buffer: Vec<u8>) -> Option<Vec<u8>> {
        let capacity = buffer.capacity();
        let Some(size) = SIZES.iter().rposition(|size| *size <= capacity) else { return Some(buffer) };
        let Some(stack) = self.stacks.get_mut(size).filter(|_| self.bytes + capacity <= self.bytes_max)
        else {
            return Some(buffer);
        };
        stack.spare.push(buffer);
        self.bytes += capacity;
        None
    }

    /// Removes the unused buffers, which are the oldest, and returns them.
    fn trim(&mut self) -> Vec<Vec<u8>> {
        let mut idle = Vec::new();
        for stack in &mut self.stacks {
            idle.extend(stack.spare.drain(..stack.idle.min(stack.spare.len())));
            stack.idle = stack.spare.len();
            if stack.spare.is_empty() {
                stack.spare = Vec::new();
            }
        }
        self.bytes -= idle.iter().map(Vec::capacity).sum::<usize>();
        idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> usize {
        MEMORY.with_borrow(|memory| memory.bytes)
    }

    /// Runs on a new thread, which has no memory of other tests.
    #[expect(clippy::disallowed_methods, reason = "tests may start threads")]
    fn on_a_thread(run: impl FnOnce() + Send) {
        std::thread::scope(|scope| scope.spawn(run).join().unwrap());
    }

    #[test]
    fn the_latest_returned_buffer_is_taken_first_and_is_empty() {
        on_a_thread(|| {
            keep(1 << 20);
            let (mut first, mut second) = (take(5000), take(5000));
            first.push(1);
            second.push(2);
            let places = (first.as_ptr(), second.as_ptr());
            give(first);
            give(second);
            let (again, other) = (take(3100), take_kept(6000).unwrap());
            assert_eq!((again.as_ptr(), other.as_ptr()), (places.1, places.0));
            assert!(again.is_empty());
            assert_eq!(other, [1]);
            assert_eq!((take_kept(6000), kept()), (None, 0));
        });
    }

    #[test]
    fn a_thread_keeps_no_more_than_it_asked_for_and_nothing_unasked() {
        on_a_thread(|| {
            give(Vec::with_capacity(5000));
            assert_eq!(kept(), 0);
            keep(12_000);
            (0..10).for_each(|_| give(Vec::with_capacity(5000)));
            assert_eq!(kept(), 10_000);
            give(Vec::with_capacity(100));
            assert_eq!(kept(), 10_000);
        });
    }

    #[test]
    fn memory_that_is_unused_between_two_trims_is_freed() {
        on_a_thread(|| {
            keep(1 << 20);
            (0..10).for_each(|_| give(Vec::with_capacity(4000)));
            trim();
            let used: Vec<_> = (0..3).map(|_| take(3000)).collect();
            used.into_iter().for_each(give);
            trim();
            assert_eq!(kept(), 3 * 4000);
            trim();
            assert_eq!(kept(), 0);
        });
    }

    #[test]
    fn growing_and_fitting_keep_the_content() {
        on_a_thread(|| {
            keep(4 << 20);
            let mut buffer = take(100);
            buffer.extend_from_slice(b"head");
            reserve(&mut buffer, 1 << 20);
            assert!(buffer.capacity() >= 4 + (1 << 20));
            assert_eq!(buffer, b"head");
            fit(&mut buffer);
            assert!(buffer.capacity() < 1 << 12);
            assert_eq!(buffer, b"head");
            buffer.resize(1000, 0);
            let place = buffer.as_ptr();
            fit(&mut buffer);
            assert_eq!(buffer.as_ptr(), place);
        });
    }
}
