//! Encryption types of a realm.

use std::fmt;
use std::str::FromStr;

use crate::RealmError;

/// One encryption type of a realm's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RealmEnctype {
    /// Encryption type 17, RFC 3962.
    Aes128Sha1,
    /// Encryption type 18, RFC 3962.
    Aes256Sha1,
    /// Encryption type 19, RFC 8009.
    Aes128Sha2,
    /// Encryption type 20, RFC 8009.
    Aes256Sha2,
    /// Encryption type 16, which is broken; only for tests that it is refused.
    Des3,
    /// Encryption type 23, which is broken; only for tests that it is refused.
    Rc4,
}

impl RealmEnctype {
    /// Returns the name in MIT's configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes128Sha1 => "aes128-cts-hmac-sha1-96",
            Self::Aes256Sha1 => "aes256-cts-hmac-sha1-96",
            Self::Aes128Sha2 => "aes128-cts-hmac-sha256-128",
            Self::Aes256Sha2 => "aes256-cts-hmac-sha384-192",
            Self::Des3 => "des3-cbc-sha1",
            Self::Rc4 => "arcfour-hmac",
        }
    }

    /// Returns the assigned encryption type number.
    pub fn number(self) -> i32 {
        match self {
            Self::Des3 => 16,
            Self::Aes128Sha1 => 17,
            Self::Aes256Sha1 => 18,
            Self::Aes128Sha2 => 19,
            Self::Aes256Sha2 => 20,
            Self::Rc4 => 23,
        }
    }

    /// Returns the family. A service's keys may mix types of one family only.
    fn family(self) -> u8 {
        match self {
            Self::Aes128Sha1 | Self::Aes256Sha1 => 1,
            Self::Aes128Sha2 | Self::Aes256Sha2 => 2,
            Self::Des3 | Self::Rc4 => 0,
        }
    }

    fn is_weak(self) -> bool {
        self.family() == 0
    }
}

/// The encryption types of a realm, in order of preference.
///
/// A service has keys of the first type's family only: Linux clients with credentials of mixed
/// families fail with EIO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enctypes(Vec<RealmEnctype>);

impl Enctypes {
    /// Returns the types of RFC 3962, which every client supports: 18, then 17.
    pub fn sha1() -> Self {
        Self(vec![RealmEnctype::Aes256Sha1, RealmEnctype::Aes128Sha1])
    }

    /// Returns the types of RFC 8009, which Linux clients support since 6.3: 20, then 19.
    pub fn sha2() -> Self {
        Self(vec![RealmEnctype::Aes256Sha2, RealmEnctype::Aes128Sha2])
    }

    /// Returns all four types; services have only the keys that every client supports.
    pub fn all() -> Self {
        let mut all = Self::sha1().0;
        all.extend(Self::sha2().0);
        Self(all)
    }

    /// Returns a single type.
    pub fn only(enctype: RealmEnctype) -> Self {
        Self(vec![enctype])
    }

    pub(crate) fn first(&self) -> RealmEnctype {
        self.0.first().copied().unwrap_or(RealmEnctype::Aes256Sha1)
    }

    pub(crate) fn is_weak(&self) -> bool {
        self.0.iter().any(|e| e.is_weak())
    }

    /// Returns the type names for `permitted_enctypes`.
    pub(crate) fn names(&self) -> String {
        join(self.0.iter().map(|e| e.name().to_owned()), " ")
    }

    /// Returns the key types for kadmin, either all or those of a service.
    pub(crate) fn key_salts(&self, service: bool) -> String {
        let family = self.first().family();
        let chosen = self.0.iter().filter(|e| !service || e.family() == family);
        join(chosen.map(|e| format!("{}:normal", e.name())), ",")
    }
}

fn join(parts: impl Iterator<Item = String>, with: &str) -> String {
    parts.collect::<Vec<_>>().join(with)
}

impl Default for Enctypes {
    fn default() -> Self {
        Self::sha1()
    }
}

impl FromStr for Enctypes {
    type Err = RealmError;

    /// Parses `sha1`, `sha2`, `all`, or a comma-separated list of numbers and names: `20`, `18,17`,
    /// `aes256-cts-hmac-sha1-96`.
    fn from_str(text: &str) -> Result<Self, RealmError> {
        use RealmEnctype::{Aes128Sha1, Aes128Sha2, Aes256Sha1, Aes256Sha2};
        match text {
            "sha1" => return Ok(Self::sha1()),
            "sha2" => return Ok(Self::sha2()),
            "all" => return Ok(Self::all()),
            _ => {}
        }
        let one = |part: &str| {
            [Aes128Sha1, Aes256Sha1, Aes128Sha2, Aes256Sha2]
                .into_iter()
                .find(|e| e.name() == part || e.number().to_string() == part)
        };
        text.split(',').map(one).collect::<Option<_>>().map(Self).ok_or_else(|| RealmError::Option {
            what: "enctype",
            value: text.to_owned(),
            rule: "allowed are sha1, sha2, all, and 17 to 20 (one or several with commas)",
        })
    }
}

impl fmt::Display for Enctypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_and_single_types_can_be_asked_for() {
        assert_eq!("sha2".parse::<Enctypes>().unwrap(), Enctypes::sha2());
        assert_eq!("17".parse::<Enctypes>().unwrap(), Enctypes::only(RealmEnctype::Aes128Sha1));
        assert_eq!("18,17".parse::<Enctypes>().unwrap(), Enctypes::sha1());
        assert!("23".parse::<Enctypes>().is_err() && "".parse::<Enctypes>().is_err());
    }

    #[test]
    fn services_have_keys_of_one_family() {
        let keys = Enctypes::all().key_salts(true);
        assert_eq!(keys, "aes256-cts-hmac-sha1-96:normal,aes128-cts-hmac-sha1-96:normal");
        assert_eq!(Enctypes::all().key_salts(false).split(',').count(), 4);
    }
}
