//! The rules of an export in a configuration: `[[export.rule]]`.

use super::clients::ClientPattern;
use super::settings::ExportSettings;
use super::values::{client_list, flavors, parsed};
use serde::Deserialize;
use serde::de::Deserializer;
use vfs::{SecFlavor, Squash};

/// One rule. A key that it does not have is the export's.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleSettings {
    /// The clients to which it applies; at least one.
    #[serde(deserialize_with = "client_list")]
    pub clients: Vec<ClientPattern>,
    /// Allowed flavors in order of preference.
    #[serde(default, rename = "sec", deserialize_with = "some_flavors")]
    pub flavors: Option<Vec<SecFlavor>>,
    /// Whether `sys` is good only from a privileged source port.
    pub secure: Option<bool>,
    /// Whether changes are refused.
    pub read_only: Option<bool>,
    /// The callers whose identity is replaced.
    #[serde(default, deserialize_with = "some_squash")]
    pub squash: Option<Squash>,
    /// User for squashed callers.
    pub anon_uid: Option<u32>,
    /// Group for squashed callers.
    pub anon_gid: Option<u32>,
}

fn some_flavors<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<SecFlavor>>, D::Error> {
    flavors(from).map(Some)
}

fn some_squash<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Squash>, D::Error> {
    parsed(from).map(Some)
}

/// The terms of an export for some clients, with every value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExportTerms {
    /// The clients to which they apply.
    pub clients: Vec<ClientPattern>,
    /// Allowed flavors in order of preference.
    pub flavors: Vec<SecFlavor>,
    /// Whether `sys` is good only from a privileged source port.
    pub secure: bool,
    /// Whether changes are refused.
    pub read_only: bool,
    /// The callers whose identity is replaced.
    pub squash: Squash,
    /// User for squashed callers.
    pub anon_uid: u32,
    /// Group for squashed callers.
    pub anon_gid: u32,
}

impl ExportSettings {
    /// Returns the terms for the clients of each rule, in their order; the first that name a client
    /// count.
    pub(crate) fn terms(&self) -> Vec<ExportTerms> {
        let own = ExportTerms {
            clients: self.clients.clone().unwrap_or_else(|| vec![ClientPattern::Any]),
            flavors: self.flavors.clone(),
            secure: self.secure,
            read_only: self.read_only,
            squash: self.squash,
            anon_uid: self.anon_uid,
            anon_gid: self.anon_gid,
        };
        if self.rules.is_empty() {
            return vec![own];
        }
        let terms = |rule: &RuleSettings| ExportTerms {
            clients: rule.clients.clone(),
            flavors: rule.flavors.clone().unwrap_or_else(|| own.flavors.clone()),
            secure: rule.secure.unwrap_or(own.secure),
            read_only: rule.read_only.unwrap_or(own.read_only),
            squash: rule.squash.unwrap_or(own.squash),
            anon_uid: rule.anon_uid.unwrap_or(own.anon_uid),
            anon_gid: rule.anon_gid.unwrap_or(own.anon_gid),
        };
        self.rules.iter().map(terms).collect()
    }

    /// Checks that each rule can apply.
    ///
    /// # Errors
    /// The key that is wrong, and the reason.
    pub(super) fn check_rules(&self) -> Result<(), (&'static str, String)> {
        if !self.rules.is_empty() && self.clients.is_some() {
            let message = "an export has either `clients` or rules; give these clients a rule of their own";
            return Err(("clients", message.to_owned()));
        }
        let for_all = self.rules.iter().position(|rule| rule.clients.contains(&ClientPattern::Any));
        if let Some(first) = for_all.map(|index| index + 1).filter(|first| *first < self.rules.len()) {
            let message = format!("no client gets to a rule behind number {first}, which is for all clients");
            return Err(("export.rule", message));
        }
        Ok(())
    }
}
