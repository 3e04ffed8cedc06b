//! The bytes of a regular file: chunks that exist only where something was written.

use super::budget::MemoryBudget;
use crate::{OFFSET_MAX, VfsError, VfsResult};
use std::{collections::BTreeMap, sync::Arc};

/// Length of a chunk in bytes. Large enough that sequential reads are few copies, small enough for
/// holes.
pub(super) const CHUNK: usize = 64 * 1024;
/// Smallest allocation of a chunk.
const CHUNK_MIN: usize = 256;

/// A sparse file. Bytes past a chunk's end, and chunks that do not exist, are zeros.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) size: u64,
    pub(super) chunks: BTreeMap<u64, Vec<u8>>,
    allocated: u64,
    pub(super) budget: Arc<MemoryBudget>,
}

impl Content {
    pub(super) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { size: 0, chunks: BTreeMap::new(), allocated: 0, budget }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Appends `count` bytes from `offset`, or as many as there are, and returns whether they end
    /// with the file.
    pub(super) fn read(&self, into: &mut Vec<u8>, count: usize, offset: u64) -> bool {
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count_read = left.min(count);
        into.reserve(count_read);
        let mut rest = count_read;
        let mut at = offset;
        while rest > 0 {
            let (index, start) = split(at);
            let piece = rest.min(CHUNK - start);
            let chunk = self.chunks.get(&index).map_or(&[][..], Vec::as_slice);
            let held = chunk.get(start..).unwrap_or_default();
            let held = held.get(..piece).unwrap_or(held);
            into.extend_from_slice(held);
            into.resize(into.len() + piece - held.len(), 0);
            at += piece as u64;
            rest -= piece;
        }
        left <= count
    }

    /// Writes at `offset` and extends the file; returns the count, short when space ran out
    /// half-way.
    pub(super) fn write(&mut self, data: &[u8], offset: u64) -> VfsResult<usize> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= OFFSET_MAX);
        end.ok_or(VfsError::Fbig)?;
        let mut written = 0;
        while let Some(rest) = data.get(written..).filter(|rest| !rest.is_empty()) {
            let (index, start) = split(offset + written as u64);
            let piece = rest.get(..rest.len().min(CHUNK - start)).unwrap_or_default();
            match self.chunk(index, start + piece.len()) {
                Ok(chunk) => {
                    if let Some(place) = chunk.get_mut(start..start + piece.len()) {
                        place.copy_from_slice(piece);
                    }
                }
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            }
            written += piece.len();
            self.size = self.size.max(offset + written as u64);
        }
        Ok(written)
    }

    /// Returns the chunk with at least `len` bytes, taken from the budget.
    pub(super) fn chunk(&mut self, index: u64, len: usize) -> VfsResult<&mut Vec<u8>> {
        let had = self.chunks.get(&index).map_or(0, Vec::capacity);
        if had < len {
            let wanted = len.next_power_of_two().clamp(CHUNK_MIN, CHUNK);
            let more = (wanted - had) as u64;
            self.budget.take_bytes(more)?;
            self.allocated += more;
            let mut larger = Vec::with_capacity(wanted);
            larger.extend_from_slice(self.chunks.get(&index).map_or(&[], Vec::as_slice));
            self.chunks.insert(index, larger);
        }
        let chunk = self.chunks.entry(index).or_default();
        if chunk.len() < len {
            chunk.resize(len, 0);
        }
        Ok(chunk)
    }

    /// Cuts or extends the file; the extension is a hole.
    pub(super) fn set_size(&mut self, size: u64) -> VfsResult<()> {
        if size > OFFSET_MAX {
            return Err(VfsError::Fbig);
        }
        if size < self.size {
            let (last, keep) = split(size);
            let mut cut = self.chunks.split_off(&last);
            if keep > 0
                && let Some(mut chunk) = cut.remove(&last)
            {
                chunk.truncate(keep);
                self.chunks.insert(last, chunk);
            }
            cut.into_values().for_each(|chunk| self.release(chunk.capacity()));
        }
        self.size = size;
        Ok(())
    }

    pub(super) fn release(&mut self, bytes: usize) {
        self.allocated -= bytes as u64;
        self.budget.give_bytes(bytes as u64);
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        self.budget.give_bytes(self.allocated);
    }
}

/// Splits an offset into the chunk's number and the place in it.
pub(super) fn split(offset: u64) -> (u64, usize) {
    (offset / CHUNK as u64, (offset % CHUNK as u64) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes_max: u64) -> (Content, Arc<MemoryBudget>) {
        let budget = Arc::new(MemoryBudget::new(bytes_max, 1, Box::new(crate::Timestamp::default)));
        (Content::new(Arc::clone(&budget)), budget)
    }

    #[test]
    fn cutting_and_extending_again_leaves_zeros() {
        let (mut file, _) = content(1 << 20);
        file.write(&[7; 200_000], 0).unwrap();
        file.set_size(100_001).unwrap();
        file.set_size(200_000).unwrap();
        let mut data = Vec::new();
        assert!(file.read(&mut data, 200_001, 0));
        assert_eq!(data.len(), 200_000);
        assert!(data[..100_001].iter().all(|byte| *byte == 7));
        assert!(data[100_001..200_000].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_far_offset_costs_one_chunk() {
        let (mut file, budget) = content(1 << 20);
        file.write(b"end", 1 << 50).unwrap();
        assert_eq!(file.size(), (1 << 50) + 3);
        assert!(file.allocated() <= CHUNK as u64);
        drop(file);
        assert_eq!(budget.statfs().space_free, 1 << 20);
    }

    #[test]
    fn a_write_that_does_not_fit_is_short_and_then_refused() {
        let (mut file, budget) = content(2 * CHUNK as u64);
        let written = file.write(&vec![1; 3 * CHUNK], 0).unwrap();
        assert_eq!(written, 2 * CHUNK);
        assert_eq!(file.write(b"x", 2 * CHUNK as u64), Err(VfsError::Nospc));
        file.set_size(0).unwrap();
        assert_eq!(budget.statfs().space_free, 2 * CHUNK as u64);
    }
}
