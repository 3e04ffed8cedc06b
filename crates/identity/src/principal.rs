//! Textual Kerberos principals (RFC 1964 section 2.1.1).

/// A parsed principal: `primary[/instance…]@REALM`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The unescaped components before the realm, at least one.
    pub components: Vec<String>,
    /// The realm, or `None` if the text has none.
    pub realm: Option<String>,
}

impl Principal {
    /// Parses a principal; `None` for empty text, an empty first component or a trailing `\`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut components = vec![String::new()];
        let mut realm: Option<String> = None;
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            let before_realm = realm.is_none();
            let c = match c {
                '@' if before_realm => {
                    realm = Some(String::new());
                    continue;
                }
                '/' if before_realm => {
                    components.push(String::new());
                    continue;
                }
                '@' => return None,
                '\\' => unescaped(chars.next()?),
                c => c,
            };
            realm.as_mut().or(components.last_mut())?.push(c);
        }
        let sound = components.first().is_some_and(|c| !c.is_empty()) && realm.as_deref() != Some("");
        sound.then_some(Self { components, realm })
    }

    /// Returns the user's name if the principal has one component, as a person's does.
    pub fn user(&self) -> Option<&str> {
        match self.components.as_slice() {
            [name] => Some(name),
            _ => None,
        }
    }

    /// Returns whether the principal belongs to a machine or a service: `host/…`, `nfs/…`,
    /// `root/…`, any with an instance, and the `CLIENT$` of machines in Active Directory.
    pub fn is_machine(&self) -> bool {
        self.user().is_none_or(|name| name.ends_with('$'))
    }

    /// Returns whether the name is one that RFC 6111 reserves, such as that of anonymous users
    /// (`WELLKNOWN/ANONYMOUS`, RFC 8062).
    pub fn is_well_known(&self) -> bool {
        self.components.first().is_some_and(|first| first == "WELLKNOWN")
    }
}

fn unescaped(c: char) -> char {
    match c {
        'n' => '\n',
        't' => '\t',
        'b' => '\u{8}',
        '0' => '\0',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Option<(Vec<String>, Option<String>)> {
        Principal::parse(text).map(|p| (p.components, p.realm))
    }

    #[test]
    fn a_principal_is_taken_apart_at_unescaped_separators() {
        // RFC 1964 section 2.1.1
        let strings = |s: &[&str]| s.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        assert_eq!(parts("alice@A.B"), Some((strings(&["alice"]), Some("A.B".into()))));
        assert_eq!(parts("nfs/h.x@A"), Some((strings(&["nfs", "h.x"]), Some("A".into()))));
        assert_eq!(parts(r"we\@ird\/one@A"), Some((strings(&["we@ird/one"]), Some("A".into()))));
        assert_eq!(parts("alice"), Some((strings(&["alice"]), None)));
    }

    #[test]
    fn a_malformed_principal_is_refused() {
        for text in ["", "@A", "alice@", "a@b@c", "/x@A", "alice\\"] {
            assert_eq!(Principal::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn machine_principals_are_recognised() {
        let machine = |text| Principal::parse(text).unwrap().is_machine();
        assert!(machine("host/a@R") && machine("nfs/a@R") && machine("CLIENT$@R") && machine("root/admin@R"));
        assert!(!machine("alice@R") && !machine("root@R"));
    }
}
