//! Callers that are refused by a rule of an export, by a limit, or while the server drains: counted
//! by the rule, and logged with the remedy.

use super::{Compound, Fh, Object, ObservedRefusal, OpError, principal_of};
use crate::log_limit::LogLimit;
use nfs4::Nfsstat4;
use state::OwnerRival;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use vfs::{Export, RuleClient, SecFlavor};

/// The rule that refuses a caller, most often a key of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusedBy {
    /// No export at this place admits the client's address.
    Clients,
    /// The export does not have the call's flavor.
    Sec,
    /// The export trusts `sec=sys` only from ports below 1024.
    Secure,
    /// The export is read-only for the client.
    ReadOnly,
    /// The export refuses tickets that a service got in the user's name.
    Delegated,
    /// The server takes no new clients, by `orthrus drain`.
    Drain,
    /// The user, the client, the export or the server has as many opens as it may have.
    Opens,
    /// The same of sessions.
    Sessions,
    /// The same of locks.
    Locks,
    /// An owner or a group that a client sets has no account, or another domain.
    Owner,
    /// Two clients have one client owner.
    ClientOwner,
}

/// The rules and their names; the index is that of the counter.
const RULES: [(RefusedBy, &str); 11] = [
    (RefusedBy::Clients, "clients"),
    (RefusedBy::Sec, "sec"),
    (RefusedBy::Secure, "secure"),
    (RefusedBy::ReadOnly, "read_only"),
    (RefusedBy::Delegated, "delegated"),
    (RefusedBy::Drain, "drain"),
    (RefusedBy::Opens, "opens_max"),
    (RefusedBy::Sessions, "sessions_max"),
    (RefusedBy::Locks, "locks_max"),
    (RefusedBy::Owner, "owner"),
    (RefusedBy::ClientOwner, "client_owner"),
];

impl RefusedBy {
    /// Returns the name of the rule.
    fn name(self) -> &'static str {
        RULES.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }
}

/// Bytes of an owner that a line has.
pub(super) const OWNER_BYTES_MAX: usize = 128;

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

/// The place of a refusal: an export, and the clients of the rule that decided.
struct RefusalPlace<'e> {
    export: &'e str,
    clients: String,
}

impl<'e> RefusalPlace<'e> {
    /// Makes the refusal of a caller for whom no rule of an export decides.
    fn outside(export: &'e str) -> Self {
        Self { export, clients: String::new() }
    }

    /// Makes a refusal by the rule that decides for the client on an object.
    fn on(object: &'e Object) -> Self {
        let list: Vec<_> = object.rule().clients.iter().map(ToString::to_string).collect();
        let clients = format!("{} (rule {})", list.join(", "), object.rule.number());
        Self { export: &object.export.pseudo_path, clients }
    }
}

