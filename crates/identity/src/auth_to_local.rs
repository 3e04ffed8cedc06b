//! Rules from principals to local users, in the syntax of MIT's `auth_to_local` (krb5.conf(5)).

use crate::Principal;
use regex_lite::Regex;
use std::str::FromStr;

/// Longest text of a rule, in bytes.
const RULE_LEN_MAX: usize = 1024;

/// A rule from principals to local users.
#[derive(Clone, Debug)]
pub enum LocalRule {
    /// `DEFAULT`: a principal with one component is the local user of that name, in this realm, or
    /// in all realms of the allow-list.
    Default(Option<String>),
    /// `RULE:[n:string](regexp)s/pattern/replacement/g`.
    Rewrite {
        /// The number of components that a principal must have.
        components: usize,
        /// The text that is made of the principal; `$0` is the realm, `$1` the first component.
        format: String,
        /// The expression that must match the whole text.
        matches: Option<Regex>,
        /// The substitutions, in order.
        edits: Vec<Edit>,
        /// The text of the rule.
        text: String,
    },
}

/// A substitution of a rule.
#[derive(Clone, Debug)]
pub struct Edit {
    pattern: Regex,
    replacement: String,
    everywhere: bool,
}

/// Rules are equal if their texts are.
impl PartialEq for LocalRule {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl LocalRule {
    /// Returns the local user of a principal; `None` if the rule does not apply.
    pub fn user(&self, principal: &Principal) -> Option<String> {
        let realm = principal.realm.as_deref()?;
        match self {
            Self::Default(only) => {
                let fits = only.as_deref().is_none_or(|only| only == realm) && !principal.is_machine();
                principal.user().filter(|_| fits).map(str::to_owned)
            }
            Self::Rewrite { components, format, matches, edits, .. } => {
                if principal.components.len() != *components {
                    return None;
                }
                let mut text = expand(format, realm, &principal.components);
                if matches.as_ref().is_some_and(|matches| !matches.is_match(&text)) {
                    return None;
                }
                for edit in edits {
                    let limit = usize::from(!edit.everywhere);
                    let replacement = regex_lite::NoExpand(&edit.replacement);
                    text = edit.pattern.replacen(&text, limit, replacement).into_owned();
                }
                Some(text)
            }
        }
    }
}

/// Replaces `$0` by the realm, and `$1` to `$9` by components.
fn expand(format: &str, realm: &str, components: &[String]) -> String {
    let mut text = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek().and_then(|next| next.to_digit(10)).filter(|_| c == '$') {
            Some(number) => {
                chars.next();
                text += match number {
                    0 => realm,
                    number => components.get(number as usize - 1).map_or("", |component| component),
                };
            }
            None => text.push(c),
        }
    }
    text
}

impl std::fmt::Display for LocalRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default(None) => f.write_str("DEFAULT"),
            Self::Default(Some(realm)) => write!(f, "DEFAULT:{realm}"),
            Self::Rewrite { text, .. } => f.write_str(text),
        }
    }
}

