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
        match text.parse::<Network>() {
            Ok(network) => Ok(Self::Network(network)),
            Err(error) if text.contains(['/', ':']) => Err(error.to_string()),
            Err(_) => {
                text.parse().map(Self::Named).map_err(|error: identity::ClientNameError| error.to_string())
            }
        }
    }
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
