//! Client networks of an export.

use std::{fmt, net::IpAddr, str::FromStr};

/// A range of addresses in CIDR notation, such as `10.0.0.0/8`, `2001:db8::/32` or one address
/// alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// Says why a text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The part before "/" is no IPv4 or IPv6 address.
    #[error("{0:?} is not an IPv4 or IPv6 address (example: 10.0.0.0/8, 2001:db8::/32, 192.0.2.7)")]
    Address(String),
    /// The part behind "/" is no length, or longer than the address.
    #[error("{0:?} is not a prefix length from 0 to {1}")]
    Prefix(String, u8),
}

impl Network {
    /// Makes a network; a prefix longer than the address is an error.
    pub fn new(address: IpAddr, prefix: u8) -> Result<Self, NetworkError> {
        let bits = bits_of(address);
        if prefix > bits {
            return Err(NetworkError::Prefix(prefix.to_string(), bits));
        }
        Ok(match address {
            // A v4-mapped network of 96 bits and more is the IPv4 network it stands for.
            IpAddr::V6(v6) if prefix >= 96 && v6.to_ipv4_mapped().is_some() => {
                Self { address: address.to_canonical(), prefix: prefix - 96 }
            }
            _ => Self { address, prefix },
        })
    }

    /// Returns the number of bits that all addresses of the network share.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Returns whether an address lies in the network; a v4-mapped IPv6 address counts as the IPv4
    /// address.
    pub fn contains(&self, client: IpAddr) -> bool {
        match (self.address, client.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(client)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                (u32::from(network) ^ u32::from(client)) & mask == 0
            }
            (IpAddr::V6(network), IpAddr::V6(client)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                (u128::from(network) ^ u128::from(client)) & mask == 0
            }
            _ => false,
        }
    }
}

fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Address(address.to_owned()))?;
        let bits = bits_of(address);
        let prefix = match prefix {
            Some(text) => text.parse().map_err(|_| NetworkError::Prefix(text.to_owned(), bits))?,
            None => bits,
        };
        Self::new(address, prefix)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(network: &str, client: &str) -> bool {
        network.parse::<Network>().unwrap().contains(client.parse().unwrap())
    }

    #[test]
    fn a_network_holds_the_addresses_that_share_its_prefix() {
        assert!(holds("10.1.0.0/16", "10.1.255.3"));
        assert!(!holds("10.1.0.0/16", "10.2.0.1"));
        assert!(holds("192.0.2.7", "192.0.2.7"));
        assert!(!holds("192.0.2.7", "192.0.2.6"));
        assert!(holds("2001:db8::/32", "2001:db8:1::1"));
        assert!(!holds("2001:db8::/32", "2001:db9::1"));
    }

    #[test]
    fn a_prefix_of_zero_holds_its_whole_address_family_only() {
        assert!(holds("0.0.0.0/0", "255.1.2.3"));
        assert!(holds("::/0", "2001:db8::1"));
        assert!(!holds("0.0.0.0/0", "2001:db8::1"));
        assert!(!holds("::/0", "192.0.2.1"));
    }

    #[test]
    fn a_mapped_client_address_counts_as_the_ipv4_address() {
        assert!(holds("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(holds("::ffff:10.0.0.0/104", "10.1.2.3"));
        assert!(!holds("10.0.0.0/8", "::ffff:11.1.2.3"));
    }

    #[test]
    fn a_text_that_is_no_network_is_refused_with_the_reason() {
        assert!(matches!("host".parse::<Network>(), Err(NetworkError::Address(_))));
        assert!(matches!("10.0.0.0/33".parse::<Network>(), Err(NetworkError::Prefix(_, 32))));
        assert!(matches!("::1/129".parse::<Network>(), Err(NetworkError::Prefix(_, 128))));
        assert!(matches!("10.0.0.0/".parse::<Network>(), Err(NetworkError::Prefix(_, 32))));
        assert_eq!("10.0.0.0/8".parse::<Network>().unwrap().to_string(), "10.0.0.0/8");
    }
}
