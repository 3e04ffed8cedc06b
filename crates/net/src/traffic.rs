//! Classification of connections as bulk or interactive.

/// Smallest record or reply that counts as bulk, in bytes.
const BULK_SIZE_MIN: usize = 64 << 10;
/// Short replies after which a connection that moved bulk counts as interactive again.
const BULK_MEMORY: u8 = 16;

/// The recent traffic of a connection.
#[derive(Default)]
pub(crate) struct Traffic {
    /// Short replies until the connection is interactive again.
    bulk: u8,
    /// Requests that were read and not handled yet.
    pending: usize,
}

impl Traffic {
    /// Counts a request of `size` bytes.
    pub(crate) fn request(&mut self, size: usize) {
        self.pending += 1;
        if size >= BULK_SIZE_MIN {
            self.bulk = BULK_MEMORY;
        }
    }

    /// Counts a reply of `size` bytes.
    pub(crate) fn reply(&mut self, size: usize) {
        self.bulk = if size >= BULK_SIZE_MIN { BULK_MEMORY } else { self.bulk.saturating_sub(1) };
    }

    /// Counts a request that the service has handled.
    pub(crate) fn done(&mut self) {
        self.pending = self.pending.saturating_sub(1);
    }

    pub(crate) fn is_bulk(&self) -> bool {
        self.bulk > 0
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
        assert!(!traffic.is_bulk());
        traffic.reply(BULK_SIZE_MIN);
        assert!(traffic.is_bulk());
        (1..BULK_MEMORY).for_each(|_| traffic.reply(100));
        assert!(traffic.is_bulk());
        traffic.reply(100);
        assert!(!traffic.is_bulk());
        traffic.request(BULK_SIZE_MIN);
        assert!(traffic.is_bulk());
    }
}
