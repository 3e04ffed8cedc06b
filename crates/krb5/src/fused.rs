//! Hash and cipher together, as far as a message goes in whole units.
//!
//! What is left then, some bytes, the padding, the stolen ciphertext, is done by the hash and by the cipher apart:
//! each message has a [`Progress`] from which they go on.

use zeroize::Zeroize;

use crate::{
    Run, Segments,
    cipher::{BLOCK, FusedLane, LANES, RoundKeys, Suite, UNIT},
    hash::Hash,
    segments::Cursor,
};

/// How many units of a lane are worked on before others get their turn: 8 KiB. Laying the keys of the lanes out costs
/// as much as two units.
const STEP_UNITS: usize = 128;

/// How far a message has come.
pub(crate) struct Progress<S: Suite> {
    /// How many bytes are hashed and encrypted, or decrypted and hashed: whole units.
    pub(crate) done: usize,
    /// The last block of their ciphertext.
    pub(crate) chain: [u8; BLOCK],
    /// The hash of what comes before and of these bytes.
    pub(crate) state: <S::Hash as Hash>::State,
}

impl<S: Suite> Progress<S> {
    /// Nothing is done.
    pub(crate) fn new() -> Self {
        Self { done: 0, chain: [0; BLOCK], state: S::Hash::INITIAL }
    }

    /// Returns where the hash goes on, with the number of bytes in it; nowhere if nothing is done.
    pub(crate) fn start(&self) -> Option<(<S::Hash as Hash>::State, u64)> {
        (self.done > 0).then_some((self.state, (S::Hash::BLOCK + self.done) as u64))
    }
}

impl<S: Suite> Drop for Progress<S> {
    fn drop(&mut self) {
        self.state.zeroize();
    }
}

/// What is done to the units.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Seal,
    Open,
}

/// A message to work on.
pub(crate) struct Message<'b, 't, S: Suite> {
    pub(crate) keys: &'b RoundKeys,
    pub(crate) token: &'b mut Segments<'t>,
    /// Where the units lie in the token.
    pub(crate) start: usize,
    pub(crate) units: usize,
    /// A state that the key has been hashed into.
    pub(crate) progress: &'b mut Progress<S>,
}

/// A message on its way.
struct Lane<'b, 't, S: Suite> {
    message: Message<'b, 't, S>,
    cursor: Cursor,
    /// A unit that does not lie in one piece.
    bounce: [u8; UNIT],
    bounced: bool,
}

impl<'b, 't, S: Suite> Lane<'b, 't, S> {
    fn new(message: Message<'b, 't, S>) -> Self {
        let cursor = message.token.cursor(message.start);
        Self { message, cursor, bounce: [0; UNIT], bounced: false }
    }

    fn units(&self) -> usize {
        self.message.units - self.message.progress.done / UNIT
    }

    /// Returns how many units can be worked on where they lie, or in the bounce.
    fn prepare(&mut self) -> usize {
        if self.bounced {
            return 1;
        }
        let whole = (self.message.token.run(&mut self.cursor).len() / UNIT).min(self.units());
        if whole > 0 {
            return whole;
        }
        self.bounced = true;
        let mut from = self.cursor;
        self.message.token.read_on(&mut from, &mut self.bounce);
        1
    }

    fn fused(&mut self) -> FusedLane<'_, S> {
        let Message { keys, token, progress, .. } = &mut self.message;
        let data = if self.bounced { &mut self.bounce } else { token.run_mut(&mut self.cursor) };
        FusedLane { keys, chain: &mut progress.chain, state: &mut progress.state, data }
    }

    /// Takes note of units that were worked on.
    fn advance(&mut self, units: usize) {
        if self.bounced {
            self.message.token.write_on(&mut self.cursor, &self.bounce);
            self.bounced = false;
        } else {
            self.cursor.advance(units * UNIT);
        }
        self.message.progress.done += units * UNIT;
    }
}

/// Works on messages as long as there are as many as the fused code is good for.
pub(crate) fn work<'b, 't: 'b, S: Suite>(
    run: &mut Run<'_>,
    way: Way,
    messages: impl Iterator<Item = Message<'b, 't, S>>,
) {
    let mut waiting = messages.map(Lane::new).fuse();
    let mut lanes: [Option<Lane<'b, 't, S>>; LANES] = [const { None }; LANES];
    loop {
        let mut count = 0;
        for slot in &mut lanes {
            if slot.as_ref().is_none_or(|lane| lane.units() == 0) {
                *slot = waiting.find(|lane| lane.units() > 0);
            }
            count += usize::from(slot.is_some());
        }
        if !S::fuses(run.cpu, count) || (way == Way::Open && count == 1) {
            // A unit that waits in the bounce lies where it was, too.
            return;
        }
        let units = lanes.iter_mut().flatten().map(Lane::prepare).min().unwrap_or_default().min(STEP_UNITS);
        let active = lanes.iter_mut().flatten().map(Lane::fused);
        match way {
            Way::Seal => S::seal(run.cpu, active, units),
            Way::Open => S::open(run.cpu, active, units),
        }
        lanes.iter_mut().flatten().for_each(|lane| lane.advance(units));
        run.worked(count * units * UNIT);
    }
}
