//! Accounts of an LDAP directory: RFC 2307, RFC 2307bis, FreeIPA and Active Directory.
//!
//! [`LdapSource`] looks up users and groups of several servers that hold the same directory. If one
//! does not answer in time, the next one is tried. Lookups block; `identity` runs them on threads
//! of its own. A directory that does not answer, or not completely, is an error and never the
//! absence of an account.

mod schema;
mod servers;
mod tls;

pub use schema::{Members, Schema};

use identity::{AccountAnswer, Identity, IdentitySource, SourceError};
use ldap3::adapters::{Adapter, EntriesOnly, PagedResults};
use ldap3::{LdapConn, LdapConnSettings, LdapError, Scope, SearchEntry, ldap_escape};
use servers::{LdapConnection, Servers};
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Entries of one page of a search. Active Directory returns 1,000 at most.
const PAGE_ENTRIES: i32 = 500;
/// The most entries of a search: no process has more groups on Linux (NGROUPS_MAX).
const SEARCH_ENTRIES_MAX: usize = 65_536;
/// Groups that one filter names, in a search for the groups of groups.
const FILTER_GROUPS: usize = 100;

/// The capability of Active Directory, LDAP_CAP_ACTIVE_DIRECTORY_OID (MS-ADTS section 3.1.1.3.4.3).
const ACTIVE_DIRECTORY: &str = "1.2.840.113556.1.4.800";
/// The attribute of Active Directory with the flags of an account.
const FLAGS: &str = "userAccountControl";
/// The flag of a disabled account, ADS_UF_ACCOUNTDISABLE (MS-ADTS section 2.2.16).
const FLAG_DISABLED: u32 = 2;
/// The attribute of Active Directory with the security identifier of an entry.
const SECURITY_ID: &str = "objectSid";
/// The attribute of Active Directory with the last part of the identifier of the primary group.
const PRIMARY_GROUP: &str = "primaryGroupID";

/// Returns whether the server at `url` is a domain controller of Active Directory; false if it does
/// not answer. The root entry tells so to everybody (MS-ADTS section 3.1.1.3.2).
pub fn is_active_directory(url: &str, timeout: Duration) -> bool {
    let capabilities = || -> Result<bool, LdapError> {
        let settings = LdapConnSettings::new().set_conn_timeout(timeout);
        let mut connection = LdapConn::with_settings(settings, url)?;
        let (attribute, base) = ("supportedCapabilities", Scope::Base);
        let root = connection.with_timeout(timeout).search("", base, "(objectClass=*)", [attribute])?;
        let (entries, _) = root.success()?;
        let mut entries = entries.into_iter().map(SearchEntry::construct);
        Ok(entries.any(|root| root.attrs.values().flatten().any(|value| value == ACTIVE_DIRECTORY)))
    };
    capabilities().unwrap_or(false)
}

/// A directory and the way to its entries.
#[derive(Clone, Debug)]
pub struct LdapSettings {
    /// The URLs of servers with the same contents: `ldaps://`, `ldap://` or `ldapi://`.
    pub servers: Vec<String>,
    /// Whether StartTLS protects `ldap://`.
    pub starttls: bool,
    /// Whether `ldap://` without TLS is allowed: anybody on the network can then give answers.
    pub insecure: bool,
    /// Certificates of the authorities that the servers are verified with; `None`: the system's.
    pub ca: Option<PathBuf>,
    /// This server's certificate, for EXTERNAL.
    pub certificate: Option<PathBuf>,
    /// The key of that certificate.
    pub key: Option<PathBuf>,
    /// The authentication of this server.
    pub bind: Bind,
    /// The entry below which users are.
    pub user_base: String,
    /// The entry below which groups are.
    pub group_base: String,
    /// The names of classes and attributes.
    pub schema: Schema,
    /// Time after which the next server is tried.
    pub timeout: Duration,
}

/// The authentication of this server at the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bind {
    /// The server does not authenticate.
    Anonymous,
    /// A name and the file with its password, which is read for each connection.
    Simple {
        /// The distinguished name of this server.
        dn: String,
        /// The file, which only its owner may read. A newline at its end does not count.
        secret: PathBuf,
    },
    /// SASL EXTERNAL: by the TLS certificate, or by the user of a local socket.
    External,
}

