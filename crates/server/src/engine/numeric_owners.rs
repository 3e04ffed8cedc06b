//! Owners that a client may give as numbers (RFC 8881 section 5.9).

use std::str::FromStr;
use vfs::SecFlavor;

/// The policy for numbers as owners.
///
/// RFC 8881 section 5.9: a server SHOULD return NFS4ERR_BADOWNER "when there is a valid translation
/// for the user or owner designated in this way", or a client could go around the translation. A
/// caller of AUTH_SYS gives numbers in each call, so there is nothing to go around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NumericOwners {
    /// With AUTH_SYS always, with Kerberos for numbers without a name.
    #[default]
    Sys,
    /// With every flavor, for clients with Kerberos and without a translation of names.
    Always,
    /// For numbers without a name only, with every flavor.
    Nameless,
}

impl NumericOwners {
    /// Returns whether a number is accepted although it has a name.
    pub fn allow_named(self, flavor: SecFlavor) -> bool {
        match self {
            Self::Sys => flavor == SecFlavor::Sys,
            Self::Always => true,
            Self::Nameless => false,
        }
    }
}

impl FromStr for NumericOwners {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "sys" => Ok(Self::Sys),
            "always" => Ok(Self::Always),
            "nameless" => Ok(Self::Nameless),
            other => {
                Err(format!("{other:?} is no choice of numeric_owners; there are sys, always and nameless"))
            }
        }
    }
}
