//! HMACs of many messages at once. Each lane holds one message; when it ends, the lane takes the
//! next.
//!
//! Lanes run in lock step, so that no hash waits for its own previous round. The final blocks of a
//! message and the outer hash (RFC 2104 section 2) run in the lanes too: they are most of the work
//! of a short message.

use zeroize::Zeroize;

use crate::{
    Run, Segments,
    hash::{BLOCK_MAX, DIGEST_MAX, Hash, LANES_MAX, StateColumns, Units},
    hmac::{Digest, HmacKey, pad},
    segments::Cursor,
    token::Header,
};

/// The length in bytes of a lane's buffer for blocks that span pieces, and for final blocks. It is
/// small, since every lane has one.
const BUFFER: usize = 2 * BLOCK_MAX;

/// The number of bytes that all lanes process at most between two pauses.
const STEP: usize = 64 << 10;

/// Bytes in one piece or in several.
pub(crate) trait Source {
    /// Returns the contiguous bytes from a cursor. They are empty only at the end.
    fn piece(&self, at: &mut Cursor) -> &[u8];
    /// Returns the cursor of a position.
    fn place(&self, at: usize) -> Cursor;
}

impl Source for &[u8] {
    fn piece(&self, at: &mut Cursor) -> &[u8] {
        &self[at.at..]
    }

    fn place(&self, at: usize) -> Cursor {
        let mut place = Cursor::default();
        place.advance(at);
        place
    }
}

impl Source for &mut Segments<'_> {
    fn piece(&self, at: &mut Cursor) -> &[u8] {
        self.run(at)
    }

    fn place(&self, at: usize) -> Cursor {
        self.cursor(at)
    }
}

/// A source of data, with a value that identifies its digest.
pub(crate) struct With<D, T> {
    pub(crate) data: D,
    pub(crate) with: T,
}

impl<D: Source, T> Source for With<D, T> {
    fn piece(&self, at: &mut Cursor) -> &[u8] {
        self.data.piece(at)
    }

    fn place(&self, at: usize) -> Cursor {
        self.data.place(at)
    }
}

/// One message of a batch: prefix, data and suffix are hashed in this order.
pub(crate) struct Message<'k, H: Hash> {
    pub(crate) key: &'k HmacKey<H>,
    /// A state to continue from instead of the key's, and the number of bytes that it covers, the
    /// block of the key included.
    pub(crate) start: Option<(H::State, u64)>,
    pub(crate) prefix: &'k [u8],
    /// The offset of the data in the source.
    pub(crate) from: usize,
    /// The length of the data in bytes.
    pub(crate) len: usize,
    pub(crate) suffix: Option<Header>,
}

