//! A way through a token in steps of some bytes, wherever its pieces begin and end.

use crate::{Segments, segments::Cursor};

/// Steps of up to `LONGEST` bytes through a part of a token. What does not lie in one piece is
/// worked on in a bounce buffer.
pub(crate) struct Walk<'b, 't, const LONGEST: usize> {
    pub(crate) token: &'b mut Segments<'t>,
    cursor: Cursor,
    /// Where the part ends: its last step may be shorter than the others.
    end: usize,
    /// A step that does not lie in one piece, or that is filled up with zeros.
    bounce: [u8; LONGEST],
    /// The length of a step.
    step: usize,
    bounced: bool,
}

impl<'b, 't, const LONGEST: usize> Walk<'b, 't, LONGEST> {
    /// Stands at the beginning of the part from `start` to `end`, with steps of `step` bytes,
    /// `LONGEST` at the most.
    pub(crate) fn new(token: &'b mut Segments<'t>, start: usize, end: usize, step: usize) -> Self {
        debug_assert!(step <= LONGEST);
        let cursor = token.cursor(start);
        Self { token, cursor, end, bounce: [0; LONGEST], step, bounced: false }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.cursor.at >= self.end
    }

    /// Returns how many steps can be worked on where they lie, or one in the bounce. That leaves
    /// the token as it is.
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

    /// Returns the bytes that begin with the steps that are prepared.
    pub(crate) fn data(&mut self) -> &mut [u8] {
        if self.bounced { &mut self.bounce[..self.step] } else { self.token.run_mut(&mut self.cursor) }
    }

    /// Takes note of steps that were worked on. One that was filled up is not put back.
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
