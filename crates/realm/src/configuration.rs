//! The files that configure a realm: krb5.conf, kdc.conf and the environment to source.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use crate::{RealmError, RealmOptions, directory};

/// Writes the configuration of a realm in `dir`, with a KDC at `kdc`.
pub(crate) fn write(dir: &Path, options: &RealmOptions, kdc: SocketAddr) -> Result<(), RealmError> {
    write_kdc(dir, dir, options, kdc)?;
    put(dir, "kadm5.acl", &[])?;
    put(dir, "env", env(dir).as_bytes())
}

/// Writes the configuration of one KDC of the realm in `dir`, whose own folder is `home`.
pub(crate) fn write_kdc(
    dir: &Path,
    home: &Path,
    options: &RealmOptions,
    kdc: SocketAddr,
) -> Result<(), RealmError> {
    put(home, "krb5.conf", krb5_conf(options, &[kdc]).as_bytes())?;
    put(home, "kdc.conf", kdc_conf(dir, home, options, kdc).as_bytes())
}

/// Writes the configuration of clients, which try the KDCs in this order.
pub(crate) fn write_clients(
    dir: &Path,
    options: &RealmOptions,
    kdcs: &[SocketAddr],
) -> Result<(), RealmError> {
    put(dir, "krb5.conf", krb5_conf(options, kdcs).as_bytes())
}

fn put(dir: &Path, name: &str, text: &[u8]) -> Result<(), RealmError> {
    let path = dir.join(name);
    fs::write(&path, text).map_err(RealmError::io(&path))
}

/// The settings that MIT 1.21, and Debian's 1.20, require for RC4 and 3DES.
const WEAK: &str = "
  allow_weak_crypto = true
  allow_rc4 = true
  allow_des3 = true";

/// Returns krb5.conf. It disables DNS lookups and uses TCP only, which avoids fragments and waits
/// for lost datagrams.
fn krb5_conf(options: &RealmOptions, kdcs: &[SocketAddr]) -> String {
    let realm = &options.realm;
    let domain = realm.to_lowercase();
    let weak = if options.enctypes.is_weak() { WEAK } else { "" };
    let mut hosts = String::new();
    for host in options.all_hosts().iter().chain(&options.all_clients()) {
        hosts.push_str(&format!("  {host} = {realm}\n"));
    }
    let kdcs: String = kdcs.iter().map(|kdc| format!("    kdc = {kdc}\n")).collect();
    format!(
        "[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  dns_uri_lookup = false
  rdns = false
  udp_preference_limit = 1
  forwardable = true
  clockskew = {skew}
  ticket_lifetime = {life}s
  permitted_enctypes = {enctypes}{weak}
[realms]
  {realm} = {{
{kdcs}  }}
[domain_realm]
  .{domain} = {realm}
  {domain} = {realm}
{hosts}",
        skew = options.clock_skew.as_secs(),
        life = options.ticket_life.as_secs(),
        enctypes = options.enctypes,
    )
}

fn kdc_conf(dir: &Path, home: &Path, options: &RealmOptions, kdc: SocketAddr) -> String {
    let (database, modules) = if options.has_directory() {
        ("database_module = directory".to_owned(), directory::module(home))
    } else {
        (format!("database_name = {}/principal", dir.display()), String::new())
    };
    let (dir, home) = (dir.display(), home.display());
    format!(
        "[kdcdefaults]
  kdc_listen = \"\"
  kdc_tcp_listen = {kdc}
[realms]
  {realm} = {{
    {database}
    key_stash_file = {dir}/stash
    acl_file = {dir}/kadm5.acl
    max_life = {life}s
    max_renewable_life = 7d
    master_key_type = aes256-cts-hmac-sha1-96
    supported_enctypes = {keys}
  }}
{modules}[logging]
  kdc = FILE:{home}/kdc.log
  default = FILE:{home}/krb5.log
",
        realm = options.realm,
        life = options.ticket_life.as_secs(),
        keys = options.enctypes.key_salts(false).replace(',', " "),
    )
}

fn env(dir: &Path) -> String {
    let quoted = |tail: &str| format!("'{}'", dir.join(tail).display().to_string().replace('\'', r"'\''"));
    format!(
        "# . this file: kinit, klist, kadmin.local and programs with Kerberos then see this realm only
export KRB5_CONFIG={}
export KRB5_KDC_PROFILE={}
export KRB5_KTNAME={}
export KRB5CCNAME={}
",
        quoted("krb5.conf"),
        quoted("kdc.conf"),
        quoted("server.keytab"),
        quoted("ccache"),
    )
}