/// The reason why the settings of a directory are of no use.
#[derive(Debug, thiserror::Error)]
pub enum LdapConfigError {
    /// No server is named.
    #[error("no server is named; add servers = [\"ldaps://ldap.example.org\"]")]
    NoServer,
    /// The URL is of another kind.
    #[error("{0:?} is no server; allowed are ldaps://HOST, ldap://HOST and ldapi://PATH with %2F for each /")]
    Url(String),
    /// The connection would not be protected.
    #[error(
        "{0:?} without TLS lets anybody on the network choose identities; use ldaps:// or starttls = true \
         (insecure = true overrides this)"
    )]
    Plaintext(String),
    /// A file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file that cannot be read.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Other users may read the secret.
    #[error("{0}: other users may read it; chmod 600")]
    Readable(PathBuf),
    /// A certificate or a key is of no use.
    #[error("{path}: {why}")]
    Certificate {
        /// The file that is of no use.
        path: PathBuf,
        /// The reason of the library.
        why: String,
    },
}

/// The accounts of a directory.
pub struct LdapSource {
    servers: Servers,
    schema: Schema,
    user_base: String,
    group_base: String,
}

impl LdapSource {
    /// Checks the settings and reads the certificates. Connects later.
    ///
    /// # Errors
    /// [`LdapConfigError`] names the setting and the remedy.
    pub fn open(settings: LdapSettings) -> Result<Self, LdapConfigError> {
        let LdapSettings { schema, user_base, group_base, .. } = settings.clone();
        Ok(Self { servers: Servers::open(settings)?, schema, user_base, group_base })
    }

    /// Returns the only user that a filter finds.
    fn find_user(&self, what: &str, filter: &str) -> Result<AccountAnswer, SourceError> {
        let Schema { user_name, uid_number, gid_number, group_number, domain, .. } = &self.schema;
        let mut wanted = [user_name, uid_number, gid_number].map(String::as_str).to_vec();
        if *domain {
            wanted.extend([FLAGS, SECURITY_ID, PRIMARY_GROUP]);
        }
        self.servers.with(what, |connection| {
            let found = search(connection, &self.user_base, filter, &wanted)?;
            let Some(user) = only(found)? else { return Ok(AccountAnswer::Absent) };
            if *domain && is_disabled(&user) {
                return Ok(AccountAnswer::Disabled(format!("{} is disabled ({FLAGS})", user.dn)));
            }
            // An account without numbers is none of this system.
            if value(&user, uid_number).is_none() {
                return Ok(AccountAnswer::Unusable(format!("{} has no {uid_number}", user.dn)));
            }
            let names = values(&user, user_name);
            if names.is_empty() {
                return Err(Unusable::Missing(user_name.clone()));
            }
            let primary = self.primary_group(connection, &user)?;
            let uid = number(&user, uid_number)?;
            let gid = match (value(&user, gid_number), &primary) {
                (None, Some(group)) if value(group, group_number).is_none() => {
                    let why = format!("neither {} nor its primary group has a {gid_number}", user.dn);
                    return Ok(AccountAnswer::Unusable(why));
                }
                (None, Some(group)) => number(group, group_number)?,
                _ => number(&user, gid_number)?,
            };
            let groups = self.groups_of(connection, names, &user.dn, primary)?;
            Ok(AccountAnswer::Account(Identity { uid, gid, groups: groups.into() }))
        })
    }

    /// Returns the primary group of a user of a domain, whose list of members omits the user.
    fn primary_group(
        &self,
        connection: &mut LdapConnection,
        user: &SearchEntry,
    ) -> Result<Option<SearchEntry>, Unusable> {
        let relative = value(user, PRIMARY_GROUP).and_then(|id| id.parse().ok());
        let id = relative.zip(bytes(user, SECURITY_ID)).and_then(|(relative, id)| sibling(id, relative));
        let Some(id) = id.filter(|_| self.schema.domain) else { return Ok(None) };
        let filter = self.schema.security_id_filter(&id);
        only(search(connection, &self.group_base, &filter, &[&self.schema.group_number])?)
    }