impl Compound<'_> {
    /// Notes that the call's flavor may not be used on an object. Clients that negotiate the flavor
    /// try others next (RFC 8881 section 2.6.3.1), so the wrong flavor alone is no warning.
    pub(super) fn note_wrong_flavor(&self, fh: &Fh) {
        let usable = || {
            let usable = self.flavors(fh).unwrap_or_default();
            let usable: Vec<_> = usable.iter().map(|flavor| flavor.name()).collect();
            format!("mount with sec={}, or change `sec`", usable.join(" or sec="))
        };
        let Fh::Object(object) = fh else {
            return self.note_refusal(RefusedBy::Sec, || RefusalPlace::outside("/"), usable);
        };
        let flavor = self.call.security.flavor;
        let by_port = flavor == SecFlavor::Sys && object.rule().flavors.contains(&flavor);
        let rule = match by_port {
            true => RefusedBy::Secure,
            false if self.refuses_ticket(fh) => RefusedBy::Delegated,
            false => RefusedBy::Sec,
        };
        self.note_refusal(
            rule,
            || RefusalPlace::on(object),
            || match rule {
                RefusedBy::Secure => "mount without noresvport, or set `secure = false`".to_owned(),
                RefusedBy::Delegated => {
                    "use a ticket of the user's own, or set `delegated = true`".to_owned()
                }
                _ => usable(),
            },
        );
    }

    /// Checks that the client may change an object, as far as the rule of the export decides.
    ///
    /// # Errors
    /// NFS4ERR_ROFS.
    pub fn check_writable(&self, object: &Object) -> Result<(), OpError> {
        if !object.rule().read_only {
            return Ok(());
        }
        let remedy = || "mount read-only, or set `read_only = false` for these clients".to_owned();
        self.note_refusal(RefusedBy::ReadOnly, || RefusalPlace::on(object), remedy);
        Err(Nfsstat4::NFS4ERR_ROFS.into())
    }

    /// Notes that no export admits the client.
    pub(super) fn note_wrong_address(&self) {
        let exports = &self.progress.exports;
        self.note_unnamed("any", || exports.iter().find_map(|export| self.known_as(export)));
    }

    /// Notes that a new client was refused: the server drains, or another principal's client has
    /// the client owner.
    pub fn note_refused_client(&self, status: Nfsstat4, owner: &[u8]) {
        if status != Nfsstat4::NFS4ERR_CLID_INUSE {
            return;
        }
        if self.nfs.is_draining() {
            let remedy = || "use another server, or run `orthrus drain --cancel`".to_owned();
            let rule = RefusedBy::Drain;
            return self.note_refusal(rule, || RefusalPlace::outside("any"), remedy);
        }
        self.note_client_owner(owner, || "the client of another principal keeps it".to_owned());
    }

    /// Notes that two clients with one client owner replace each other: each time the programs of
    /// one lose their opens and locks.
    pub fn note_rival(&self, rival: &OwnerRival) {
        self.note_client_owner(&rival.owner, || {
            format!("this client and that of {} take each other's opens and locks", rival.address)
        });
    }

    fn note_client_owner(&self, owner: &[u8], effect: impl FnOnce() -> String) {
        let shown = &owner[..owner.len().min(OWNER_BYTES_MAX)];
        let remedy = || {
            let (owner, effect) = (String::from_utf8_lossy(shown), effect());
            format!(
                "{owner:?}, and {effect}; give each machine a host name or an `nfs4_unique_id` of its own"
            )
        };
        self.note_refusal(RefusedBy::ClientOwner, || RefusalPlace::outside("any"), remedy);
    }

    /// Notes that a limit refuses one more open, session or lock, if `status` says so. Clients take
    /// NFS4ERR_NOSPC for a full disk and repeat a call after NFS4ERR_DELAY for ever, so the log has
    /// to name the limit.
    pub(crate) fn note_if_full(&self, status: Nfsstat4, limit: RefusedBy) {
        let refusal = match limit {
            RefusedBy::Locks => Nfsstat4::NFS4ERR_DELAY,
            _ => Nfsstat4::NFS4ERR_NOSPC,
        };
        if status != refusal {
            return;
        }
        let remedy = || {
            let name = limit.name();
            match limit {
                RefusedBy::Opens => format!("see `orthrus clients`, and raise `{name}` or `ulimit -n`"),
                _ => format!("see `orthrus clients`, and raise `{name}`"),
            }
        };
        self.note_refusal(limit, || RefusalPlace::outside(self.current_export()), remedy);
    }

    /// Notes that an owner or a group is refused (NFS4ERR_BADOWNER), of which programs only learn
    /// that an argument is invalid.
    pub(super) fn note_owner(&self, owner: &[u8], why: impl FnOnce() -> String) {
        let shown = &owner[..owner.len().min(OWNER_BYTES_MAX)];
        let why = || format!("{:?}, {}", String::from_utf8_lossy(shown), why());
        self.note_refusal(RefusedBy::Owner, || RefusalPlace::outside(self.current_export()), why);
    }

    /// Returns the export of the current filehandle.
    fn current_export(&self) -> &str {
        match &self.progress.current {
            Some(Fh::Object(object)) => &object.export.pseudo_path,
            _ => "any",
        }
    }

    /// Notes a name that does not exist for the client because no export there admits it.
    pub(super) fn note_if_hidden(&self, directory: &Fh, name: &[u8]) {
        let Some(place) = directory.place() else { return };
        if let Some(export) = self.progress.exports.pseudo().hidden(place, name, self.peer()) {
            self.note_unnamed(&export.pseudo_path, || self.known_as(export));
        }
    }

    /// Notes that no rule of an export names the client. `known_as` describes the client's names,
    /// if the rules need them.
    fn note_unnamed(&self, export: &str, known_as: impl FnOnce() -> Option<String>) {
        let rule = RefusedBy::Clients;
        self.note_refusal(
            rule,
            || RefusalPlace::outside(export),
            || {
                let known_as = known_as().map(|names| format!(" ({names})")).unwrap_or_default();
                format!("add the address{known_as} to `clients`")
            },
        );
    }

    /// Describes the client's names, if a rule of the export needs them.
    fn known_as(&self, export: &Export) -> Option<String> {
        let clients = export.rules.iter().flat_map(|rule| &rule.clients);
        let mut named = clients.filter_map(|client| match client {
            RuleClient::Named(named) => Some(named),
            RuleClient::Any | RuleClient::Network(_) => None,
        });
        named.find_map(|named| named.known_as(self.peer().ip(), self.now()))
    }

    fn note_refusal<'e>(
        &self,
        rule: RefusedBy,
        refusal: impl FnOnce() -> RefusalPlace<'e>,
        remedy: impl FnOnce() -> String,
    ) {
        let permitted = self.nfs.refusals.count(rule, self.now());
        let observer = self.nfs.observation.get();
        if permitted.is_none() && observer.is_none() {
            return;
        }
        let (peer, flavor) = (self.call.peer, self.call.security.flavor.name());
        let user = &*principal_of(&self.call.security.sender);
        let RefusalPlace { export, clients } = refusal();
        if let Some(observer) = observer {
            observer.refusal(&ObservedRefusal {
                peer,
                principal: Some(user),
                flavor: Some(flavor),
                export: Some(export),
                reason: rule.name(),
            });
        }
        let Some(suppressed) = permitted else { return };
        let clients = (!clients.is_empty()).then_some(clients.as_str());
        let text = match rule {
            RefusedBy::Clients => "refused by `clients`",
            RefusedBy::Sec => "refused by `sec`",
            RefusedBy::Secure => "refused by `secure`, from a port that any program may use",
            RefusedBy::ReadOnly => "refused by `read_only`",
            RefusedBy::Drain => "refused by `drain`, as a new client",
            RefusedBy::Opens => "refused by `opens_max`, as too many files are open",
            RefusedBy::Sessions => "refused by `sessions_max`, as there are too many sessions",
            RefusedBy::Owner => "refused an owner",
            RefusedBy::ClientOwner => "two clients have one client owner",
            RefusedBy::Locks => "refused by `locks_max`, as there are too many locks",
            RefusedBy::Delegated => {
                "refused by `delegated`, with a ticket that a service got in the user's name"
            }
        };
        let remedy = remedy();
        match rule {
            RefusedBy::Sec | RefusedBy::ReadOnly | RefusedBy::Owner => {
                tracing::info!(%peer, user, flavor, export, clients, suppressed, "{text}: {remedy}");
            }
            _ => tracing::warn!(%peer, user, flavor, export, clients, suppressed, "{text}: {remedy}"),
        }
    }
}
