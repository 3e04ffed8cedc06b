//! The kernel client's counters of a mount: /proc/self/mountstats, with the columns of
//! `mountstats(8)`.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::native::Counters;

/// Where the kernel tells them.
const TABLE: &str = "/proc/self/mountstats";

/// Counters of a mount's connections since they were made, and of its operations since the mount.
/// Mounts of one server share connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountStats {
    /// Connections, one for each line `xprt`.
    pub connections: u32,
    /// How often one of them was connected. A connection is connected once or a few times while it
    /// is mounted.
    pub connects: u64,
    /// Messages that were sent over them.
    pub sends: u64,
    /// Replies that came back.
    pub replies: u64,
    /// Replies whose XID belongs to no call.
    pub bad_xids: u64,
    /// Operations that were asked for.
    pub operations: u64,
    /// Transmissions of these calls; the excess over the calls are retransmissions.
    pub transmissions: u64,
    /// How often the client waited too long for an answer.
    pub timeouts: u64,
}

impl MountStats {
    /// Reads the counters of the mount at `point`.
    ///
    /// # Errors
    /// When no NFS mount is there, or /proc is not.
    pub fn of(point: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(TABLE).context(TABLE)?;
        Self::find(&text, point).with_context(|| format!("{TABLE} has no NFS mount at {}", point.display()))
    }

    /// Finds the last mount at `point`, which covers the earlier ones.
    fn find(table: &str, point: &Path) -> Option<Self> {
        let mut found = None;
        let mut here = false;
        for line in table.lines() {
            if let Some(device) = line.strip_prefix("device ") {
                here = is_at(device, point);
                if here {
                    found = Some(Self::default());
                }
            } else if let Some(found) = found.as_mut().filter(|_| here) {
                found.add(line);
            }
        }
        found
    }

    fn add(&mut self, line: &str) {
        let Some((name, rest)) = line.trim().split_once(':') else { return };
        let mut words = rest.split_whitespace();
        if name == "xprt" {
            // Of UDP and RDMA other columns follow.
            if words.next() == Some("tcp") {
                self.add_connection(&numbers(words));
            }
        } else if name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
            && let [operations, transmissions, timeouts, ..] = *numbers(words)
        {
            self.operations += operations;
            self.transmissions += transmissions;
            self.timeouts += timeouts;
        }
    }

    /// Port, binds, connects, time of connecting, idle time, sends, replies, bad XIDs.
    fn add_connection(&mut self, columns: &[u64]) {
        if let [_, _, connects, _, _, sends, replies, bad_xids, ..] = *columns {
            self.connections += 1;
            self.connects += connects;
            self.sends += sends;
            self.replies += replies;
            self.bad_xids += bad_xids;
        }
    }

    /// Returns the growth since `before`, under the names that samples use.
    pub fn since(&self, before: &Self) -> Counters {
        let again = |stats: &Self| stats.transmissions.saturating_sub(stats.operations);
        let unanswered = |stats: &Self| stats.sends.saturating_sub(stats.replies);
        let grown = |of: &dyn Fn(&Self) -> u64| of(self).saturating_sub(of(before));
        let all = [
            ("client_calls", grown(&|stats| stats.operations)),
            ("client_reconnects", grown(&|stats| stats.connects)),
            ("client_calls_repeated", grown(&again)),
            ("client_timeouts", grown(&|stats| stats.timeouts)),
            ("client_bad_xids", grown(&|stats| stats.bad_xids)),
            ("client_unanswered", grown(&unanswered)),
        ];
        let counted = all.into_iter().filter(|(_, count)| *count > 0);
        counted.map(|(name, count)| (name.to_owned(), count)).collect()
    }
}

/// `SOURCE mounted on POINT with fstype TYPE …`, in which a blank of a name is `\040`.
fn is_at(device: &str, point: &Path) -> bool {
    let place = device.split_once(" mounted on ").and_then(|(_, rest)| rest.split_once(" with fstype "));
    place.is_some_and(|(place, kind)| {
        kind.starts_with("nfs") && mounts::unescape(place.as_bytes()) == point.as_os_str().as_bytes()
    })
}

fn numbers<'a>(words: impl Iterator<Item = &'a str>) -> Vec<u64> {
    words.map_while(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.1, NFSv4.2 with krb5p and nconnect=4, before and after a second of random reads with
    /// 64 in flight. Lines of operations that never happened were left out.
    const BEFORE: &str = include_str!("recorded/mountstats-before.txt");
    const AFTER: &str = include_str!("recorded/mountstats-after.txt");

    fn find(text: &str) -> MountStats {
        MountStats::find(text, Path::new("/n")).unwrap()
    }

    #[test]
    fn connections_and_operations_of_a_mount_are_added_up() {
        let found = find(AFTER);
        assert_eq!((found.connections, found.connects), (4, 8));
        assert_eq!((found.sends, found.replies, found.bad_xids), (5733, 5732, 0));
        assert_eq!(found.transmissions, found.operations);
        assert_eq!(MountStats::find(AFTER, Path::new("/tmp")), None, "a mount that is no NFS");
        assert_eq!(MountStats::find(AFTER, Path::new("/nothing")), None);
    }

    #[test]
    fn losses_are_the_difference_of_two_snapshots() {
        let calls = find(AFTER).operations - find(BEFORE).operations;
        assert!(calls >= 5623, "{calls}");
        assert_eq!(find(AFTER).since(&find(BEFORE)), Counters::from([("client_calls".to_owned(), calls)]));
        let lossy = AFTER
            .replace("tcp 0 0 2 0 0 1443 1443 0", "tcp 0 0 3 0 0 1450 1443 2")
            .replace("READ: 5623 5623 0", "READ: 5623 5630 1");
        let found = find(&lossy).since(&find(BEFORE));
        let of = |name: &str| found.get(name).copied();
        assert_eq!((of("client_reconnects"), of("client_calls_repeated")), (Some(1), Some(7)));
        assert_eq!(
            (of("client_timeouts"), of("client_bad_xids"), of("client_unanswered")),
            (Some(1), Some(2), Some(7))
        );
    }

    #[test]
    fn of_several_mounts_at_one_point_the_last_is_meant() {
        let both = format!("{AFTER}{}", BEFORE.replace(" /n ", " /a\\040b "));
        assert_eq!(find(&both), find(AFTER));
        assert_eq!(MountStats::find(&both, Path::new("/a b")), Some(find(BEFORE)));
        assert_eq!(find(&format!("{AFTER}{BEFORE}")), find(BEFORE));
    }
}
