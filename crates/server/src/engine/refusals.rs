//! Callers that are refused by a rule of an export, or while the server drains: counted by the
//! rule, and logged with the remedy.

use super::{Compound, Fh};
use crate::log_limit::LogLimit;
use nfs4::Nfsstat4;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use vfs::SecFlavor;

/// The rule that refuses a caller, most often a key of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefusedBy {
    /// No export at this place admits the client's address.
    Clients,
    /// The export does not have the call's flavor.
    Sec,
    /// The export trusts `sec=sys` only from ports below 1024.
    Secure,
    /// The export refuses tickets that a service got in the user's name.
    Delegated,
    /// The server takes no new clients, by `orthrus drain`.
    Drain,
}

/// The rules and their names; the index is that of the counter.
const RULES: [(RefusedBy, &str); 5] = [
    (RefusedBy::Clients, "clients"),
    (RefusedBy::Sec, "sec"),
    (RefusedBy::Secure, "secure"),
    (RefusedBy::Delegated, "delegated"),
    (RefusedBy::Drain, "drain"),
];

/// Counters and log limits, one of each for a rule: refusals by one rule do not hide others.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    counts: [AtomicU64; RULES.len()],
    limits: [LogLimit; RULES.len()],
}

impl Refusals {
    /// Counts a refusal. `Some` permits a log line, with the number of lines suppressed before.
    fn count(&self, rule: RefusedBy, now: Duration) -> Option<u64> {
        let index = RULES.iter().position(|(known, _)| *known == rule)?;
        self.counts.get(index)?.fetch_add(1, Relaxed);
        self.limits.get(index)?.permit(now)
    }

    /// Returns the number of refusals by the name of the rule.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        let counters = RULES.iter().zip(&self.counts);
        counters.map(|((_, name), count)| (*name, count.load(Relaxed))).collect()
    }
}

impl Compound<'_> {
    /// Notes that the call's flavor may not be used on an object. Clients that negotiate the flavor
    /// try others next (RFC 8881 section 2.6.3.1), so the wrong flavor alone is no warning.
    pub(super) fn note_wrong_flavor(&self, fh: &Fh) {
        let (export, rule) = match fh {
            Fh::Pseudo(_) => ("/", RefusedBy::Sec),
            Fh::Object(object) => {
                let named = object.export.flavors_named(self.client_ip());
                let port = self.call.security.flavor == SecFlavor::Sys && named.contains(&SecFlavor::Sys);
                let rule = match port {
                    true => RefusedBy::Secure,
                    false if self.refuses_ticket(fh) => RefusedBy::Delegated,
                    false => RefusedBy::Sec,
                };
                (object.export.pseudo_path.as_str(), rule)
            }
        };
        self.note_refusal(rule, export, || match rule {
            RefusedBy::Secure => "mount without noresvport, or set `secure = false`".to_owned(),
            RefusedBy::Delegated => "use a ticket of the user's own, or set `delegated = true`".to_owned(),
            RefusedBy::Sec | RefusedBy::Clients | RefusedBy::Drain => {
                let usable: Vec<_> = self.flavors(fh).iter().map(|flavor| flavor.name()).collect();
                format!("mount with sec={}, or change `sec`", usable.join(" or sec="))
            }
        });
    }

    /// Notes that no export admits the client's address.
    pub(super) fn note_wrong_address(&self) {
        self.note_refusal(RefusedBy::Clients, "any", || "add the address to `clients`".to_owned());
    }

    /// Notes that a new client was refused, if that is because the server drains.
    pub fn note_if_drained(&self, status: Nfsstat4) {
        if status == Nfsstat4::NFS4ERR_CLID_INUSE && self.nfs.is_draining() {
            let remedy = || "use another server, or run `orthrus drain --cancel`".to_owned();
            self.note_refusal(RefusedBy::Drain, "any", remedy);
        }
    }

    /// Notes a name that does not exist for the client because no export there admits its address.
    pub(super) fn note_if_hidden(&self, directory: &Fh, name: &[u8]) {
        let Some(place) = directory.place() else { return };
        if let Some(export) = self.progress.exports.pseudo().hidden(place, name, self.client_ip()) {
            self.note_refusal(RefusedBy::Clients, &export.pseudo_path, || {
                "add the address to `clients`".to_owned()
            });
        }
    }

    fn note_refusal(&self, rule: RefusedBy, export: &str, remedy: impl FnOnce() -> String) {
        let Some(suppressed) = self.nfs.refusals.count(rule, self.now()) else { return };
        let (peer, flavor) = (self.call.peer, self.call.security.flavor.name());
        let sender = String::from_utf8_lossy(&self.call.security.sender.0);
        let user = sender.strip_prefix("gss:").unwrap_or(&sender);
        let text = match rule {
            RefusedBy::Clients => "refused by `clients`",
            RefusedBy::Sec => "refused by `sec`",
            RefusedBy::Secure => "refused by `secure`, from a port that any program may use",
            RefusedBy::Drain => "refused by `drain`, as a new client",
            RefusedBy::Delegated => {
                "refused by `delegated`, with a ticket that a service got in the user's name"
            }
        };
        let remedy = remedy();
        match rule {
            RefusedBy::Sec => tracing::info!(%peer, user, flavor, export, suppressed, "{text}: {remedy}"),
            _ => tracing::warn!(%peer, user, flavor, export, suppressed, "{text}: {remedy}"),
        }
    }
}
