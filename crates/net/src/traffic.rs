//! The lane in which a shard serves a connection.

/// Smallest record or reply that counts as bulk, in bytes.
const BULK_SIZE_MIN: usize = 64 << 10;
/// Short replies after which a connection leaves the lane of bulk or of deferred calls.
const LANE_MEMORY: u8 = 16;
/// Fixed work of a request, in bytes.
const REQUEST_WORK: usize = 16 << 10;

/// The order in which a shard serves connections that are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Connections whose calls are short and answered at once, such as cached reads.
    Interactive,
    /// Connections with a recent call that was deferred or expensive, such as a change of the file
    /// system. These cost ten times a cached read.
    Deferring,
    /// Connections with recent bulk traffic.
    Bulk,
}

/// The recent traffic of a connection.
#[derive(Default)]
pub(crate) struct Traffic {
    /// Short replies until the connection leaves the lane of bulk.
    bulk: u8,
    /// Replies until the connection leaves the lane of deferred calls.
    deferring: u8,
    /// Requests that were read and not handled yet.
    pending: usize,
    /// Work in bytes since it was last taken: that of requests and of replies.
    work: usize,
}

impl Traffic {
    /// Counts a request of `size` bytes.
    pub(crate) fn request(&mut self, size: usize) {
        self.pending += 1;
        self.work = self.work.saturating_add(size + REQUEST_WORK);
        if size >= BULK_SIZE_MIN {
            self.bulk = LANE_MEMORY;
        }
    }

    /// Counts a call that was deferred or expensive.
    pub(crate) fn defer(&mut self) {
        self.deferring = LANE_MEMORY;
    }

    /// Counts a reply of `size` bytes.
    pub(crate) fn reply(&mut self, size: usize) {
        self.bulk = if size >= BULK_SIZE_MIN { LANE_MEMORY } else { self.bulk.saturating_sub(1) };
        self.deferring = self.deferring.saturating_sub(1);
        self.work = self.work.saturating_add(size);
    }

    /// Returns the work since [`Traffic::take_work`].
    pub(crate) fn work(&self) -> usize {
        self.work
    }

    /// Returns the work since the last call.
    pub(crate) fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.work)
    }

    /// Counts a request that the service has handled.
    pub(crate) fn done(&mut self) {
        self.pending = self.pending.saturating_sub(1);
    }

    pub(crate) fn lane(&self) -> Lane {
        match (self.bulk, self.deferring) {
            (1.., _) => Lane::Bulk,
            (0, 1..) => Lane::Deferring,
            (0, 0) => Lane::Interactive,
        }
    }

    /// Returns whether all requests are handled, so that the next can be served out of order.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_record_or_reply_makes_a_connection_bulk_until_enough_short_replies_followed() {
        let mut traffic = Traffic::default();
        traffic.request(100);
        traffic.reply(BULK_SIZE_MIN - 1);
        assert_eq!(traffic.lane(), Lane::Interactive);
        traffic.reply(BULK_SIZE_MIN);
        assert_eq!(traffic.lane(), Lane::Bulk);
        (1..LANE_MEMORY).for_each(|_| traffic.reply(100));
        assert_eq!(traffic.lane(), Lane::Bulk);
        traffic.reply(100);
        assert_eq!(traffic.lane(), Lane::Interactive);
        traffic.request(BULK_SIZE_MIN);
        assert_eq!(traffic.lane(), Lane::Bulk);
    }

    #[test]
    fn a_deferred_call_puts_a_connection_behind_interactive_ones_until_enough_replies_followed() {
        let mut traffic = Traffic::default();
        traffic.defer();
        assert_eq!(traffic.lane(), Lane::Deferring);
        (1..LANE_MEMORY).for_each(|_| traffic.reply(100));
        assert_eq!(traffic.lane(), Lane::Deferring);
        traffic.reply(100);
        assert_eq!(traffic.lane(), Lane::Interactive);
        traffic.defer();
        traffic.reply(BULK_SIZE_MIN);
        assert_eq!(traffic.lane(), Lane::Bulk);
    }
}
