//! Clients by name, looked up as the server.

use super::clock::ServerClock;
use super::rules;
use crate::config::{ClientPattern, ExportTerms, Settings};
use identity::{ClientDirectory, ClientTimes, HostSource, NamedGroup, NssHosts, SourceError, Wait};
use server::LogLimit;
use std::cell::Cell;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use vfs::{ExportRule, NamedClients, RuleClient};

/// The system's hosts and netgroups, with the server's own rights, as for accounts. Logs failures.
struct HostsAsServer {
    clock: ServerClock,
    limit: LogLimit,
}

impl HostsAsServer {
    fn run<T>(&self, run: impl FnOnce(&NssHosts) -> Result<T, SourceError>) -> Result<T, SourceError> {
        vfs_local::become_server();
        run(&NssHosts).inspect_err(|error| {
            if let Some(suppressed) = self.limit.permit(self.clock.peek()) {
                tracing::warn!(
                    suppressed,
                    "{error}; clients known by this name keep their rights for a time, others have to wait"
                );
            }
        })
    }
}

impl HostSource for HostsAsServer {
    fn name(&self, address: IpAddr) -> Result<Option<String>, SourceError> {
        self.run(|hosts| hosts.name(address))
    }

    fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, SourceError> {
        self.run(|hosts| hosts.addresses(host))
    }

    fn in_netgroup(&self, netgroup: &str, host: &str) -> Result<bool, SourceError> {
        self.run(|hosts| hosts.in_netgroup(netgroup, host))
    }
}

/// The clients of a name, as the rules of exports use them.
struct KnownClients(NamedGroup);

impl NamedClients for KnownClients {
    fn contains(&self, client: IpAddr, now: Duration) -> Option<bool> {
        self.0.contains(client, now)
    }

    fn resolve(&self, client: IpAddr, now: Duration, left: &Cell<Duration>) -> bool {
        self.0.resolve(client, now, Wait::Within(left))
    }

    fn is_open_ended(&self) -> bool {
        self.0.name().is_open_ended()
    }

    fn known_as(&self, client: IpAddr, now: Duration) -> Option<String> {
        self.0.known_as(client, now)
    }
}

impl fmt::Display for KnownClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for KnownClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Makes the rules of exports, and looks up the names in them.
#[derive(Clone)]
pub(super) struct ClientRules {
    names: Arc<ClientDirectory>,
    clock: ServerClock,
}

impl ClientRules {
    /// Makes the rules of a server with this clock.
    pub(super) fn new(settings: &Settings, clock: ServerClock) -> Self {
        let source = HostsAsServer { clock: clock.clone(), limit: LogLimit::default() };
        let names = ClientDirectory::new(source, times(settings), settings.identity.timeout);
        Self { names, clock }
    }

    /// Returns a rule with these terms, and begins to look up its hosts.
    pub(super) fn rule(&self, terms: &ExportTerms) -> ExportRule {
        let client = |client: &ClientPattern| match client {
            ClientPattern::Any => RuleClient::Any,
            ClientPattern::Network(network) => RuleClient::Network(*network),
            ClientPattern::Named(name) => {
                RuleClient::Named(Arc::new(KnownClients(self.names.clients(name, self.clock.peek()))))
            }
        };
        ExportRule {
            clients: terms.clients.iter().map(client).collect(),
            flavors: terms.flavors.clone(),
            secure: terms.secure,
            read_only: terms.read_only,
            squash: terms.squash,
            anon_uid: terms.anon_uid,
            anon_gid: terms.anon_gid,
        }
    }

    /// Looks all names up again at their next use, with the times of the settings.
    pub(super) fn refresh(&self, settings: &Settings) {
        self.names.refresh(times(settings));
    }

    /// Looks up the names in the rules, without a time limit. Returns a sentence for each that is
    /// of no use now.
    pub(super) fn examine(&self, settings: &Settings) -> Vec<String> {
        let mut faults = Vec::new();
        for export in &settings.exports {
            let clients = export.terms().into_iter().flat_map(|terms| terms.clients);
            let names = clients.filter_map(|client| match client {
                ClientPattern::Named(name) => Some(name),
                ClientPattern::Any | ClientPattern::Network(_) => None,
            });
            for name in names {
                if let Err(fault) = self.names.examine(&name) {
                    faults.push(format!("export {}: clients {name}: {fault}", export.pseudo));
                }
            }
        }
        faults
    }
}

/// Names of clients are as old as accounts at most.
fn times(settings: &Settings) -> ClientTimes {
    ClientTimes::from(&rules(settings, &[]))
}
