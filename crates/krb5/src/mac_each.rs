//! HMACs of many messages at once: each lane holds one message, and a lane whose message ends takes
//! the next.
//!
//! Lanes go in lock step, so the hash never waits for itself, and the last blocks of a message and
//! the outer hash (RFC 2104 section 2) go through the lanes like the rest: of a short message they
//! are most of the work.

use zeroize::Zeroize;

use crate::{
    Run, Segments,
    hash::{BLOCK_MAX, DIGEST_MAX, Hash, LANES_MAX, StateColumns, Units},
    hmac::{Digest, HmacKey, pad},
    segments::Cursor,
    token::Header,
};

/// Room for the blocks of a lane that do not lie in one piece, and for those that end a message. No
/// more: a lane that is not used costs nothing.
const BUFFER: usize = 2 * BLOCK_MAX;

/// How many bytes the lanes take at most before a pause is thought of.
const STEP: usize = 64 << 10;

/// What lies in one piece or in several.
pub(crate) trait Source {
    /// Returns the bytes in one piece from a place on; none only at the end.
    fn piece(&self, at: &mut Cursor) -> &[u8];
    /// Returns the place of a position.
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

/// Data, and what its digest is for.
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

/// One message among several: prefix, data and suffix are hashed one after the other.
pub(crate) struct Message<'k, H: Hash> {
    pub(crate) key: &'k HmacKey<H>,
    /// A state to go on from instead of the key's, and how many bytes are in it, with the block of
    /// the key.
    pub(crate) start: Option<(H::State, u64)>,
    pub(crate) prefix: &'k [u8],
    /// Where the data begins in what comes along with the message.
    pub(crate) from: usize,
    /// The length of the data in bytes.
    pub(crate) len: usize,
    pub(crate) suffix: Option<Header>,
}

/// Hands the digest of each message to `done`, with what came along with the message.
///
/// What comes along with a message holds its data; it is not touched before it is handed back.
pub(crate) fn mac_each<'k, H: Hash + 'k, S: Source>(
    run: &mut Run<'_>,
    messages: impl Iterator<Item = (Message<'k, H>, S)>,
    mut done: impl FnMut(S, &Digest),
) {
    let mut waiting = messages.fuse();
    let Some(first) = waiting.next() else { return };
    let units = Units::of(run.cpu);
    let mut columns = H::Columns::default();
    let mut lanes: [Option<Lane<'k, H, S>>; LANES_MAX] = [const { None }; LANES_MAX];
    let mut count = 0;
    for message in std::iter::once(first).chain(waiting.by_ref()).take(H::lanes_max(units)) {
        Lane::begin(&mut lanes[count], message, &mut columns, count);
        count += 1;
    }
    while count > 0 {
        let blocks = lock_step(units, &mut columns, &lanes[..count]);
        run.worked(count * blocks * H::BLOCK);
        // From the last to the first: the lane that takes the place of one that ended was looked at
        // already.
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
                Lane::begin(&mut lanes[n], message, &mut columns, n);
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

/// Hashes as many blocks of every lane as the one with the fewest has, and returns their number.
fn lock_step<H: Hash, S: Source>(
    units: Units,
    columns: &mut H::Columns,
    lanes: &[Option<Lane<'_, H, S>>],
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

/// How far a message is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Blocks wait in the source.
    Direct,
    /// Blocks wait in the buffer, and others come behind them.
    Gathered,
    /// The last blocks of the message wait in the buffer.
    Last,
    /// The block of the outer hash waits in the buffer.
    Outer,
}

/// A message on its way. Its first whole blocks wait, in the source or in the buffer.
struct Lane<'k, H: Hash, S> {
    key: &'k HmacKey<H>,
    source: S,
    at: Cursor,
    /// How many bytes of the data are left from `at` on.
    left: usize,
    suffix: Option<Header>,
    /// The bytes of the message with the block of the key.
    length: u64,
    phase: Phase,
    /// How many blocks wait.
    blocks: usize,
    /// Blocks that do not lie in one piece, and those that end the message.
    buffer: [u8; BUFFER],
    /// How much of the buffer is hashed already.
    hashed: usize,
}

impl<'k, H: Hash, S: Source> Lane<'k, H, S> {
    /// Begins a message in a place and a column.
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
            phase: Phase::Direct,
            blocks: 0,
            buffer: [0; BUFFER],
            hashed: 0,
        });
        lane.buffer[..prefix.len()].copy_from_slice(prefix);
        lane.gather(prefix.len());
    }

    /// Returns the bytes that begin with the blocks that wait.
    #[inline]
    fn waiting(&self) -> &[u8] {
        if self.phase == Phase::Direct {
            let mut at = self.at;
            self.source.piece(&mut at)
        } else {
            &self.buffer[self.hashed..]
        }
    }

    /// Takes note that blocks were hashed and finds the next; returns whether the message ended.
    #[inline]
    fn advance(&mut self, blocks: usize, columns: &mut H::Columns, column: usize) -> bool {
        self.blocks -= blocks;
        if self.phase == Phase::Direct {
            self.at.advance(blocks * H::BLOCK);
            self.left -= blocks * H::BLOCK;
        } else {
            self.hashed += blocks * H::BLOCK;
        }
        if self.blocks > 0 {
            return false;
        }
        match self.phase {
            Phase::Direct | Phase::Gathered => self.gather(0),
            Phase::Last => {
                let digest = digest_of::<H>(&columns.get(column));
                self.buffer[..H::DIGEST].copy_from_slice(&digest[..H::DIGEST]);
                self.end(Phase::Outer, H::DIGEST, (H::BLOCK + H::DIGEST) as u64);
                columns.put(column, &self.key.outer);
            }
            Phase::Outer => return true,
        }
        false
    }

    /// Finds the next blocks, of which `used` bytes are in the buffer: where they lie in one piece
    /// they are hashed there, else they are copied. What is left is copied as a whole as soon as it
    /// fits.
    #[inline]
    fn gather(&mut self, mut used: usize) {
        let suffix = self.suffix.map_or(0, |suffix| suffix.len());
        let fits = used + self.left + suffix + 1 + H::LENGTH <= BUFFER;
        if used == 0 && !fits {
            let whole = self.source.piece(&mut self.at).len().min(self.left) / H::BLOCK;
            if whole > 0 {
                (self.phase, self.blocks) = (Phase::Direct, whole);
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
            (self.phase, self.blocks, self.hashed) = (Phase::Gathered, 1, 0);
            return;
        }
        if let Some(suffix) = self.suffix {
            self.buffer[used..used + suffix.len()].copy_from_slice(&suffix);
            used += suffix.len();
        }
        self.end(Phase::Last, used, self.length);
    }

    /// Pads what is in the buffer: one bit, zeros, the length in bits.
    #[inline]
    fn end(&mut self, phase: Phase, used: usize, length: u64) {
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
