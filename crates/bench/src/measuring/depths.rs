//! Smaller depths that are tried after a server has left requests unanswered, so that the report
//! can name the depth at which the silence begins.

use super::{Case, Load};
use anyhow::Result;

/// Where a server stops to answer, of the depths that were tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Silence {
    /// The least depth without an answer.
    begins: u32,
    /// The greatest depth with answers; none where even a single request has none.
    answers: Option<u32>,
}

impl Silence {
    /// Halves a depth without an answer, down to 1, and tries these depths from the smallest: at
    /// most one of them waits for the full time limit. `answers` returns whether a depth is
    /// answered; `Ok(None)` ends the search without a result.
    ///
    /// # Errors
    /// The errors of `answers`.
    pub(super) fn find(
        depth: u32,
        mut answers: impl FnMut(u32) -> Result<Option<bool>>,
    ) -> Result<Option<Self>> {
        let halves = (1..u32::BITS).map(|power| depth >> power).filter(|half| *half > 0);
        let halves: Vec<u32> = halves.collect();
        let mut answered = None;
        for half in halves.into_iter().rev() {
            match answers(half)? {
                Some(true) => answered = Some(half),
                Some(false) => return Ok(Some(Self { begins: half, answers: answered })),
                None => return Ok(None),
            }
        }
        Ok(answered.map(|_| Self { begins: depth, answers: answered }))
    }

    /// Returns words to be put behind "no answer in 20 s".
    pub(super) fn words(self) -> String {
        match self.answers {
            Some(depth) => {
                format!(" from depth {} on; the server answers at depth {depth}", self.begins)
            }
            None => " at any depth; a single request has none either".to_owned(),
        }
    }
}

/// Returns the depth of a closed loop, the only load that keeps its depth all the time.
pub(super) fn depth(case: &Case) -> Option<u32> {
    match &case.load {
        Load::Transfer(transfer) if transfer.rate.is_none() => Some(transfer.depth),
        _ => None,
    }
}

/// Returns the same case at another depth.
pub(super) fn at_depth(case: &Case, depth: u32) -> Case {
    let mut case = case.clone();
    if let Load::Transfer(transfer) = &mut case.load {
        transfer.depth = depth;
    }
    case
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with a server that answers up to a depth; returns the depths that were tried, too.
    fn search(depth: u32, most: u32) -> (Vec<u32>, Option<Silence>) {
        let mut tried = Vec::new();
        let found = Silence::find(depth, |depth| {
            tried.push(depth);
            Ok(Some(depth <= most))
        });
        (tried, found.unwrap())
    }

    #[test]
    fn halves_are_tried_from_the_smallest_until_the_silence_begins() {
        let silence = |begins, answers| Some(Silence { begins, answers });
        assert_eq!(search(64, 10), (vec![1, 2, 4, 8, 16], silence(16, Some(8))));
        assert_eq!(search(64, 63), (vec![1, 2, 4, 8, 16, 32], silence(64, Some(32))));
        assert_eq!(search(100, 12), (vec![1, 3, 6, 12, 25], silence(25, Some(12))));
        assert_eq!(search(8, 0), (vec![1], silence(1, None)));
        assert_eq!(search(1, 0), (vec![], None), "nothing is smaller");
    }

    #[test]
    fn a_search_that_is_cut_short_finds_nothing() {
        assert_eq!(Silence::find(8, |depth| Ok((depth < 4).then_some(true))).unwrap(), None);
        assert!(Silence::find(8, |_| anyhow::bail!("the server is gone")).is_err());
    }
}