    /// Returns the numbers of a user's groups, in order.
    fn groups_of(
        &self,
        connection: &mut LdapConnection,
        names: &[String],
        dn: &str,
        primary: Option<SearchEntry>,
    ) -> Result<Vec<u32>, Unusable> {
        let attribute = self.schema.group_number.as_str();
        let (mut groups, mut seen) = (Vec::new(), HashSet::new());
        let mut filters = vec![self.schema.groups_of(names, dn, primary.as_ref().map(|group| &*group.dn))];
        for group in primary.iter().filter(|group| value(group, attribute).is_some()) {
            groups.push(number(group, attribute)?);
        }
        while let Some(filter) = filters.pop() {
            let found = search(connection, &self.group_base, &filter, &[attribute])?;
            for group in found.iter().filter(|group| value(group, attribute).is_some()) {
                groups.push(number(group, attribute)?);
            }
            if self.schema.members == Members::EntriesByLevel {
                // A group can be reached in several ways, and contain itself.
                let new = found.into_iter().filter(|group| seen.insert(group.dn.to_lowercase()));
                let new: Vec<String> = new.map(|group| group.dn).collect();
                filters.extend(new.chunks(FILTER_GROUPS).map(|dns| self.schema.groups_of_groups(dns)));
            }
        }
        groups.sort_unstable();
        groups.dedup();
        Ok(groups)
    }

    /// Returns an attribute of the only entry that a filter finds.
    fn find_value(
        &self,
        what: &str,
        base: &str,
        filter: &str,
        attribute: &str,
    ) -> Result<Option<SearchEntry>, SourceError> {
        self.servers.with(what, |connection| only(search(connection, base, filter, &[attribute])?))
    }
}

impl IdentitySource for LdapSource {
    fn identity(&self, user: &str) -> Result<Option<Identity>, SourceError> {
        self.of_user(user).map(AccountAnswer::account)
    }

    fn of_user(&self, user: &str) -> Result<AccountAnswer, SourceError> {
        self.find_user(user, &self.schema.user_filter(&self.schema.user_name, user))
    }

    fn of_principal(&self, principal: &str, user: &str) -> Result<AccountAnswer, SourceError> {
        self.find_user(principal, &self.schema.principal_filter(principal, user))
    }

    fn query(&self, principal: &str, user: &str) -> String {
        let filter = self.schema.principal_filter(principal, user);
        format!("{filter} below {:?} at {}", self.user_base, self.servers)
    }

    fn account(&self, uid: u32) -> Result<Option<Identity>, SourceError> {
        let filter = self.schema.user_filter(&self.schema.uid_number, &uid.to_string());
        self.find_user(&format!("uid {uid}"), &filter).map(AccountAnswer::account)
    }

    fn uid(&self, user: &str) -> Result<Option<u32>, SourceError> {
        let Schema { user_name, uid_number, .. } = &self.schema;
        let filter = self.schema.user_filter(user_name, user);
        let found = self.find_value(user, &self.user_base, &filter, uid_number)?;
        number_of(found, uid_number, user)
    }

    fn gid(&self, group: &str) -> Result<Option<u32>, SourceError> {
        let Schema { group_name, group_number, .. } = &self.schema;
        let filter = self.schema.group_filter(group_name, group);
        let found = self.find_value(group, &self.group_base, &filter, group_number)?;
        number_of(found, group_number, group)
    }

    fn user(&self, uid: u32) -> Result<Option<String>, SourceError> {
        let Schema { user_name, uid_number, .. } = &self.schema;
        let filter = self.schema.user_filter(uid_number, &uid.to_string());
        let found = self.find_value(&format!("uid {uid}"), &self.user_base, &filter, user_name)?;
        Ok(found.and_then(|user| name(&user, user_name)))
    }

