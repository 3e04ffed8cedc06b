//! Owners on the wire: `name@domain` or a number (RFC 8881 section 5.9).

/// The error of an owner string. All but `Source` become NFS4ERR_BADOWNER, even syntax errors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnerError {
    /// Not UTF-8, empty, too long, or neither a number nor `name@domain`.
    #[error("not an owner: neither a number nor name@domain")]
    Malformed,
    /// The name belongs to another domain.
    #[error("the owner is of another domain than {0}")]
    Domain(String),
    /// The name has no account.
    #[error("no account has the owner's name")]
    Unknown,
    /// The name service failed; a retry may succeed.
    #[error(transparent)]
    Source(#[from] crate::SourceError),
}

/// A parsed owner string.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Owner<'a> {
    /// A decimal number, which clients without a common name service send.
    Number(u32),
    /// The name of a local account in the server's domain.
    Name(&'a str),
}

impl<'a> Owner<'a> {
    /// Parses an owner string.
    ///
    /// A number has no sign, no leading zero and no domain. A name without domain counts as local.
    pub(crate) fn parse(bytes: &'a [u8], domain: &str, name_max: usize) -> Result<Self, OwnerError> {
        let text = std::str::from_utf8(bytes).map_err(|_| OwnerError::Malformed)?;
        let (name, theirs) = match text.rsplit_once('@') {
            Some((name, theirs)) => (name, Some(theirs)),
            None => (text, None),
        };
        if name.is_empty() || name.len() > name_max || name.contains(['\0', '@', '/', ':', '\n']) {
            return Err(OwnerError::Malformed);
        }
        match theirs {
            None => Ok(number(name).map_or(Self::Name(name), Self::Number)),
            Some(theirs) if theirs.eq_ignore_ascii_case(domain) => Ok(Self::Name(name)),
            Some(_) => Err(OwnerError::Domain(domain.to_owned())),
        }
    }
}

fn number(text: &str) -> Option<u32> {
    let canonical = text == "0" || !text.starts_with(['0', '+']);
    // 2^32-1 is no account: chown interprets it as "no change".
    text.parse().ok().filter(|id| canonical && *id != u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Owner<'_>, OwnerError> {
        Owner::parse(text.as_bytes(), "example.org", 16)
    }

    #[test]
    fn numbers_and_names_of_our_domain_are_taken() {
        // RFC 8881 section 5.9
        assert_eq!(parse("1000"), Ok(Owner::Number(1000)));
        assert_eq!(parse("0"), Ok(Owner::Number(0)));
        assert_eq!(parse("alice@example.org"), Ok(Owner::Name("alice")));
        assert_eq!(parse("alice@EXAMPLE.Org"), Ok(Owner::Name("alice")));
        assert_eq!(parse("alice"), Ok(Owner::Name("alice")));
    }

    #[test]
    fn a_number_with_a_domain_is_a_name() {
        assert_eq!(parse("1000@example.org"), Ok(Owner::Name("1000")));
    }

    #[test]
    fn leading_zeros_signs_and_the_number_that_chown_ignores_are_no_numbers() {
        for text in ["007", "+7", "4294967295", "4294967296"] {
            assert_eq!(parse(text), Ok(Owner::Name(text)));
        }
    }

    #[test]
    fn foreign_domains_and_garbage_are_refused() {
        assert_eq!(parse("alice@evil.org"), Err(OwnerError::Domain("example.org".into())));
        assert_eq!(parse("alice@"), Err(OwnerError::Domain("example.org".into())));
        for text in ["", "@example.org", "a/b", "a@b@example.org", "a\0b", "a-name-that-is-too-long"] {
            assert_eq!(parse(text), Err(OwnerError::Malformed), "{text:?}");
        }
        assert_eq!(Owner::parse(&[0xff, 0xfe], "example.org", 16), Err(OwnerError::Malformed));
    }
}
