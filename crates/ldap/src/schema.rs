//! Classes and attributes of users and groups.

use crate::escaped;
use std::str::FromStr;

/// The values of a group's member attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Members {
    /// Names of users (RFC 2307).
    Names,
    /// Distinguished names of users (RFC 2307bis).
    Entries,
    /// Distinguished names of users, and of groups whose members are members, too (Active
    /// Directory's LDAP_MATCHING_RULE_IN_CHAIN).
    NestedEntries,
}

/// The names of classes and attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The class of users.
    pub user_class: String,
    /// The attribute with a user's name.
    pub user_name: String,
    /// The attribute with a user's number.
    pub uid_number: String,
    /// The attribute with the number of a user's primary group.
    pub gid_number: String,
    /// The attribute with a user's principal; `None`: users are found by their names.
    pub principal: Option<String>,
    /// The class of groups.
    pub group_class: String,
    /// The attribute with a group's name.
    pub group_name: String,
    /// The attribute with a group's number.
    pub group_number: String,
    /// The attribute with a group's members.
    pub member: String,
    /// The kind of its values.
    pub members: Members,
}

impl Schema {
    /// RFC 2307: groups list the names of their members.
    pub fn rfc2307() -> Self {
        let [user_class, user_name, uid_number, gid_number, group_class, group_name, member] =
            ["posixAccount", "uid", "uidNumber", "gidNumber", "posixGroup", "cn", "memberUid"]
                .map(str::to_owned);
        Self {
            user_class,
            user_name,
            uid_number,
            group_number: gid_number.clone(),
            gid_number,
            principal: None,
            group_class,
            group_name,
            member,
            members: Members::Names,
        }
    }

    /// RFC 2307bis (draft-howard-rfc2307bis): groups list the entries of their members.
    pub fn rfc2307bis() -> Self {
        Self { member: "member".to_owned(), members: Members::Entries, ..Self::rfc2307() }
    }

    /// Active Directory with the attributes uidNumber and gidNumber.
    pub fn active_directory() -> Self {
        let [user_class, group_class, name] = ["user", "group", "sAMAccountName"].map(str::to_owned);
        Self {
            user_class,
            group_class,
            user_name: name.clone(),
            group_name: name,
            member: "member".to_owned(),
            members: Members::NestedEntries,
            ..Self::rfc2307()
        }
    }

    /// Returns the filter for a user with this value of an attribute.
    pub(crate) fn user_filter(&self, attribute: &str, value: &str) -> String {
        format!("(&(objectClass={})({attribute}={}))", self.user_class, escaped(value))
    }

    /// Returns the filter for the user of a principal, whose name by the rules is `user`.
    pub(crate) fn principal_filter(&self, principal: &str, user: &str) -> String {
        match &self.principal {
            Some(attribute) => self.user_filter(attribute, principal),
            None => self.user_filter(&self.user_name, user),
        }
    }

    /// Returns the filter for a group with this value of an attribute.
    pub(crate) fn group_filter(&self, attribute: &str, value: &str) -> String {
        format!("(&(objectClass={})({attribute}={}))", self.group_class, escaped(value))
    }

    /// Returns the filter for the groups of a user.
    pub(crate) fn groups_of(&self, user: &str, dn: &str) -> String {
        match self.members {
            Members::Names => self.group_filter(&self.member, user),
            Members::Entries => self.group_filter(&self.member, dn),
            Members::NestedEntries => {
                self.group_filter(&format!("{}:1.2.840.113556.1.4.1941:", self.member), dn)
            }
        }
    }
}

impl FromStr for Schema {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "rfc2307" => Ok(Self::rfc2307()),
            "rfc2307bis" => Ok(Self::rfc2307bis()),
            "ad" => Ok(Self::active_directory()),
            other => Err(format!("{other:?} is no schema; there are rfc2307, rfc2307bis and ad")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_place_in_a_filter() {
        // RFC 4515 section 3
        let filter = Schema::rfc2307().principal_filter("x@R", "a)(uid=*");
        assert_eq!(filter, r"(&(objectClass=posixAccount)(uid=a\29\28uid=\2a))");
        let schema = Schema { principal: Some("krbPrincipalName".to_owned()), ..Schema::rfc2307() };
        assert_eq!(
            schema.principal_filter("x*@R", "y"),
            r"(&(objectClass=posixAccount)(krbPrincipalName=x\2a@R))"
        );
    }

    #[test]
    fn each_schema_finds_groups_in_its_way() {
        let of = |schema: &str| schema.parse::<Schema>().unwrap().groups_of("alice", "cn=alice,dc=x");
        assert_eq!(of("rfc2307"), "(&(objectClass=posixGroup)(memberUid=alice))");
        assert_eq!(of("rfc2307bis"), "(&(objectClass=posixGroup)(member=cn=alice,dc=x))");
        assert_eq!(of("ad"), "(&(objectClass=group)(member:1.2.840.113556.1.4.1941:=cn=alice,dc=x))");
        assert!("nis".parse::<Schema>().unwrap_err().contains("rfc2307bis"));
    }
}
