//! The values of settings: their text forms and ranges. An error lists the allowed values.

use super::{AuditTarget, ClientPattern, ExportSettings, parse_listen, parse_metrics};
use serde::de::{Deserialize, Deserializer, Error};
use serde_spanned::Spanned;
use std::collections::HashMap;
use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use vfs::SecFlavor;

/// Bytes of an export in memory: 1 MiB to 1 TiB.
pub(crate) const MEMORY: RangeInclusive<u64> = (1 << 20)..=(1 << 40);

/// A value in its text form.
struct Text<T>(T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map(Self).map_err(D::Error::custom)
    }
}

/// Reads a value from its text form.
pub(super) fn parsed<'de, D, T: FromStr<Err: Display>>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
{
    Text::deserialize(from).map(|Text(value)| value)
}

/// Reads values from their text forms.
pub(super) fn parsed_each<'de, D, T: FromStr<Err: Display>>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
{
    Ok(Vec::deserialize(from)?.into_iter().map(|Text(value)| value).collect())
}

fn within<'de, D>(from: D, range: RangeInclusive<u64>, unit: &str) -> Result<u64, D::Error>
where
    D: Deserializer<'de>,
{
    let value = u64::deserialize(from)?;
    if range.contains(&value) {
        return Ok(value);
    }
    let said = format!("{value} is out of range; allowed is {} to {} {unit}", range.start(), range.end());
    Err(D::Error::custom(said.trim_end()))
}

/// Reads a number from `MIN` to `MAX`.
pub(super) fn bounded<'de, D, T: TryFrom<u64>, const MIN: u64, const MAX: u64>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
{
    let value = within(from, MIN..=MAX, "")?;
    T::try_from(value).map_err(|_| D::Error::custom(format!("{value} is too large for this machine")))
}

/// Reads a number of seconds from `MIN` to `MAX`.
pub(super) fn seconds<'de, D, const MIN: u64, const MAX: u64>(from: D) -> Result<Duration, D::Error>
where
    D: Deserializer<'de>,
{
    within(from, MIN..=MAX, "seconds").map(Duration::from_secs)
}

/// As [`seconds`], for a setting whose absence has a meaning.
pub(super) fn seconds_or_none<'de, D, const MIN: u64, const MAX: u64>(
    from: D,
) -> Result<Option<Duration>, D::Error>
where
    D: Deserializer<'de>,
{
    seconds::<D, MIN, MAX>(from).map(Some)
}

/// Reads the address to listen on.
pub(super) fn listen<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    parse_listen(&String::deserialize(from)?).map_err(D::Error::custom)
}

/// Reads the address of the metrics endpoint.
pub(super) fn metrics<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    parse_metrics(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
}

/// Reads the place of the audit log.
pub(super) fn audit<'de, D: Deserializer<'de>>(from: D) -> Result<Option<AuditTarget>, D::Error> {
    parsed(from).map(Some)
}

/// Reads a path. An empty one would be the folder of the file, with all that is secret in it.
pub(super) fn path<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    let path = String::deserialize(from)?;
    if path.trim().is_empty() {
        return Err(D::Error::custom("the path is empty; name one, or remove the key"));
    }
    Ok(path.into())
}

/// As [`path`], for a key whose absence has a meaning.
pub(super) fn some_path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    path(from).map(Some)
}

/// Reads a DNS domain.
pub(super) fn domain<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let domain = String::deserialize(from)?;
    let good = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    if domain.is_empty() || !domain.chars().all(good) {
        return Err(D::Error::custom("must be a DNS domain such as \"example.org\""));
    }
    Ok(domain)
}

/// Reads names of Kerberos realms. A principal cannot be in one with another name.
pub(super) fn realms<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let realms = Vec::<String>::deserialize(from)?;
    let bad = |c: char| c == '@' || c.is_whitespace() || c.is_control();
    match realms.iter().find(|realm| realm.is_empty() || realm.contains(bad)) {
        Some(realm) => {
            Err(D::Error::custom(format!("{realm:?} is no name of a realm, such as \"EXAMPLE.ORG\"")))
        }
        None => Ok(realms),
    }
}

/// Checks that a principal has its realm: another one is the principal of no ticket.
pub(crate) fn check_principal(text: &str) -> Result<(), String> {
    match text.rsplit_once('@') {
        Some((name, realm)) if !name.is_empty() && !realm.is_empty() => Ok(()),
        _ => Err(format!("{text:?} is no principal with its realm, such as \"alice@EXAMPLE.ORG\"")),
    }
}

/// A key of the table of principals.
#[derive(PartialEq, Eq, Hash)]
struct FullPrincipal(String);

impl<'de> Deserialize<'de> for FullPrincipal {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        check_principal(&text).map_err(D::Error::custom)?;
        Ok(Self(text))
    }
}

/// Reads the users of principals.
pub(super) fn principals<'de, D: Deserializer<'de>>(from: D) -> Result<HashMap<String, String>, D::Error> {
    let users = HashMap::<FullPrincipal, String>::deserialize(from)?;
    Ok(users.into_iter().map(|(FullPrincipal(principal), user)| (principal, user)).collect())
}

/// Reads the tables of exports, with their offsets in the file.
pub(super) fn exports<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ExportSettings>, D::Error> {
    let tables = Vec::<Spanned<ExportSettings>>::deserialize(from)?;
    Ok(tables
        .into_iter()
        .map(|table| ExportSettings { offset: table.span().start, ..table.into_inner() })
        .collect())
}

/// Reads the size of an export in memory.
pub(super) fn memory<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    within(from, MEMORY, "bytes").map(Some)
}

/// Reads a path of CephFS, from its root.
pub(super) fn ceph_path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    vfs::normalise(&String::deserialize(from)?).map(Some).map_err(|_| {
        D::Error::custom("must be a path from the root of the file system, such as \"/volumes/data\"")
    })
}

/// Reads a path of the pseudo file system.
pub(super) fn pseudo<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    vfs::normalise(&String::deserialize(from)?).map_err(D::Error::custom)
}

/// Reads a list of flavors, at least one.
pub(super) fn flavors<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SecFlavor>, D::Error> {
    let flavors = parsed_each(from)?;
    if flavors.is_empty() {
        return Err(D::Error::custom("the list is empty; allowed are sys, krb5, krb5i and krb5p"));
    }
    Ok(flavors)
}

/// Reads a list of rules from principals to local users, at least one.
pub(super) fn local_rules<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<identity::LocalRule>, D::Error> {
    let rules = parsed_each(from)?;
    if rules.is_empty() {
        return Err(D::Error::custom("the list is empty; the default is [\"DEFAULT\"]"));
    }
    Ok(rules)
}

/// Reads a list of clients, at least one.
pub(super) fn client_list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ClientPattern>, D::Error> {
    let clients = parsed_each(from)?;
    if clients.is_empty() {
        return Err(D::Error::custom("the list is empty; [\"*\"] is for all clients"));
    }
    Ok(clients)
}

/// As [`client_list`], for a key whose absence has a meaning.
pub(super) fn some_clients<'de, D>(from: D) -> Result<Option<Vec<ClientPattern>>, D::Error>
where
    D: Deserializer<'de>,
{
    client_list(from).map(Some)
}

/// Reads the number of an export in handles.
pub(super) fn fsid<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    bounded::<D, u32, 1, 0xffff_ffff>(from).map(Some)
}
