//! The site's rules for names.

use crate::LocalRule;
use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

/// The policy for principals without an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// The principal acts as the export's anonymous user.
    #[default]
    Anonymous,
    /// The server refuses the principal's context.
    Refused,
}

impl FromStr for Unknown {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "anonymous" => Ok(Self::Anonymous),
            "refused" => Ok(Self::Refused),
            other => Err(format!("{other:?} is no choice of unknown; there are anonymous and refused")),
        }
    }
}

/// The mapping of principals and owners.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The domain behind the `@` of owners, such as `example.org`; compared without case (RFC 8881
    /// section 5.9).
    pub domain: String,
    /// The realms whose principals may be local users.
    pub realms: Vec<String>,
    /// Further realms whose machines may mount without an account: those of the server's keys.
    pub machine_realms: Vec<String>,
    /// The rules from principals of `realms` to local users; the first that applies counts.
    pub local: Vec<LocalRule>,
    /// Full principals that act as a local user of another name. Only this maps a machine's
    /// principal, or any principal to uid 0.
    pub principals: HashMap<String, String>,
    /// The policy for principals without an account.
    pub unknown: Unknown,
    /// Longest name in lookups, in bytes.
    pub name_max: usize,
    /// Largest number of entries in each cache.
    pub cache_max: usize,
    /// Time for which a found name is cached.
    pub expiry: Duration,
    /// Time for which the absence of a name is cached, and after which a source that failed is
    /// tried again.
    pub absence_expiry: Duration,
    /// Age up to which a found name stands in while the source fails or is late.
    pub stale_expiry: Duration,
    /// Time after which a lookup counts as late, and for which one call waits for all of its
    /// lookups.
    pub lookup_wait_max: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            domain: "localdomain".to_owned(),
            realms: Vec::new(),
            machine_realms: Vec::new(),
            local: vec![LocalRule::Default(None)],
            principals: HashMap::new(),
            unknown: Unknown::default(),
            name_max: 256,
            cache_max: 16_384,
            expiry: Duration::from_secs(300),
            absence_expiry: Duration::from_secs(30),
            stale_expiry: Duration::from_secs(86_400),
            lookup_wait_max: Duration::from_secs(2),
        }
    }
}

impl Rules {
    /// Returns the usual rules of a site: owners are in `domain`, and users of `realm` are the
    /// local users.
    pub fn new(domain: &str, realm: &str) -> Self {
        Self { domain: domain.to_owned(), realms: vec![realm.to_owned()], ..Self::default() }
    }
}
