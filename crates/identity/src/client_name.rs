//! Names of clients in a configuration, as exports(5) has them.

use glob::{MatchOptions, Pattern};
use std::fmt;
use std::str::FromStr;

/// Longest name of a host or netgroup in bytes (RFC 1035 section 3.1).
const NAME_LENGTH_MAX: usize = 255;

/// A name for clients. Host names compare without case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientName {
    /// The addresses of a host.
    Host(String),
    /// The hosts whose names match a pattern with `*`, `?` and `[…]`, which also stand for dots.
    Wildcard(String),
    /// The hosts of a netgroup, netgroup(5); without the `@`.
    Netgroup(String),
}

/// A text that names no clients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no clients; allowed are networks (10.0.0.0/8), addresses, host names, patterns of host names \
     (*.example.org) and netgroups (@trusted)"
)]
pub struct ClientNameError(String);

impl FromStr for ClientName {
    type Err = ClientNameError;

    fn from_str(text: &str) -> Result<Self, ClientNameError> {
        let refuse = || ClientNameError(text.to_owned());
        let name = if let Some(netgroup) = text.strip_prefix('@') {
            let good = |c: char| !c.is_whitespace() && !c.is_control() && !"(),@".contains(c);
            (!netgroup.is_empty() && netgroup.chars().all(good)).then(|| Self::Netgroup(netgroup.to_owned()))
        } else if text.contains(['*', '?', '[']) {
            let good = |c: char| is_host_character(c) || "*?[]!".contains(c);
            let pattern = text.to_ascii_lowercase();
            (text.chars().all(good) && Pattern::new(&pattern).is_ok()).then_some(Self::Wildcard(pattern))
        } else {
            is_host_name(text).then(|| Self::Host(text.to_ascii_lowercase()))
        };
        name.filter(|_| text.len() <= NAME_LENGTH_MAX).ok_or_else(refuse)
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) | Self::Wildcard(name) => f.write_str(name),
            Self::Netgroup(name) => write!(f, "@{name}"),
        }
    }
}

impl ClientName {
    /// Returns whether hosts of any domain can match, since the pattern has no domain at its end.
    /// The owner of an address decides on its name, and can choose one that matches.
    pub fn is_open_ended(&self) -> bool {
        match self {
            Self::Wildcard(pattern) => {
                let literal = pattern.rsplit(['*', '?', ']']).next().unwrap_or_default();
                !literal.get(1..).is_some_and(|rest| literal.starts_with('.') && rest.contains('.'))
            }
            Self::Host(_) | Self::Netgroup(_) => false,
        }
    }
}

/// Returns whether a host name matches a pattern that was checked before.
pub(crate) fn matches(pattern: &str, host: &str) -> bool {
    let options = MatchOptions {
        case_sensitive: false,
        require_literal_separator: false,
        require_literal_leading_dot: false,
    };
    Pattern::new(pattern).is_ok_and(|pattern| pattern.matches_with(host, options))
}

/// Returns whether a text can only be the name of a host. The resolver reads texts such as
/// `0x7f000001` as addresses, which prove nothing about names.
pub(crate) fn is_host_name(text: &str) -> bool {
    let last = text.rsplit('.').next().unwrap_or_default();
    let numeric =
        last.starts_with("0x") || last.starts_with("0X") || last.bytes().all(|b| b.is_ascii_digit());
    text.len() <= NAME_LENGTH_MAX
        && !text.starts_with(['.', '-'])
        && !numeric
        && text.chars().all(is_host_character)
}

fn is_host_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_patterns_and_netgroups_are_distinguished() {
        let parsed = |text: &str| text.parse::<ClientName>();
        assert_eq!(parsed("Node1.Example.org"), Ok(ClientName::Host("node1.example.org".into())));
        assert_eq!(parsed("*.HPC.example.org"), Ok(ClientName::Wildcard("*.hpc.example.org".into())));
        assert_eq!(parsed("@trusted"), Ok(ClientName::Netgroup("trusted".into())));
        for text in ["*.hpc.example.org", "node1", "@trusted"] {
            assert_eq!(parsed(text).unwrap().to_string(), text);
        }
        let long = "a".repeat(256);
        for wrong in [
            "",
            "@",
            "@a b",
            "@a,b",
            "a b",
            "a/b",
            "[a",
            "***",
            "10.0.0",
            "0x7f000001",
            "-a",
            ".a",
            "a:b",
            &long,
        ] {
            let error = parsed(wrong).unwrap_err().to_string();
            assert!(error.contains("@trusted"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_pattern_stands_for_names_without_case_and_for_dots() // exports(5), "wildcards"
    {
        for (pattern, host) in [
            ("*.example.org", "a.example.org"),
            ("*.example.org", "a.b.EXAMPLE.org"),
            ("node?.example.org", "node7.example.org"),
            ("node[0-4].example.org", "node3.example.org"),
        ] {
            assert!(matches(pattern, host), "{pattern} {host}");
        }
        for (pattern, host) in [
            ("*.example.org", "example.org"),
            ("*.example.org", "a.example.org.evil.net"),
            ("node?.example.org", "node10.example.org"),
            ("node[0-4].example.org", "node5.example.org"),
            ("node[!0-4].example.org", "node3.example.org"),
        ] {
            assert!(!matches(pattern, host), "{pattern} {host}");
        }
    }

    #[test]
    fn a_pattern_without_a_domain_is_open_to_names_of_others() {
        for (text, open) in [
            ("*", true),
            ("node*", true),
            ("*.org", true),
            ("node*.?", true),
            ("*.example.org", false),
            ("node[0-9].example.org", false),
            ("*example.org", true),
            ("@trusted", false),
            ("node1", false),
        ] {
            assert_eq!(text.parse::<ClientName>().unwrap().is_open_ended(), open, "{text}");
        }
    }
}
