//! Members that have fallen silent.

use crate::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// The signs of life of the members, and since when each has stayed the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedBeats {
    beats: BTreeMap<NodeId, (u64, Duration)>,
    /// When the beats were read last.
    read: Option<Duration>,
}

impl WatchedBeats {
    /// Notes a reading. After a pause of more than `pause_max` all members have time again: the
    /// storage may have been gone for them, too.
    pub(crate) fn observe(&mut self, now: Duration, beats: &BTreeMap<NodeId, u64>, pause_max: Duration) {
        if self.read.is_none_or(|read| now.saturating_sub(read) > pause_max) {
            self.beats.clear();
        }
        self.read = Some(now);
        self.beats.retain(|node, _| beats.contains_key(node));
        for (node, beat) in beats {
            let watched = self.beats.entry(node.clone()).or_insert((*beat, now));
            if watched.0 != *beat {
                *watched = (*beat, now);
            }
        }
    }

    /// Returns for how long a member has given no sign of life. A member that never gives any,
    /// since it is another program, is not silent.
    pub(crate) fn silence(&self, now: Duration, node: &NodeId) -> Duration {
        self.beats.get(node).map_or(Duration::ZERO, |(_, since)| now.saturating_sub(*since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_silent_from_the_first_reading_of_its_last_beat() {
        let second = Duration::from_secs;
        let (node, pause): (NodeId, Duration) = ("a".parse().unwrap(), second(5));
        let beats = |beat| BTreeMap::from([(node.clone(), beat)]);
        let mut watched = WatchedBeats::default();
        watched.observe(second(10), &beats(7), pause);
        watched.observe(second(12), &beats(8), pause);
        watched.observe(second(15), &beats(8), pause);
        assert_eq!(watched.silence(second(16), &node), second(4));
        // Nothing was read for a while, so nobody could write either.
        watched.observe(second(30), &beats(8), pause);
        assert_eq!(watched.silence(second(31), &node), second(1));
        assert_eq!(watched.silence(second(99), &"b".parse().unwrap()), Duration::ZERO);
    }
}
