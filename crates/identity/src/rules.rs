//! The site's rules for names.

use std::collections::HashMap;
use std::time::Duration;

/// What happens to a principal without an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    /// It acts as the export's anonymous user.
    #[default]
    Anonymous,
    /// Its context is refused.
    Refused,
}

/// How principals and owners are mapped.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The domain behind the `@` of owners, such as `example.org`; compared without case (RFC 8881
    /// section 5.9).
    pub domain: String,
    /// The realms whose users are the local users of the same name.
    pub realms: Vec<String>,
    /// Principals, written in full, that act as a local user of another name. The only way to map a
    /// machine's principal, and the only way for a principal to become uid 0.
    pub principals: HashMap<String, String>,
    /// What happens to principals without an account.
    pub unknown: Unknown,
    /// Longest name that is looked up, in bytes.
    pub name_max: usize,
    /// Most entries of each cache.
    pub cache_max: usize,
    /// How long a found name is believed.
    pub expiry: Duration,
    /// How long the absence of a name is believed.
    pub absence_expiry: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            domain: "localdomain".to_owned(),
            realms: Vec::new(),
            principals: HashMap::new(),
            unknown: Unknown::default(),
            name_max: 256,
            cache_max: 16_384,
            expiry: Duration::from_secs(600),
            absence_expiry: Duration::from_secs(30),
        }
    }
}

impl Rules {
    /// Makes the usual rules of a site: owners in `domain`, the users of `realm` are the local
    /// users.
    pub fn new(domain: &str, realm: &str) -> Self {
        Self { domain: domain.to_owned(), realms: vec![realm.to_owned()], ..Self::default() }
    }
}
