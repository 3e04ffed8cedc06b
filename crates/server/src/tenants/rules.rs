//! The limits that an administrator sets for principals, clients and exports.

use identity::fits_pattern;
use std::net::IpAddr;
use vfs::Network;

/// The weight of a tenant that no rule names, and of an export without a weight.
pub const WEIGHT_DEFAULT: u32 = 100;

/// Limits of one principal or client. `None` leaves a limit to the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// The share of the time of threads that serve, relative to the weights of others with work.
    pub weight: Option<u32>,
    /// Operations of COMPOUNDs in a second; 0 for no limit.
    pub operations_max: Option<u64>,
    /// Bytes of requests and replies in a second; 0 for no limit.
    pub bytes_max: Option<u64>,
    /// Kerberos contexts of a principal.
    pub contexts_max: Option<usize>,
    /// Sessions of all its clients.
    pub sessions_max: Option<usize>,
    /// Opens of all its clients.
    pub opens_max: Option<usize>,
    /// Lock stateids and locked ranges.
    pub locks_max: Option<usize>,
}

impl TenantLimits {
    /// Returns these limits, and others where these have none.
    fn or(self, other: Self) -> Self {
        Self {
            weight: self.weight.or(other.weight),
            operations_max: self.operations_max.or(other.operations_max),
            bytes_max: self.bytes_max.or(other.bytes_max),
            contexts_max: self.contexts_max.or(other.contexts_max),
            sessions_max: self.sessions_max.or(other.sessions_max),
            opens_max: self.opens_max.or(other.opens_max),
            locks_max: self.locks_max.or(other.locks_max),
        }
    }
}

/// The principals or clients that a rule is for. Each of them has the limits for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitSubjects {
    /// Kerberos principals by patterns, in which `*` stands for any characters.
    Principals(Vec<String>),
    /// The addresses of networks.
    Clients(Vec<Network>),
}

/// Limits for some principals or clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRule {
    /// The principals or clients.
    pub subjects: LimitSubjects,
    /// The limits of each of them.
    pub limits: TenantLimits,
}

/// Limits of an export, for all of its clients together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportLimits {
    /// The number of the export in filehandles.
    pub export: u32,
    /// Its pseudo path, for the log.
    pub name: String,
    /// The share of the threads that wait for file systems, relative to the weights of other
    /// exports that have calls waiting for one.
    pub weight: Option<u32>,
    /// Operations of COMPOUNDs in a second; 0 for no limit.
    pub operations_max: u64,
    /// Bytes of requests and replies in a second; 0 for no limit.
    pub bytes_max: u64,
    /// Opens of all its clients.
    pub opens_max: Option<usize>,
    /// Lock stateids and locked ranges.
    pub locks_max: Option<usize>,
}

impl ExportLimits {
    /// Returns whether there is any limit or weight.
    pub fn is_any(&self) -> bool {
        let bounds_rates = self.operations_max > 0 || self.bytes_max > 0;
        bounds_rates || self.opens_max.is_some() || self.locks_max.is_some() || self.weight.is_some()
    }
}

/// All limits that an administrator sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitRules {
    /// The limits of each principal without a rule.
    pub principal: TenantLimits,
    /// The limits of each client without a rule.
    pub client: TenantLimits,
    /// Rules in order; the first that names a principal or a client counts.
    pub rules: Vec<LimitRule>,
    /// The limits of some exports.
    pub exports: Vec<ExportLimits>,
}

impl LimitRules {
    /// Returns the limits of a principal.
    pub fn of_principal(&self, name: &str) -> TenantLimits {
        let names = |rule: &&LimitRule| match &rule.subjects {
            LimitSubjects::Principals(patterns) => patterns.iter().any(|pattern| fits_pattern(pattern, name)),
            LimitSubjects::Clients(_) => false,
        };
        self.rules.iter().find(names).map_or(self.principal, |rule| rule.limits.or(self.principal))
    }

    /// Returns the limits of the client with an address.
    pub fn of_client(&self, address: IpAddr) -> TenantLimits {
        let names = |rule: &&LimitRule| match &rule.subjects {
            LimitSubjects::Clients(networks) => networks.iter().any(|network| network.contains(address)),
            LimitSubjects::Principals(_) => false,
        };
        self.rules.iter().find(names).map_or(self.client, |rule| rule.limits.or(self.client))
    }

    /// Returns whether a client has a limit of its rates.
    pub(super) fn bounds_clients(&self) -> bool {
        let of_clients = self.rules.iter().filter(|rule| matches!(rule.subjects, LimitSubjects::Clients(_)));
        let limits = of_clients.map(|rule| rule.limits).chain([self.client]);
        limits.into_iter().any(bounds_rate)
    }

    /// Returns whether any rate has a limit.
    pub(super) fn bounds_rates(&self) -> bool {
        let exports = self.exports.iter().any(|export| export.operations_max > 0 || export.bytes_max > 0);
        let limits = self.rules.iter().map(|rule| rule.limits).chain([self.principal, self.client]);
        exports || limits.into_iter().any(bounds_rate)
    }
}

fn bounds_rate(limits: TenantLimits) -> bool {
    limits.operations_max.unwrap_or(0) > 0 || limits.bytes_max.unwrap_or(0) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(subjects: LimitSubjects, operations: u64) -> LimitRule {
        let limits = TenantLimits { operations_max: Some(operations), ..TenantLimits::default() };
        LimitRule { subjects, limits }
    }

    #[test]
    fn the_first_rule_that_names_a_principal_counts_and_leaves_the_rest_to_the_defaults() {
        let principals = |patterns: &[&str]| {
            LimitSubjects::Principals(patterns.iter().map(|pattern| (*pattern).to_owned()).collect())
        };
        let clients = LimitSubjects::Clients(vec!["10.0.0.0/8".parse().unwrap()]);
        let rules = LimitRules {
            principal: TenantLimits { opens_max: Some(7), ..TenantLimits::default() },
            rules: vec![
                rule(clients, 1),
                rule(principals(&["nfs/*@R", "alice@R"]), 2),
                rule(principals(&["*"]), 3),
            ],
            ..LimitRules::default()
        };
        for (name, operations) in [("alice@R", 2), ("nfs/host@R", 2), ("bob@R", 3), ("alice@RR", 3)] {
            let limits = rules.of_principal(name);
            assert_eq!((limits.operations_max, limits.opens_max), (Some(operations), Some(7)), "{name}");
        }
        let of_client = |address: &str| rules.of_client(address.parse().unwrap()).operations_max;
        assert_eq!((of_client("10.1.2.3"), of_client("192.0.2.1")), (Some(1), None));
        assert_eq!(of_client("::ffff:10.1.2.3"), Some(1));
    }

    #[test]
    fn rules_without_a_rate_cost_calls_nothing() {
        let mut rules = LimitRules::default();
        assert!(!rules.bounds_rates() && !rules.bounds_clients());
        rules.client.opens_max = Some(1);
        assert!(!rules.bounds_rates() && !rules.bounds_clients());
        rules.rules.push(rule(LimitSubjects::Principals(vec!["*".into()]), 1));
        assert!(rules.bounds_rates() && !rules.bounds_clients());
        let networks = vec!["10.0.0.0/8".parse().unwrap()];
        rules.rules.push(rule(LimitSubjects::Clients(networks), 1));
        assert!(rules.bounds_clients());
    }
}