    fn group(&self, gid: u32) -> Result<Option<String>, SourceError> {
        let Schema { group_name, group_number, .. } = &self.schema;
        let filter = self.schema.group_filter(group_number, &gid.to_string());
        let found = self.find_value(&format!("gid {gid}"), &self.group_base, &filter, group_name)?;
        Ok(found.and_then(|group| name(&group, group_name)))
    }
}

/// The reason why a server's answer cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    /// The server failed, or the way to it.
    #[error(transparent)]
    Ldap(#[from] LdapError),
    /// The server's secret or the like cannot be read.
    #[error("{0}")]
    Local(String),
    /// The entries of a search did not all arrive in this time.
    #[error("the search takes longer than {0:?}")]
    Late(Duration),
    /// A search finds more entries than [`SEARCH_ENTRIES_MAX`].
    #[error("the search finds more than {SEARCH_ENTRIES_MAX} entries")]
    TooMany,
    /// Several entries have the name or the number.
    #[error("several entries match: {0}")]
    Ambiguous(String),
    /// An entry lacks an attribute.
    #[error("the entry has no {0}")]
    Missing(String),
    /// An attribute is no number of a user or a group.
    #[error("{attribute} is {value:?}, which is no number of an account")]
    Number {
        /// The name of the attribute.
        attribute: String,
        /// The value that is no number.
        value: String,
    },
}

/// Returns all entries below `base` that a filter finds, page by page.
fn search(
    connection: &mut LdapConnection,
    base: &str,
    filter: &str,
    attributes: &[&str],
) -> Result<Vec<SearchEntry>, Unusable> {
    let adapters: Vec<Box<dyn Adapter<'_, String, Vec<String>>>> =
        vec![Box::new(EntriesOnly::new()), Box::new(PagedResults::new(PAGE_ENTRIES))];
    let attributes: Vec<String> = attributes.iter().map(|name| (*name).to_owned()).collect();
    let (began, time_max) = (Instant::now(), connection.search_time_max());
    let connection = connection.limited();
    let mut stream = connection.streaming_search_with(adapters, base, Scope::Subtree, filter, attributes)?;
    let mut entries = Vec::new();
    while let Some(entry) = stream.next()? {
        if began.elapsed() >= time_max {
            return Err(Unusable::Late(time_max));
        }
        if entries.len() == SEARCH_ENTRIES_MAX {
            return Err(Unusable::TooMany);
        }
        entries.push(SearchEntry::construct(entry));
    }
    // A search that was cut short, for example by a limit of the server, is no answer.
    stream.result().success()?;
    Ok(entries)
}

fn only(mut entries: Vec<SearchEntry>) -> Result<Option<SearchEntry>, Unusable> {
    match entries.as_slice() {
        [first, second, ..] => Err(Unusable::Ambiguous(format!("{} and {}", first.dn, second.dn))),
        _ => Ok(entries.pop()),
    }
}

/// Returns the values of an attribute. Its name may have any case (RFC 4512 section 2.5).
fn values<'e>(entry: &'e SearchEntry, attribute: &str) -> &'e [String] {
    let found = entry.attrs.iter().find(|(name, _)| name.eq_ignore_ascii_case(attribute));
    found.map_or(&[], |(_, values)| values)
}

/// Returns the first value of an attribute.
fn value(entry: &SearchEntry, attribute: &str) -> Option<String> {
    values(entry, attribute).first().cloned()
}

/// Returns the value of an attribute that is part of the entry's own name, or the first one: the
/// values of an attribute have no order (RFC 4512 section 2.3).
fn name(entry: &SearchEntry, attribute: &str) -> Option<String> {
    let own = entry.dn.split(',').next().unwrap_or_default();
    let is_own = |value: &&String| {
        own.split('+').filter_map(|part| part.split_once('=')).any(|(name, own)| {
            name.trim().eq_ignore_ascii_case(attribute) && own.trim().eq_ignore_ascii_case(value)
        })
    };
    let values = values(entry, attribute);
    values.iter().find(is_own).or(values.first()).cloned()
}

