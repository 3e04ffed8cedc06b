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
    /// The same, for servers without such a rule (FreeIPA): groups of groups are searched level by
    /// level.
    EntriesByLevel,
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
    /// Whether entries have the flags, security identifiers and primary groups of Active Directory.
    /// Users are then found by `principal` or by their names, as by its KDC: a user without a
    /// userPrincipalName, or a ticket for the short name, is common there.
    pub domain: bool,
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
            domain: false,
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
            domain: true,
            ..Self::rfc2307()
        }
    }

    /// FreeIPA: users have several principals, and groups list users and groups, of which some have
    /// no number.
    pub fn free_ipa() -> Self {
        Self {
            principal: Some("krbPrincipalName".to_owned()),
            group_class: "groupOfNames".to_owned(),
            members: Members::EntriesByLevel,
            ..Self::rfc2307bis()
        }
    }

    /// Returns the filter for a user with this value of an attribute.
    pub(crate) fn user_filter(&self, attribute: &str, value: &str) -> String {
        format!("(&(objectClass={})({attribute}={}))", self.user_class, escaped(value))
    }

    /// Returns the filter for the user of a principal, whose name by the rules is `user`.
    pub(crate) fn principal_filter(&self, principal: &str, user: &str) -> String {
        match &self.principal {
            Some(attribute) if self.domain => format!(
                "(&(objectClass={})(|({attribute}={})({}={})))",
                self.user_class,
                escaped(principal),
                self.user_name,
                escaped(user)
            ),
            Some(attribute) => self.user_filter(attribute, principal),
            None => self.user_filter(&self.user_name, user),
        }
    }

    /// Returns the filter for a group with this value of an attribute.
    pub(crate) fn group_filter(&self, attribute: &str, value: &str) -> String {
        format!("(&(objectClass={})({attribute}={}))", self.group_class, escaped(value))
    }

    /// Returns the filter for the group with this security identifier (MS-DTYP section 2.4.2.2).
    pub(crate) fn security_id_filter(&self, id: &[u8]) -> String {
        let bytes: String = id.iter().map(|byte| format!("\\{byte:02x}")).collect();
        format!("(&(objectClass={})(objectSid={bytes}))", self.group_class)
    }

    /// Returns the filter for the groups of a user with these names, and of its primary group if
    /// that is an entry of its own.
    pub(crate) fn groups_of(&self, names: &[String], dn: &str, primary: Option<&str>) -> String {
        match (self.members, primary) {
            (Members::Names, _) => self.any_member(&self.member, names.iter().map(String::as_str)),
            (Members::Entries | Members::EntriesByLevel, _) => self.group_filter(&self.member, dn),
            (Members::NestedEntries, None) => self.group_filter(&self.nested_member(), dn),
            (Members::NestedEntries, Some(group)) => self.any_member(&self.nested_member(), [dn, group]),
        }
    }

    /// Returns the filter for the groups of any of these groups.
    pub(crate) fn groups_of_groups(&self, dns: &[String]) -> String {
        self.any_member(&self.member, dns.iter().map(String::as_str))
    }

    /// Returns the attribute of members with the rule for members of members.
    fn nested_member(&self) -> String {
        format!("{}:1.2.840.113556.1.4.1941:", self.member)
    }

    fn any_member<'m>(&self, attribute: &str, members: impl IntoIterator<Item = &'m str>) -> String {
        let equal = |member| format!("({attribute}={})", escaped(member));
        let any: String = members.into_iter().map(equal).collect();
        format!("(&(objectClass={})(|{any}))", self.group_class)
    }
}

impl FromStr for Schema {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "rfc2307" => Ok(Self::rfc2307()),
            "rfc2307bis" => Ok(Self::rfc2307bis()),
            "ad" => Ok(Self::active_directory()),
            "ipa" => Ok(Self::free_ipa()),
            other => Err(format!("{other:?} is no schema; there are rfc2307, rfc2307bis, ad and ipa")),
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
    fn a_user_of_a_domain_is_found_by_its_principal_or_by_its_name() {
        let schema = Schema { principal: Some("userPrincipalName".to_owned()), ..Schema::active_directory() };
        assert_eq!(
            schema.principal_filter("erin.smith@R", "erin*smith"),
            r"(&(objectClass=user)(|(userPrincipalName=erin.smith@R)(sAMAccountName=erin\2asmith)))"
        );
    }

    #[test]
    fn each_schema_finds_groups_in_its_way() {
        let names = ["asmith", "alice"].map(str::to_owned);
        let of = |schema: &str| schema.parse::<Schema>().unwrap().groups_of(&names, "cn=alice,dc=x", None);
        assert_eq!(of("rfc2307"), "(&(objectClass=posixGroup)(|(memberUid=asmith)(memberUid=alice)))");
        assert_eq!(of("rfc2307bis"), "(&(objectClass=posixGroup)(member=cn=alice,dc=x))");
        assert_eq!(of("ad"), "(&(objectClass=group)(member:1.2.840.113556.1.4.1941:=cn=alice,dc=x))");
        assert_eq!(of("ipa"), "(&(objectClass=groupOfNames)(member=cn=alice,dc=x))");
        let groups = ["cn=a,dc=x", "cn=*"].map(str::to_owned);
        assert_eq!(
            Schema::free_ipa().groups_of_groups(&groups),
            r"(&(objectClass=groupOfNames)(|(member=cn=a,dc=x)(member=cn=\2a)))"
        );
        assert_eq!(
            Schema::active_directory().groups_of(&names, "cn=alice", Some("cn=users")),
            "(&(objectClass=group)(|(member:1.2.840.113556.1.4.1941:=cn=alice)\
             (member:1.2.840.113556.1.4.1941:=cn=users)))"
        );
        assert_eq!(
            Schema::active_directory().security_id_filter(&[1, 0xa5]),
            r"(&(objectClass=group)(objectSid=\01\a5))"
        );
        assert!("nis".parse::<Schema>().unwrap_err().contains("rfc2307bis"));
    }
}
