//! Counters of the dispatch, and its log lines about peers.

use super::{Lags, ServedRequests, Times};
use crate::log_limit::LogLimit;
use rpc::AuthStat;
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
            /// The distances of calls to the highest sequence number of their context.
            pub lags: Lags,
            /// The time of calls by stage.
            pub times: Times,
            /// Calls denied with AUTH_ERROR, by its status.
            pub denials: Denials,
            /// Operations, and requests by operation, export and flavor.
            pub served: ServedRequests,
        }

        impl Metrics {
            /// Returns all counters by name, without lags and times.
            pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
                let counters = [$((stringify!($name), self.$name.load(Relaxed)),)*];
                counters.into_iter().chain([("compounds", self.served.compounds())]).collect()
            }

            /// Continues counters of the previous process, by name. A name that this version does
            /// not know is left out.
            pub fn resume<'a>(&self, counts: impl IntoIterator<Item = (&'a str, u64)>) {
                for (name, count) in counts {
                    $(if name == stringify!($name) {
                        self.$name.fetch_add(count, Relaxed);
                    })*
                }
            }
        }
    };
}

metrics! {
    /// Calls received, with any outcome.
    calls,
    /// Calls that waited for a disk, a lookup or a thread for a second or longer.
    slow_calls,
    /// Records that are no RPC message; each closed its connection.
    malformed_records,
    /// Replies that match a callback in flight.
    callback_replies,
    /// Replies that match no callback in flight.
    unexpected_replies,
    /// Calls denied with AUTH_ERROR.
    auth_errors,
    /// Calls answered with GARBAGE_ARGS by the RPC layer.
    garbage_args,
    /// Calls whose header MIC was wrong.
    mic_failures,
    /// Bodies whose MIC or encryption was wrong.
    body_failures,
    /// Calls dropped silently because their sequence number was used or below the window.
    window_drops,
    /// Calls with handles of no context (never given, expired, evicted, destroyed).
    unknown_handles,
    /// RPCSEC_GSS contexts that were established.
    contexts_created,
    /// Tokens that were not accepted.
    contexts_refused,
    /// Contexts not created because the client's account could not be looked up, or for lack of
    /// descriptors or memory; answered with SYSTEM_ERR.
    contexts_delayed,
    /// Contexts created for users without an account, which act as the anonymous user.
    contexts_of_nobody,
    /// Identities of live contexts that a refresh has changed.
    identities_changed,
    /// Refreshes of the identities of live contexts that failed; the identities stay.
    identities_kept,
    /// Contexts evicted to make room for others.
    contexts_evicted,
    /// Contexts removed because their tickets expired or because they were idle.
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

/// Calls denied with AUTH_ERROR, by auth_stat (RFC 5531 section 9).
#[derive(Debug, Default)]
pub struct Denials([AtomicU64; AuthStat::ALL.len()]);

impl Denials {
    /// Counts a denied call.
    pub(crate) fn count(&self, status: AuthStat) {
        let place = AuthStat::ALL.iter().position(|known| *known == status);
        if let Some(counter) = place.and_then(|place| self.0.get(place)) {
            counter.fetch_add(1, Relaxed);
        }
    }

    /// Returns the counts that are not zero, by the name of the status.
    pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
        let counts = AuthStat::ALL.iter().zip(&self.0);
        let counts = counts.map(|(status, count)| (status.name(), count.load(Relaxed)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

/// Kinds of errors that peers can cause at will, each with its own log limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    MalformedRecord,
    AuthError,
    GarbageArgs,
    ContextRefused,
    /// The account of a context's principal could not be looked up.
    ContextDelayed,
    /// The groups of an AUTH_SYS caller could not be looked up.
    GroupsDelayed,
    /// A call outside of the sequence window of its context.
    Window,
    /// A call that took long.
    Slow,
}

/// Log lines about peers, limited so that a peer cannot fill the disk.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    malformed_record: LogLimit,
    auth_error: LogLimit,
    garbage_args: LogLimit,
    context_refused: LogLimit,
    context_delayed: LogLimit,
    groups_delayed: LogLimit,
    window: LogLimit,
    slow: LogLimit,
}

impl Reports {
    /// Logs an error of a peer, unless the limit of its kind suppresses the line.
    pub(crate) fn note(&self, trouble: Trouble, now: Duration, peer: SocketAddr, detail: impl Display) {
        let (limit, what) = match trouble {
            Trouble::MalformedRecord => (&self.malformed_record, "closed, because it sent no RPC message"),
            Trouble::AuthError => (&self.auth_error, "not authenticated"),
            Trouble::GarbageArgs => (&self.garbage_args, "arguments refused"),
            Trouble::ContextRefused => (&self.context_refused, "Kerberos context refused"),
            Trouble::ContextDelayed => (&self.context_delayed, "Kerberos context not created yet"),
            Trouble::GroupsDelayed => (&self.groups_delayed, "call delayed, because its groups are unknown"),
            Trouble::Slow => (&self.slow, "slow"),
            Trouble::Window => (&self.window, "discarded a call outside of the sequence window"),
        };
        if let Some(suppressed) = limit.permit(now) {
            tracing::warn!(%peer, suppressed, "{what}: {detail}");
        }
    }
}
