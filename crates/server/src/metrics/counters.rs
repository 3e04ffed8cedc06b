//! What the dispatch counts and what it says of trouble.

use super::{Lags, Times};
use crate::log_limit::LogLimit;
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of the RPC layer since the server's start. Shared by all threads, never reset.
        #[derive(Debug, Default)]
        pub struct Metrics {
            $($(#[$doc])* pub $name: AtomicU64,)*
            /// How far calls were behind others of their context.
            pub lags: Lags,
            /// Where the time of calls went.
            pub times: Times,
        }

        impl Metrics {
            /// All counters by name, but for the lags and times.
            pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Relaxed)),)*]
            }
        }
    };
}

metrics! {
    /// Calls received, whatever became of them.
    calls,
    /// COMPOUNDs run.
    compounds,
    /// Records that are no RPC message; each closed its connection.
    malformed_records,
    /// Replies to callbacks.
    callback_replies,
    /// Replies on connections where the server had asked nothing.
    unexpected_replies,
    /// Calls denied with AUTH_ERROR.
    auth_errors,
    /// Calls answered with GARBAGE_ARGS by the RPC layer.
    garbage_args,
    /// Calls whose header MIC was wrong.
    mic_failures,
    /// Bodies whose MIC or encryption was wrong.
    body_failures,
    /// Calls discarded in silence because their sequence number was used or below the window.
    window_drops,
    /// Calls with handles that name no context (never given, expired, evicted, destroyed).
    unknown_handles,
    /// Contexts established.
    contexts_created,
    /// Tokens that were not accepted.
    contexts_refused,
    /// Contexts that made room for others.
    contexts_evicted,
    /// Contexts removed at the end of their tickets.
    contexts_expired,
    /// Contexts destroyed by their clients.
    contexts_destroyed,
}

impl Metrics {
    /// Adds to one of the counters.
    pub fn add(counter: &AtomicU64, count: u64) {
        if count > 0 {
            counter.fetch_add(count, Relaxed);
        }
    }
}

/// Kinds of trouble that peers can cause at will, each with a log limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    MalformedRecord,
    AuthError,
    GarbageArgs,
    ContextRefused,
    /// A call outside of the sequence window of its context.
    Window,
}

/// Log lines about peers, limited so that nobody can fill the disk with them.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    malformed_record: LogLimit,
    auth_error: LogLimit,
    garbage_args: LogLimit,
    context_refused: LogLimit,
    window: LogLimit,
}

impl Reports {
    /// Logs trouble with a peer, unless the last line of its kind is too young.
    pub(crate) fn note(&self, trouble: Trouble, now: Duration, peer: SocketAddr, detail: impl Display) {
        let (limit, what) = match trouble {
            Trouble::MalformedRecord => (&self.malformed_record, "closed, because it sent no RPC message"),
            Trouble::AuthError => (&self.auth_error, "not authenticated"),
            Trouble::GarbageArgs => (&self.garbage_args, "arguments refused"),
            Trouble::ContextRefused => (&self.context_refused, "Kerberos context refused"),
            Trouble::Window => (&self.window, "discarded a call outside of the sequence window"),
        };
        if let Some(suppressed) = limit.permit(now) {
            tracing::warn!(%peer, suppressed, "{what}: {detail}");
        }
    }
}
