//! Iterates over a token in fixed steps, independent of its segment boundaries.

use crate::{Segments, segments::Cursor};

/// Iterates over part of a token in steps of up to `LONGEST` bytes. A step that crosses a segment
/// boundary is processed in a bounce buffer.
pub(crate) struct SegmentSteps<'b, 't, const LONGEST: usize> {
    pub(crate) token: &'b mut Segments<'t>,
    cursor: Cursor,
    /// The end of the part; its last step may be shorter than the others.
    end: usize,
    /// Holds a step that crosses a segment boundary, or that is padded with zeros.
    bounce: [u8; LONGEST],
    /// The length of a step in bytes.
    step: usize,
    bounced: bool,
}

impl<'b, 't, const LONGEST: usize> SegmentSteps<'b, 't, LONGEST> {
    /// Starts at the beginning of the part from `start` to `end`, with steps of `step` bytes, at
    /// most `LONGEST`.
    pub(crate) fn new(token: &'b mut Segments<'t>, start: usize, end: usize, step: usize) -> Self {
        debug_assert!(step <= LONGEST);
        let cursor = token.cursor(start);
        Self { token, cursor, end, bounce: [0; LONGEST], step, bounced: false }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.cursor.at >= self.end
    }

    /// Returns the number of steps that can be processed in place, or 1 for a step in the bounce
    /// buffer. Does not change the token.
    pub(crate) fn prepare(&mut self) -> usize {
        if self.bounced {
            return 1;
        }
        let left = self.end - self.cursor.at;
        let whole = self.token.run(&mut self.cursor).len().min(left) / self.step;
        if whole > 0 {
            return whole;
        }
        self.bounced = true;
        self.bounce = [0; LONGEST];
        let mut from = self.cursor;
        self.token.read_on(&mut from, &mut self.bounce[..left.min(self.step)]);
        1
    }

    /// Returns the bytes that begin with the prepared steps.
    pub(crate) fn data(&mut self) -> &mut [u8] {
        if self.bounced { &mut self.bounce[..self.step] } else { self.token.run_mut(&mut self.cursor) }
    }

    /// Advances past processed steps, and writes back a bounced one. A padded step is not written
    /// back.
    pub(crate) fn advance(&mut self, steps: usize) {
        if !self.bounced {
            self.cursor.advance(steps * self.step);
        } else if self.cursor.at + self.step <= self.end {
            self.token.write_on(&mut self.cursor, &self.bounce[..self.step]);
        } else {
            self.cursor.at = self.end;
        }
        self.bounced = false;
    }
}
