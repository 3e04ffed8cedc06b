//! Sizes of replies (RFC 8881 sections 2.10.6.4 and 18.46.3).

use super::{Call, Compound};
use state::ChannelAttrs;
use xdr::Encoder;

/// Bytes that every operation leaves free for the next one's number, status and (SETATTR) empty
/// bitmap.
pub(super) const STATUS_RESERVE: usize = 12;

impl Compound<'_> {
    /// Returns whether the reply has room left for the status of a next operation.
    pub(crate) fn fits(&self, reply: &Encoder) -> bool {
        let kept = if self.progress.position.is_last() { 0 } else { STATUS_RESERVE };
        self.reply_len(reply) + kept <= self.progress.reply_end
    }

    /// Applies the limits of the session's fore channel to the reply that began at `reply_start`.
    pub fn limit_reply(&mut self, fore: &ChannelAttrs, cache_this: bool, reply_start: usize) {
        self.progress.reply_end = reply_start.saturating_add(reply_max(self.call, fore, cache_this));
    }
}

/// Returns the limit of COMPOUND4res in bytes: the channel's limit less the overhead of the RPC
/// layer.
fn reply_max(call: &Call<'_>, fore: &ChannelAttrs, cache_this: bool) -> usize {
    let whole = if cache_this { fore.response_size.min(fore.response_cached) } else { fore.response_size };
    usize::try_from(whole).unwrap_or(usize::MAX).saturating_sub(call.reply_overhead)
}