/// Returns the first value of an attribute that need not be text.
fn bytes<'e>(entry: &'e SearchEntry, attribute: &str) -> Option<&'e [u8]> {
    // The library sorts values by whether they happen to be UTF-8.
    let bytes = entry.bin_attrs.iter().find(|(name, _)| name.eq_ignore_ascii_case(attribute));
    let bytes = bytes.and_then(|(_, values)| values.first()).map(Vec::as_slice);
    bytes.or_else(|| values(entry, attribute).first().map(String::as_bytes))
}

/// Returns the security identifier of the same domain with this last part (MS-DTYP section
/// 2.4.2.2); `None` if `id` is none.
fn sibling(id: &[u8], relative: u32) -> Option<Vec<u8>> {
    let count = usize::from(*id.get(1)?);
    let (domain, _) = id.split_last_chunk::<4>().filter(|_| count > 0 && id.len() == 8 + 4 * count)?;
    Some([domain, &relative.to_le_bytes()].concat())
}

fn is_disabled(user: &SearchEntry) -> bool {
    // A signed number of 32 bits.
    let flags = value(user, FLAGS).and_then(|flags| flags.parse::<i64>().ok()).unwrap_or(0);
    flags & i64::from(FLAG_DISABLED) != 0
}

fn number(entry: &SearchEntry, attribute: &str) -> Result<u32, Unusable> {
    let value = value(entry, attribute).ok_or_else(|| Unusable::Missing(attribute.to_owned()))?;
    // 2^32-1 is no account: chown interprets it as "no change".
    let number = value.parse().ok().filter(|number| *number != u32::MAX);
    number.ok_or(Unusable::Number { attribute: attribute.to_owned(), value })
}

fn number_of(found: Option<SearchEntry>, attribute: &str, what: &str) -> Result<Option<u32>, SourceError> {
    let Some(entry) = found.filter(|entry| value(entry, attribute).is_some()) else { return Ok(None) };
    let failed = |error: Unusable| SourceError { what: what.to_owned(), why: error.to_string() };
    number(&entry, attribute).map(Some).map_err(failed)
}

/// Escapes a value in a filter (RFC 4515 section 3).
pub(crate) fn escaped(value: &str) -> String {
    ldap_escape(value).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn entry(attributes: &[(&str, &[u8])]) -> SearchEntry {
        let (mut attrs, mut bin_attrs) = (HashMap::new(), HashMap::new());
        for (name, value) in attributes {
            match String::from_utf8(value.to_vec()) {
                Ok(text) => drop(attrs.insert((*name).to_owned(), vec![text])),
                Err(_) => drop(bin_attrs.insert((*name).to_owned(), vec![value.to_vec()])),
            }
        }
        SearchEntry { dn: "cn=x".to_owned(), attrs, bin_attrs }
    }

    #[test]
    fn the_primary_group_has_the_identifier_of_the_domain_and_its_own_last_part() {
        // MS-DTYP section 2.4.2.2: S-1-5-21-1-2-3-1104 becomes S-1-5-21-1-2-3-513.
        let parts = |last: u32| {
            let parts = [21, 1, 2, 3, last].map(u32::to_le_bytes).concat();
            [&[1, 5, 0, 0, 0, 0, 0, 5][..], &parts].concat()
        };
        assert_eq!(sibling(&parts(1104), 513), Some(parts(513)));
        for damaged in [&b""[..], b"\x01", &parts(7)[..24], b"\x01\x00\x00\x00\x00\x00\x00\x05"] {
            assert_eq!(sibling(damaged, 513), None, "{damaged:?}");
        }
        // An identifier can happen to be text.
        for last in [1104, 1279] {
            let entry = entry(&[("objectsid", &parts(last))]);
            assert_eq!(bytes(&entry, SECURITY_ID), Some(&parts(last)[..]));
        }
    }

    #[test]
    fn only_the_flag_of_disabled_accounts_disables_one() {
        let disabled = |flags: &str| is_disabled(&entry(&[(FLAGS, flags.as_bytes())]));
        assert!(disabled("514") && disabled("66050") && disabled("-2147483134"));
        assert!(!disabled("512") && !disabled("66048") && !disabled("") && !is_disabled(&entry(&[])));
    }
}
