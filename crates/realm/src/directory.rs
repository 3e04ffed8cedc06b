//! The directory of a realm with delegation: an OpenLDAP server on a socket in the realm's folder.
//!
//! The socket tells the server the uid of each peer (SASL EXTERNAL, RFC 4422 appendix A), and only
//! the realm's owner may read or write. So the directory has no password.

use std::fmt::Write;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::RealmError;
use crate::daemon::Daemon;
use crate::principals::MASTER_PASSWORD;
use crate::tools::{KDB5_LDAP_UTIL, LDAPMODIFY, SLAPD, ZCAT};

/// The folder of the database below the realm's.
pub(crate) const FOLDER: &str = "directory";
/// The files of the database.
pub(crate) const DATABASE: [&str; 2] = ["data.mdb", "lock.mdb"];
const CONF: &str = "slapd.conf";
const PID_FILE: &str = "slapd.pid";
const SOCKET: &str = "ldapi";
const SCHEMA: &str = "kerberos.schema";
/// All files of the directory server in the realm's folder.
pub(crate) const FILES: [&str; 4] = [CONF, PID_FILE, SOCKET, SCHEMA];

/// The schema of MIT's back end, as its package installs it.
const PACKAGED_SCHEMA: &str = "/usr/share/doc/krb5-kdc-ldap/kerberos.schema.gz";
/// The entry above all others.
const SUFFIX: &str = "o=realm";
/// The entry above MIT's realms.
const CONTAINER: &str = "cn=kerberos,o=realm";
/// Time that slapd has to listen.
const START_WAIT: Duration = Duration::from_secs(10);
/// Longest path of a Unix socket, in bytes: `sun_path` without its NUL.
const SOCKET_PATH_MAX: usize = 107;

/// Checks that everything for a directory is installed.
pub(crate) fn check() -> Result<(), RealmError> {
    for tool in [SLAPD, KDB5_LDAP_UTIL, LDAPMODIFY] {
        tool.find()?;
    }
    let found = Path::new(PACKAGED_SCHEMA).exists();
    if found {
        Ok(())
    } else {
        Err(RealmError::Missing { tool: PACKAGED_SCHEMA, package: KDB5_LDAP_UTIL.package })
    }
}

/// Returns the section of kdc.conf that names the directory.
pub(crate) fn module(dir: &Path) -> String {
    format!(
        "[dbmodules]
  directory = {{
    db_library = kldap
    ldap_kerberos_container_dn = {CONTAINER}
    ldap_servers = {uri}
    ldap_kdc_sasl_mech = EXTERNAL
    ldap_kadmind_sasl_mech = EXTERNAL
    ldap_conns_per_server = 2
  }}
",
        uri = uri(dir),
    )
}

/// Starts slapd with an empty directory and creates the realm in it.
pub(crate) fn create(dir: &Path, realm: &str) -> Result<(), RealmError> {
    let socket = dir.join(SOCKET);
    if socket.as_os_str().len() > SOCKET_PATH_MAX {
        let value = socket.display().to_string();
        return Err(RealmError::Option { what: "folder", value, rule: "its socket needs a shorter path" });
    }
    let schema = ZCAT.run(dir, [PACKAGED_SCHEMA])?;
    let put = |path: PathBuf, text: &str| fs::write(&path, text).map_err(RealmError::io(&path));
    put(dir.join(SCHEMA), &schema)?;
    put(dir.join(CONF), &conf(dir))?;
    let database = dir.join(FOLDER);
    fs::create_dir(&database).map_err(RealmError::io(&database))?;
    let conf = dir.join(CONF).into_os_string();
    SLAPD.run(dir, ["-f".into(), conf, "-h".into(), uri(dir).into()])?;
    wait_for_socket(dir, &socket)?;
    modify(dir, &format!("dn: {SUFFIX}\nchangetype: add\nobjectClass: organization\no: realm\n"))?;
    let (uri, create) = (uri(dir), ["create", "-s", "-P", MASTER_PASSWORD, "-subtrees", SUFFIX]);
    KDB5_LDAP_UTIL.run(dir, ["-H", &uri, "-r", realm].into_iter().chain(create))?;
    Ok(())
}

/// Lets the service `grants` of every host get tickets for the service `nfs` of every host in the
/// name of users (MS-SFU section 3.2.5.2).
pub(crate) fn allow_delegation(dir: &Path, realm: &str, hosts: &[String]) -> Result<(), RealmError> {
    let mut changes = String::new();
    for host in hosts {
        let _ = write!(
            changes,
            "dn: krbPrincipalName=grants/{host}@{realm},cn={realm},{CONTAINER}
changetype: modify
add: krbAllowedToDelegateTo
"
        );
        for target in hosts {
            let _ = writeln!(changes, "krbAllowedToDelegateTo: nfs/{target}@{realm}");
        }
        changes.push('\n');
    }
    modify(dir, &changes)
}

/// Stops slapd, if it runs.
pub(crate) fn stop(dir: &Path) -> Result<bool, RealmError> {
    Daemon { tool: SLAPD, pid_file: dir.join(PID_FILE), argument: dir.join(CONF) }.stop()
}

fn modify(dir: &Path, ldif: &str) -> Result<(), RealmError> {
    LDAPMODIFY.run_with_input(dir, ["-Q", "-Y", "EXTERNAL", "-H", &uri(dir)], ldif).map(|_| ())
}

/// Returns the configuration of slapd. Only the realm's owner has access.
fn conf(dir: &Path) -> String {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let dir = dir.display();
    format!(
        "include /etc/ldap/schema/core.schema
include \"{dir}/{SCHEMA}\"
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile \"{dir}/{PID_FILE}\"
threads 4
database mdb
maxsize 67108864
suffix \"{SUFFIX}\"
rootdn \"gidNumber={gid}+uidNumber={uid},cn=peercred,cn=external,cn=auth\"
directory \"{dir}/{FOLDER}\"
dbnosync
index objectClass,krbPrincipalName eq
access to * by * none
"
    )
}

/// Returns the URI of the socket, with every byte escaped that is not a letter or a digit.
fn uri(dir: &Path) -> String {
    let mut uri = "ldapi://".to_owned();
    for byte in dir.join(SOCKET).as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() {
            uri.push(char::from(*byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

fn wait_for_socket(dir: &Path, socket: &Path) -> Result<(), RealmError> {
    let begin = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(_) if dir.join(PID_FILE).exists() => return Ok(()),
            Err(error) if begin.elapsed() > START_WAIT => return Err(RealmError::io(socket)(error)),
            _ => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}