impl FromStr for LocalRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "{text:?} is no rule ({why}); allowed are DEFAULT, DEFAULT:REALM and \
                 RULE:[n:string](regexp)s/pattern/replacement/g, such as \"RULE:[1:$1@$0](.*@PARTNER\\.ORG)s/@.*//\""
            )
        };
        if text.len() > RULE_LEN_MAX {
            return Err(wrong("too long"));
        }
        if text == "DEFAULT" {
            return Ok(Self::Default(None));
        }
        if let Some(realm) = text.strip_prefix("DEFAULT:").filter(|realm| !realm.is_empty()) {
            return Ok(Self::Default(Some(realm.to_owned())));
        }
        let rest = text.strip_prefix("RULE:[").ok_or_else(|| wrong("it begins otherwise"))?;
        let (selection, mut rest) = rest.split_once(']').ok_or_else(|| wrong("] is missing"))?;
        let (components, format) =
            selection.split_once(':').ok_or_else(|| wrong(": is missing in [n:string]"))?;
        let components = components.parse().ok().filter(|n| (1..10).contains(n));
        let components = components.ok_or_else(|| wrong("n is no number from 1 to 9"))?;
        let regex = |pattern: &str| Regex::new(pattern).map_err(|error| wrong(&error.to_string()));
        let mut matches = None;
        if let Some(after) = rest.strip_prefix('(') {
            // The expression may have parentheses; the substitutions begin with ")s/", or nothing.
            let end = after.find(")s/").or_else(|| after.strip_suffix(')').map(str::len));
            let end = end.ok_or_else(|| wrong(") is missing"))?;
            let (pattern, behind) = after.split_at(end);
            matches = Some(regex(&format!("^(?:{pattern})$"))?);
            rest = behind.get(1..).unwrap_or_default();
        }
        let mut edits = Vec::new();
        while !rest.is_empty() {
            let mut parts =
                rest.strip_prefix("s/").ok_or_else(|| wrong("not s/pattern/replacement/"))?.splitn(3, '/');
            let (Some(pattern), Some(replacement), Some(after)) = (parts.next(), parts.next(), parts.next())
            else {
                return Err(wrong("not s/pattern/replacement/"));
            };
            let everywhere = after.starts_with('g');
            edits.push(Edit { pattern: regex(pattern)?, replacement: replacement.to_owned(), everywhere });
            rest = after.strip_prefix('g').unwrap_or(after).trim_start();
        }
        Ok(Self::Rewrite { components, format: format.to_owned(), matches, edits, text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(rule: &str, principal: &str) -> Option<String> {
        rule.parse::<LocalRule>().unwrap().user(&Principal::parse(principal).unwrap())
    }

    #[test]
    fn a_rule_selects_matches_and_rewrites() {
        // The examples of krb5.conf(5), auth_to_local.
        let johndoe = r"RULE:[2:$1](johndoe)s/^.*$/guest/";
        assert_eq!(user(johndoe, "johndoe/x@R").as_deref(), Some("guest"));
        assert_eq!((user(johndoe, "johndoe@R"), user(johndoe, "john/x@R")), (None, None));
        let admin = r"RULE:[2:$1;$2](^.*;admin$)s/;admin$//";
        assert_eq!(user(admin, "alice/admin@R").as_deref(), Some("alice"));
        assert_eq!(user(admin, "alice/host@R"), None);
        let partner = r"RULE:[1:$1@$0](.*@PARTNER\.ORG)s/@.*//s/^/p_/";
        assert_eq!(user(partner, "bob@PARTNER.ORG").as_deref(), Some("p_bob"));
        assert_eq!((user(partner, "bob@PARTNERXORG"), user(partner, "bob@EVIL.PARTNER.ORG.X")), (None, None));
        assert_eq!(user("RULE:[1:$1]s/a/b/g", "banana@R").as_deref(), Some("bbnbnb"));
        assert_eq!(user("RULE:[1:$1]s/a/$0/", "banana@R").as_deref(), Some("b$0nana"));
        assert_eq!(user("RULE:[1:$1.$0]", "a@R").as_deref(), Some("a.R"));
    }

    #[test]
    fn a_default_is_for_people_of_its_realm() {
        assert_eq!(user("DEFAULT", "alice@R").as_deref(), Some("alice"));
        assert_eq!((user("DEFAULT", "alice/x@R"), user("DEFAULT", "PC$@R")), (None, None));
        assert_eq!(
            (user("DEFAULT:R", "alice@R").as_deref(), user("DEFAULT:R", "alice@S")),
            (Some("alice"), None)
        );
    }

    #[test]
    fn a_malformed_rule_is_refused_with_the_syntax() {
        for text in [
            "",
            "default",
            "RULE:",
            "RULE:[1:$1",
            "RULE:[x:$1]",
            "RULE:[1]",
            "RULE:[1:$1](a",
            "RULE:[1:$1]s/a/b",
            "RULE:[1:$1]x/a/b/",
            "RULE:[1:$1]([)",
            "DEFAULT:",
        ] {
            let said = text.parse::<LocalRule>().unwrap_err();
            assert!(said.contains("RULE:[n:string]"), "{text}: {said}");
        }
    }
}
