//! Tokens in one piece or in several.

/// The bytes of a token, in one piece or in several one after the other; pieces may be empty.
#[derive(Debug)]
pub enum Segments<'a> {
    /// All in one piece.
    One(&'a mut [u8]),
    /// Several pieces, in order.
    Many(&'a mut [&'a mut [u8]]),
}

impl<'a> From<&'a mut [u8]> for Segments<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Segments::One(bytes)
    }
}

impl<'a> From<&'a mut Vec<u8>> for Segments<'a> {
    fn from(bytes: &'a mut Vec<u8>) -> Self {
        Segments::One(bytes)
    }
}

impl<'a> From<&'a mut [&'a mut [u8]]> for Segments<'a> {
    fn from(pieces: &'a mut [&'a mut [u8]]) -> Self {
        Segments::Many(pieces)
    }
}

/// A position in segments: the absolute offset, and the segment with the offset in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) at: usize,
    segment: usize,
    offset: usize,
}

impl Cursor {
    /// Moves forward within the run that was returned last.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.at += bytes;
        self.offset += bytes;
    }
}

impl Segments<'_> {
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Segments::One(bytes) => bytes.len(),
            Segments::Many(pieces) => pieces.iter().map(|piece| piece.len()).sum(),
        }
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes from position `at` into `out`.
    ///
    /// # Panics
    /// If the segments end before `out` is full.
    #[inline]
    pub fn read(&self, at: usize, out: &mut [u8]) {
        self.read_on(&mut self.cursor(at), out);
    }

    /// Overwrites the bytes from position `at`.
    ///
    /// # Panics
    /// If the segments end before all of `bytes` is written.
    #[inline]
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let mut cursor = self.cursor(at);
        self.write_on(&mut cursor, bytes);
    }

    /// Returns the cursor of a position.
    pub(crate) fn cursor(&self, at: usize) -> Cursor {
        let mut cursor = Cursor { at, segment: 0, offset: at };
        if let Segments::Many(pieces) = self {
            for piece in pieces.iter() {
                if cursor.offset < piece.len() {
                    break;
                }
                cursor.offset -= piece.len();
                cursor.segment += 1;
            }
        }
        cursor
    }

    /// Returns the contiguous bytes from the cursor. They are empty only at the end.
    pub(crate) fn run(&self, cursor: &mut Cursor) -> &[u8] {
        match self {
            Segments::One(bytes) => &bytes[cursor.offset..],
            Segments::Many(pieces) => {
                normalize(pieces, cursor);
                pieces.get(cursor.segment).map_or(&[], |piece| &piece[cursor.offset..])
            }
        }
    }

    /// Returns the contiguous bytes from the cursor, mutable. They are empty only at the end.
    pub(crate) fn run_mut(&mut self, cursor: &mut Cursor) -> &mut [u8] {
        match self {
            Segments::One(bytes) => &mut bytes[cursor.offset..],
            Segments::Many(pieces) => {
                normalize(pieces, cursor);
                pieces.get_mut(cursor.segment).map_or(&mut [], |piece| &mut piece[cursor.offset..])
            }
        }
    }

    /// Copies bytes from the cursor and moves it behind them.
    pub(crate) fn read_on(&self, cursor: &mut Cursor, mut out: &mut [u8]) {
        while !out.is_empty() {
            let run = self.run(cursor);
            let count = run.len().min(out.len());
            assert!(count > 0, "reading behind the end");
            let (now, later) = out.split_at_mut(count);
            now.copy_from_slice(&run[..count]);
            cursor.advance(count);
            out = later;
        }
    }

    /// Overwrites bytes from the cursor and moves it behind them.
    pub(crate) fn write_on(&mut self, cursor: &mut Cursor, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let run = self.run_mut(cursor);
            let count = run.len().min(bytes.len());
            assert!(count > 0, "writing behind the end");
            let (now, later) = bytes.split_at(count);
            run[..count].copy_from_slice(now);
            cursor.advance(count);
            bytes = later;
        }
    }

    /// Overwrites everything with zeros.
    pub(crate) fn clear(&mut self) {
        match self {
            Segments::One(bytes) => bytes.fill(0),
            Segments::Many(pieces) => pieces.iter_mut().for_each(|piece| piece.fill(0)),
        }
    }

    /// Rotates the bytes from `start` to the end left by `count`.
    pub(crate) fn rotate_left(&mut self, start: usize, count: usize) {
        match self {
            Segments::One(bytes) => bytes[start..].rotate_left(count),
            Segments::Many(_) if count == 0 => {}
            Segments::Many(_) => {
                // Reverses both parts, then the whole.
                let end = self.len();
                self.reverse(start, start + count);
                self.reverse(start + count, end);
                self.reverse(start, end);
            }
        }
    }

    /// Reverses the bytes of a range.
    fn reverse(&mut self, mut from: usize, mut to: usize) {
        const STEP: usize = 256;
        while to - from > 1 {
            let count = STEP.min((to - from) / 2);
            let (mut front, mut back) = ([0; STEP], [0; STEP]);
            let (front, back) = (&mut front[..count], &mut back[..count]);
            self.read(from, front);
            self.read(to - count, back);
            front.reverse();
            back.reverse();
            self.write(from, back);
            self.write(to - count, front);
            from += count;
            to -= count;
        }
    }
}

/// Moves a cursor at the end of a piece to the start of the next piece that is not empty.
fn normalize(pieces: &[&mut [u8]], cursor: &mut Cursor) {
    while pieces.get(cursor.segment).is_some_and(|piece| piece.len() == cursor.offset) {
        cursor.segment += 1;
        cursor.offset = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(bytes: &mut [u8], cuts: [usize; 3]) -> [&mut [u8]; 4] {
        let (a, rest) = bytes.split_at_mut(cuts[0]);
        let (b, rest) = rest.split_at_mut(cuts[1] - cuts[0]);
        let (c, d) = rest.split_at_mut(cuts[2] - cuts[1]);
        [a, b, c, d]
    }

    #[test]
    fn pieces_are_read_written_and_rotated_like_one() {
        for cuts in [[0, 0, 0], [0, 5, 5], [3, 300, 650], [700, 700, 700], [1, 2, 3]] {
            for (at, len, count) in [(0, 700, 1), (5, 100, 690), (299, 3, 300), (699, 1, 0)] {
                let mut one: Vec<u8> = (0..700u32).map(|n| n as u8).collect();
                let mut many = one.clone();
                let mut pieces = split(&mut many, cuts);
                let mut segments = Segments::from(&mut pieces[..]);
                assert_eq!(segments.len(), 700);
                let mut read = vec![0; len];
                segments.read(at, &mut read);
                assert_eq!(read, one[at..at + len]);

                segments.write(at, &vec![7; len]);
                segments.rotate_left(5, count);
                one[at..at + len].fill(7);
                one[5..].rotate_left(count);
                assert_eq!(many, one, "cuts {cuts:?}, {len} bytes at {at}, rotated by {count}");
            }
        }
    }
}
