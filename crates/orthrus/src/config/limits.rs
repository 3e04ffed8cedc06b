//! Limits of each principal, client and export: `[limits.principal]`, `[limits.client]`,
//! `[[limits.rule]]`, and keys of `[[export]]`.

use super::Settings;
use super::values::bounded;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use server::tenants::{ExportLimits, LimitRule, LimitRules, LimitSubjects, TenantLimits};
use vfs::Network;

/// The limits of each principal without a rule. `None` adds nothing to the other limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PrincipalLimits {
    /// Share of the time of threads that serve, relative to those of others with work.
    #[serde(deserialize_with = "weight")]
    pub weight: Option<u32>,
    /// Operations of COMPOUNDs in a second; 0 for no limit.
    #[serde(deserialize_with = "operations")]
    pub operations_max: Option<u64>,
    /// Bytes of requests and replies in a second; 0 for no limit.
    #[serde(deserialize_with = "bytes")]
    pub bytes_max: Option<u64>,
    /// Kerberos contexts of the principal.
    #[serde(deserialize_with = "contexts")]
    pub contexts_max: Option<usize>,
    /// Sessions of all its clients.
    #[serde(deserialize_with = "sessions")]
    pub sessions_max: Option<usize>,
    /// Opens of all its clients.
    #[serde(deserialize_with = "opens")]
    pub opens_max: Option<usize>,
    /// Lock stateids and locked ranges.
    #[serde(deserialize_with = "locks")]
    pub locks_max: Option<usize>,
}

/// The limits of each client without a rule, by its address: those of [`PrincipalLimits`] without
/// contexts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ClientLimits {
    #[serde(deserialize_with = "weight")]
    pub weight: Option<u32>,
    #[serde(deserialize_with = "operations")]
    pub operations_max: Option<u64>,
    #[serde(deserialize_with = "bytes")]
    pub bytes_max: Option<u64>,
    #[serde(deserialize_with = "sessions")]
    pub sessions_max: Option<usize>,
    #[serde(deserialize_with = "opens")]
    pub opens_max: Option<usize>,
    #[serde(deserialize_with = "locks")]
    pub locks_max: Option<usize>,
}

/// Limits for some principals and clients, as in [`PrincipalLimits`]; the first rule that names one
/// counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LimitRuleSettings {
    /// Patterns of principals, in which `*` stands for any characters.
    #[serde(deserialize_with = "principals")]
    pub principals: Vec<String>,
    /// Addresses and networks of clients.
    #[serde(deserialize_with = "networks")]
    pub clients: Vec<Network>,
    #[serde(deserialize_with = "weight")]
    pub weight: Option<u32>,
    #[serde(deserialize_with = "operations")]
    pub operations_max: Option<u64>,
    #[serde(deserialize_with = "bytes")]
    pub bytes_max: Option<u64>,
    #[serde(deserialize_with = "contexts")]
    pub contexts_max: Option<usize>,
    #[serde(deserialize_with = "sessions")]
    pub sessions_max: Option<usize>,
    #[serde(deserialize_with = "opens")]
    pub opens_max: Option<usize>,
    #[serde(deserialize_with = "locks")]
    pub locks_max: Option<usize>,
}

/// Shares of the time of threads, relative to those of others.
pub(super) fn weight<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    bounded::<D, u32, 1, 10_000>(from).map(Some)
}

/// Operations of COMPOUNDs in a second; 0 for no limit.
pub(super) fn operations<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    bounded::<D, u64, 0, 1_000_000_000>(from).map(Some)
}

/// Bytes of requests and replies in a second; 0 for no limit.
pub(super) fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    bounded::<D, u64, 0, 1_000_000_000_000>(from).map(Some)
}

fn contexts<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    bounded::<D, usize, 1, 10_000_000>(from).map(Some)
}

fn sessions<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    bounded::<D, usize, 1, 1_000_000>(from).map(Some)
}

/// Opens of one subject together.
pub(super) fn opens<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    bounded::<D, usize, 1, 10_000_000>(from).map(Some)
}

/// Lock stateids and locked ranges of one subject together.
pub(super) fn locks<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
    bounded::<D, usize, 16, 10_000_000>(from).map(Some)
}

fn principals<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let patterns = Vec::<String>::deserialize(from)?;
    if patterns.is_empty() || patterns.iter().any(String::is_empty) {
        return Err(D::Error::custom("a principal is missing; [\"*\"] is for all principals"));
    }
    Ok(patterns)
}

fn networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Network>, D::Error> {
    let networks: Vec<Network> = super::values::parsed_each(from)?;
    if networks.is_empty() {
        return Err(D::Error::custom("the list is empty; [\"0.0.0.0/0\", \"::/0\"] is for all clients"));
    }
    Ok(networks)
}

impl LimitRuleSettings {
    /// Returns whether the rule names a principal or a client.
    pub(super) fn names_any(&self) -> bool {
        !self.principals.is_empty() || !self.clients.is_empty()
    }

    fn rules(&self) -> impl Iterator<Item = LimitRule> {
        let limits = TenantLimits {
            weight: self.weight,
            operations_max: self.operations_max,
            bytes_max: self.bytes_max,
            contexts_max: self.contexts_max,
            sessions_max: self.sessions_max,
            opens_max: self.opens_max,
            locks_max: self.locks_max,
        };
        let principals =
            (!self.principals.is_empty()).then(|| LimitSubjects::Principals(self.principals.clone()));
        let clients = (!self.clients.is_empty()).then(|| LimitSubjects::Clients(self.clients.clone()));
        [principals, clients].into_iter().flatten().map(move |subjects| LimitRule { subjects, limits })
    }
}

impl Settings {
    /// Returns the limits of principals, clients and exports.
    pub(crate) fn limit_rules(&self) -> LimitRules {
        let of_principal = self.limits.principal;
        let principal = TenantLimits {
            weight: of_principal.weight,
            operations_max: of_principal.operations_max,
            bytes_max: of_principal.bytes_max,
            contexts_max: of_principal.contexts_max,
            sessions_max: of_principal.sessions_max,
            opens_max: of_principal.opens_max,
            locks_max: of_principal.locks_max,
        };
        let of_client = self.limits.client;
        let client = TenantLimits {
            weight: of_client.weight,
            operations_max: of_client.operations_max,
            bytes_max: of_client.bytes_max,
            contexts_max: None,
            sessions_max: of_client.sessions_max,
            opens_max: of_client.opens_max,
            locks_max: of_client.locks_max,
        };
        let exports = self.exports.iter().map(|export| ExportLimits {
            export: export.fsid.unwrap_or_else(|| vfs::export_id(&export.pseudo)),
            name: export.pseudo.clone(),
            weight: export.weight,
            operations_max: export.operations_max.unwrap_or(0),
            bytes_max: export.bytes_max.unwrap_or(0),
            opens_max: export.opens_max,
            locks_max: export.locks_max,
        });
        let exports = exports.filter(ExportLimits::is_any).collect();
        let rules = self.limits.rules.iter().flat_map(LimitRuleSettings::rules).collect();
        LimitRules { principal, client, rules, exports }
    }
}