/// Calls `done` with the source and the digest of each message.
///
/// The source contains the data. It is not changed before it is returned.
pub(crate) fn batch_hmac<'k, H: Hash + 'k, S: Source>(
    run: &mut Run<'_>,
    messages: impl Iterator<Item = (Message<'k, H>, S)>,
    mut done: impl FnMut(S, &Digest),
) {
    let mut waiting = messages.fuse();
    let Some(first) = waiting.next() else { return };
    let units = Units::of(run.cpu);
    let mut columns = H::Columns::default();
    let mut lanes: [Option<MacLane<'k, H, S>>; LANES_MAX] = [const { None }; LANES_MAX];
    let mut count = 0;
    for message in std::iter::once(first).chain(waiting.by_ref()).take(H::lanes_max(units)) {
        MacLane::begin(&mut lanes[count], message, &mut columns, count);
        count += 1;
    }
    while count > 0 {
        let blocks = lock_step(units, &mut columns, &lanes[..count]);
        run.worked(count * blocks * H::BLOCK);
        // From last to first, because a lane that moves into a free slot has already been advanced.
        for n in (0..count).rev() {
            let Some(lane) = &mut lanes[n] else { continue };
            if !lane.advance(blocks, &mut columns, n) {
                continue;
            }
            let digest = digest_of::<H>(&columns.get(n));
            if let Some(ended) = lanes[n].take() {
                done(ended.source, &digest);
            }
            if let Some(message) = waiting.next() {
                MacLane::begin(&mut lanes[n], message, &mut columns, n);
                continue;
            }
            count -= 1;
            if n < count {
                lanes.swap(n, count);
                let last = columns.get(count);
                columns.put(n, &last);
            }
        }
    }
    columns.zeroize();
}

/// Hashes as many blocks of each lane as the shortest one has ready. Returns their number.
fn lock_step<H: Hash, S: Source>(
    units: Units,
    columns: &mut H::Columns,
    lanes: &[Option<MacLane<'_, H, S>>],
) -> usize {
    let most = STEP / H::BLOCK / lanes.len();
    let blocks = lanes.iter().flatten().map(|lane| lane.blocks).min().unwrap_or(0).min(most);
    let mut data: [&[u8]; LANES_MAX] = [&[]; LANES_MAX];
    for (data, lane) in data.iter_mut().zip(lanes.iter().flatten()) {
        *data = lane.waiting();
    }
    H::compress_columns(units, columns, &data[..lanes.len()], blocks);
    blocks
}

/// The progress of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MacPhase {
    /// Blocks are ready in the source.
    Direct,
    /// Blocks are ready in the buffer, and more follow.
    Gathered,
    /// The final blocks of the message are ready in the buffer.
    Last,
    /// The block of the outer hash is ready in the buffer.
    Outer,
}

/// A message in a lane. Its next whole blocks are ready, in the source or in the buffer.
struct MacLane<'k, H: Hash, S> {
    key: &'k HmacKey<H>,
    source: S,
    at: Cursor,
    /// The number of data bytes left from `at` on.
    left: usize,
    suffix: Option<Header>,
    /// The bytes of the message, with the block of the key.
    length: u64,
    phase: MacPhase,
    /// The number of blocks that are ready.
    blocks: usize,
    /// Blocks that span pieces, and final blocks.
    buffer: [u8; BUFFER],
    /// The number of bytes in the buffer that are already hashed.
    hashed: usize,
}

impl<'k, H: Hash, S: Source> MacLane<'k, H, S> {
    /// Starts a message in a slot and a column.
    #[inline]
    fn begin(
        place: &mut Option<Self>,
        (message, source): (Message<'k, H>, S),
        columns: &mut H::Columns,
        column: usize,
    ) {
        let Message { key, start, prefix, from, len, suffix } = message;
        let (state, before) = start.unwrap_or((key.inner, H::BLOCK as u64));
        columns.put(column, &state);
        assert!(prefix.len() < H::BLOCK, "prefixes are shorter than a block");
        let total = prefix.len() + len + suffix.map_or(0, |suffix| suffix.len());
        let lane = place.insert(Self {
            key,
            at: source.place(from),
            source,
            left: len,
            suffix,
            length: before + total as u64,
            phase: MacPhase::Direct,
            blocks: 0,
            buffer: [0; BUFFER],
            hashed: 0,
        });
        lane.buffer[..prefix.len()].copy_from_slice(prefix);
        lane.gather(prefix.len());
    }

    /// Returns the bytes that begin with the ready blocks.
    #[inline]
    fn waiting(&self) -> &[u8] {
        if self.phase == MacPhase::Direct {
            let mut at = self.at;
            self.source.piece(&mut at)
        } else {
            &self.buffer[self.hashed..]
        }
    }

    /// Counts hashed blocks and finds the next ones. Returns whether the message ended.
    #[inline]
    fn advance(&mut self, blocks: usize, columns: &mut H::Columns, column: usize) -> bool {
        self.blocks -= blocks;
        if self.phase == MacPhase::Direct {
            self.at.advance(blocks * H::BLOCK);
            self.left -= blocks * H::BLOCK;
        } else {
            self.hashed += blocks * H::BLOCK;
        }
        if self.blocks > 0 {
            return false;
        }
        match self.phase {
            MacPhase::Direct | MacPhase::Gathered => self.gather(0),
            MacPhase::Last => {
                let digest = digest_of::<H>(&columns.get(column));
                self.buffer[..H::DIGEST].copy_from_slice(&digest[..H::DIGEST]);
                self.end(MacPhase::Outer, H::DIGEST, (H::BLOCK + H::DIGEST) as u64);
                columns.put(column, &self.key.outer);
            }
            MacPhase::Outer => return true,
        }
        false
    }

    /// Finds the next blocks; `used` bytes of them are in the buffer. Contiguous blocks are hashed
    /// in the source, others are copied. The rest of the message is copied as soon as all of it
    /// fits.
    #[inline]
    fn gather(&mut self, mut used: usize) {
        let suffix = self.suffix.map_or(0, |suffix| suffix.len());
        let fits = used + self.left + suffix + 1 + H::LENGTH <= BUFFER;
        if used == 0 && !fits {
            let whole = self.source.piece(&mut self.at).len().min(self.left) / H::BLOCK;
            if whole > 0 {
                (self.phase, self.blocks) = (MacPhase::Direct, whole);
                return;
            }
        }
        let room = if fits { BUFFER } else { H::BLOCK };
        while self.left > 0 && used < room {
            let piece = self.source.piece(&mut self.at);
            let count = piece.len().min(self.left).min(room - used);
            assert!(count > 0, "the source holds the data");
            self.buffer[used..used + count].copy_from_slice(&piece[..count]);
            self.at.advance(count);
            self.left -= count;
            used += count;
        }
        if !fits {
            (self.phase, self.blocks, self.hashed) = (MacPhase::Gathered, 1, 0);
            return;
        }
        if let Some(suffix) = self.suffix {
            self.buffer[used..used + suffix.len()].copy_from_slice(&suffix);
            used += suffix.len();
        }
        self.end(MacPhase::Last, used, self.length);
    }

    /// Pads the message in the buffer: one bit, zeros, the length in bits.
    #[inline]
    fn end(&mut self, phase: MacPhase, used: usize, length: u64) {
        self.phase = phase;
        self.blocks = pad::<H>(&mut self.buffer, used, length);
        self.hashed = 0;
    }
}

fn digest_of<H: Hash>(state: &H::State) -> Digest {
    let mut digest = [0; DIGEST_MAX];
    H::digest(state, &mut digest);
    digest
}

#[cfg(test)]
mod tests;
