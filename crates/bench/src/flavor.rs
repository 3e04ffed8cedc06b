//! The flavors that are compared.

use serde::{Deserialize, Serialize};

/// A security flavor of the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavor {
    /// AUTH_SYS, without protection.
    Sys,
    /// Kerberos, authentication only.
    Krb5,
    /// Kerberos with integrity protection.
    Krb5i,
    /// Kerberos with encryption.
    Krb5p,
}

impl Flavor {
    /// All four, in the order in which they are measured.
    pub const ALL: [Self; 4] = [Self::Sys, Self::Krb5, Self::Krb5i, Self::Krb5p];

    /// Returns the name as in `sec=`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sys => "sys",
            Self::Krb5 => "krb5",
            Self::Krb5i => "krb5i",
            Self::Krb5p => "krb5p",
        }
    }
}

impl std::str::FromStr for Flavor {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|flavor| flavor.name() == name);
        found.ok_or_else(|| "allowed are sys, krb5, krb5i and krb5p".to_owned())
    }
}
