//! Where a regular file has bytes and where it has none.

use super::content::{CHUNK, Content, split};
use crate::{Extent, OFFSET_MAX, VfsError, VfsResult};

/// Bytes of the blocks to which CLONE is aligned, as on most file systems that have it.
pub(super) const CLONE_BLOCK: u32 = 4096;

/// Bytes of one file on their way to another: the distance from the start of the range, and the
/// bytes there.
type Pieces = Vec<(u64, Vec<u8>)>;

impl Content {
    /// Finds data or a hole at or behind an offset.
    pub(super) fn seek(&self, what: Extent, offset: u64) -> VfsResult<Option<u64>> {
        if offset >= self.size {
            return Err(VfsError::Nxio);
        }
        match what {
            Extent::Data => Ok(self.data_from(offset)),
            Extent::Hole => Ok(Some(self.hole_from(offset))),
        }
    }

    fn data_from(&self, offset: u64) -> Option<u64> {
        let held = self.chunks.range(offset / CHUNK as u64..);
        let mut starts = held.filter_map(|(index, chunk)| {
            let start = index * CHUNK as u64;
            let at = start.max(offset);
            (at < start + chunk.len() as u64).then_some(at)
        });
        starts.next().filter(|at| *at < self.size)
    }

    fn hole_from(&self, offset: u64) -> u64 {
        let mut at = offset;
        for (index, chunk) in self.chunks.range(offset / CHUNK as u64..) {
            let start = index * CHUNK as u64;
            let end = start + chunk.len() as u64;
            if at < start || at >= end {
                break;
            }
            at = end;
        }
        at.min(self.size)
    }

    /// Fills the holes of a range with zeros that take space, and grows to its end.
    pub(super) fn allocate(&mut self, offset: u64, length: u64) -> VfsResult<()> {
        let end = range_end(offset, length)?;
        // Without this a range of exabytes would be filled until the budget is used up.
        if length > self.budget.statfs().space_free.saturating_add(self.allocated()) {
            return Err(VfsError::Nospc);
        }
        let mut at = offset;
        while at < end {
            let (index, start) = split(at);
            let piece = (CHUNK - start).min(usize::try_from(end - at).unwrap_or(CHUNK));
            self.chunk(index, start + piece)?;
            at += piece as u64;
        }
        self.size = self.size.max(end);
        Ok(())
    }

    /// Makes a hole of a range; the size stays.
    pub(super) fn deallocate(&mut self, offset: u64, length: u64) -> VfsResult<()> {
        let end = offset.saturating_add(length);
        if length == 0 {
            return Err(VfsError::Inval);
        }
        let last = end.div_ceil(CHUNK as u64);
        let indexes: Vec<u64> =
            self.chunks.range(offset / CHUNK as u64..last).map(|(index, _)| *index).collect();
        for index in indexes {
            self.punch(index, offset, end);
        }
        Ok(())
    }

    /// Takes the part of a range out of one chunk.
    fn punch(&mut self, index: u64, offset: u64, end: u64) {
        let chunk_start = index * CHUNK as u64;
        let Some(chunk) = self.chunks.get_mut(&index) else { return };
        let from = usize::try_from(offset.saturating_sub(chunk_start)).unwrap_or(CHUNK);
        let to = usize::try_from(end - chunk_start).unwrap_or(CHUNK).min(chunk.len());
        if to == chunk.len() && from < to {
            chunk.truncate(from);
        } else if let Some(bytes) = chunk.get_mut(from..to) {
            bytes.fill(0);
        }
        if chunk.is_empty() {
            let freed = chunk.capacity();
            self.chunks.remove(&index);
            self.release(freed);
        }
    }

    /// Copies the data of a range without its holes.
    fn extract(&self, offset: u64, count: u64) -> Pieces {
        let end = offset.saturating_add(count);
        let mut pieces = Vec::new();
        for (index, chunk) in self.chunks.range(offset / CHUNK as u64..end.div_ceil(CHUNK as u64)) {
            let start = index * CHUNK as u64;
            let from = usize::try_from(offset.saturating_sub(start)).unwrap_or(CHUNK);
            let to = usize::try_from(end - start).unwrap_or(CHUNK).min(chunk.len());
            if let Some(bytes) = chunk.get(from..to) {
                pieces.push((start.max(offset) - offset, bytes.to_vec()));
            }
        }
        pieces
    }

    /// Returns the data for a clone of a range.
    ///
    /// # Errors
    /// `Inval` for a range that is not aligned to blocks or lies behind the end.
    pub(super) fn to_clone(&self, offset: u64, count: u64) -> VfsResult<(u64, Pieces)> {
        let count = match count {
            0 => self.size.checked_sub(offset).ok_or(VfsError::Inval)?,
            count => count,
        };
        let end = offset.checked_add(count).filter(|end| *end <= self.size).ok_or(VfsError::Inval)?;
        if !is_aligned(offset) || !(is_aligned(end) || end == self.size) {
            return Err(VfsError::Inval);
        }
        Ok((count, self.extract(offset, count)))
    }

    /// Replaces a range by the result of `to_clone`.
    ///
    /// # Errors
    /// `Inval` for a range that is not aligned to blocks or lies behind the end, `Fbig`, `Nospc`;
    /// the file is then unchanged.
    pub(super) fn place_clone(&mut self, offset: u64, (count, pieces): (u64, Pieces)) -> VfsResult<()> {
        if count == 0 {
            return Ok(());
        }
        let end = range_end(offset, count)?;
        if !is_aligned(offset) || !(is_aligned(end) || end >= self.size) {
            return Err(VfsError::Inval);
        }
        let rounded = (pieces.len() as u64 + 2) * CHUNK as u64;
        if rounded > self.budget.statfs().space_free {
            return Err(VfsError::Nospc);
        }
        self.deallocate(offset, count)?;
        for (distance, bytes) in pieces {
            self.write(&bytes, offset + distance)?;
        }
        self.size = self.size.max(end);
        Ok(())
    }
}

fn is_aligned(offset: u64) -> bool {
    offset.is_multiple_of(CLONE_BLOCK.into())
}

fn range_end(offset: u64, length: u64) -> VfsResult<u64> {
    if length == 0 {
        return Err(VfsError::Inval);
    }
    offset.checked_add(length).filter(|end| *end <= OFFSET_MAX).ok_or(VfsError::Fbig)
}
