//! Clients in a configuration: all, a network, or a name.

use identity::ClientName;
use std::fmt;
use std::str::FromStr;
use vfs::Network;

/// An entry of a list of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientPattern {
    /// Every client, in the file `*`.
    Any,
    /// The addresses of a network.
    Network(Network),
    /// A host, a pattern of host names or a netgroup.
    Named(ClientName),
}

impl FromStr for ClientPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if is_address_pattern(text) {
            return Err(format!(
                "{text:?} is a pattern of host names, and names have letters; write the network, such as 10.0.0.0/24"
            ));
        }
        match text.parse::<Network>() {
            Ok(network) => Ok(Self::Network(network)),
            Err(error) if text.contains(['/', ':']) => Err(error.to_string()),
            Err(_) => {
                text.parse().map(Self::Named).map_err(|error: identity::ClientNameError| error.to_string())
            }
        }
    }
}

/// Returns whether a pattern such as 10.0.0.[1-9] is meant for addresses. As one of names it would
/// match those that the owners of other addresses choose.
fn is_address_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[']) && !text.contains(char::is_alphabetic) && !text.contains([':', '/'])
}

impl fmt::Display for ClientPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Network(network) => network.fmt(f),
            Self::Named(name) => name.fmt(f),
        }
    }
}
