//! Names of gateways in the database.

use std::fmt;
use std::str::FromStr;

/// Characters of a gateway's own name.
pub const NODE_ID_MAX: usize = 64;
/// Bytes of a name in the database, where other programs can put it.
const FOREIGN_MAX: usize = 255;

/// The name of a gateway in its cluster.
///
/// A gateway's own name has letters, digits, `.`, `_` and `-`. The database may have others, which
/// are shown with escapes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(Box<[u8]>);

/// The reason why a name is none for a gateway.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name of a gateway; it has 1 to {NODE_ID_MAX} letters, digits, \".\", \"_\" and \"-\", such as \"gw1\""
)]
pub struct NodeIdError(String);

impl NodeId {
    /// Takes a name of the database; `None` for one that is empty or longer than 255 bytes.
    pub(crate) fn foreign(name: &[u8]) -> Option<Self> {
        (1..=FOREIGN_MAX).contains(&name.len()).then(|| Self(name.into()))
    }

    /// Returns the name as the database has it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the name if it is one that a gateway of this program can have.
    pub fn own(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok().filter(|name| is_own(name))
    }
}

fn is_own(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=NODE_ID_MAX).contains(&name.len()) && name.bytes().all(allowed)
}

impl FromStr for NodeId {
    type Err = NodeIdError;

    fn from_str(name: &str) -> Result<Self, NodeIdError> {
        if is_own(name) {
            return Ok(Self(name.as_bytes().into()));
        }
        let shown: String = name.chars().take(NODE_ID_MAX).collect();
        Err(NodeIdError(shown))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.escape_ascii().to_string())
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_not_name_an_object_is_refused() {
        for good in ["a", "gw-1.example_2", &"x".repeat(NODE_ID_MAX)] {
            assert_eq!(good.parse::<NodeId>().unwrap().to_string(), good);
        }
        for bad in ["", "a b", "a/b", "a:b", "ä", "a\n", &"x".repeat(NODE_ID_MAX + 1)] {
            let said = bad.parse::<NodeId>().unwrap_err().to_string();
            assert!(said.contains("gw1") && said.len() < 300, "{said}");
        }
    }

    #[test]
    fn a_name_of_another_program_is_shown_with_escapes() {
        let name = NodeId::foreign(b"nfs\x1b[2J\xff").unwrap();
        assert_eq!(name.to_string(), r"nfs\x1b[2J\xff");
        assert_eq!(name.own(), None);
        assert!(NodeId::foreign(b"").is_none() && NodeId::foreign(&[b'x'; 256]).is_none());
    }
}
