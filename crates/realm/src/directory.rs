//! The directory of a realm with delegation or replicas: an OpenLDAP server on a socket in the
//! realm's folder, and one in the folder of each replica.
//!
//! The socket tells the server the uid of each peer (SASL EXTERNAL, RFC 4422 appendix A), and only
//! the realm's owner may read or write. So the directory has no password.

use std::fmt::Write;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::daemon::Daemon;
use crate::removal::{remove_file, remove_folder};
use crate::tools::{KDB5_LDAP_UTIL, LDAPMODIFY, LDAPSEARCH, SLAPD, ZCAT};
use crate::{MASTER_PASSWORD, RealmError};

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

/// Removes the files of the directory server in a folder.
pub(crate) fn remove_files(home: &Path) -> Result<(), RealmError> {
    let database = home.join(FOLDER);
    DATABASE.iter().try_for_each(|name| remove_file(&database.join(name)))?;
    remove_folder(&database)?;
    FILES.iter().try_for_each(|name| remove_file(&home.join(name)))
}

/// Checks that everything for a directory is installed.
pub(crate) fn check() -> Result<(), RealmError> {
    for tool in [SLAPD, KDB5_LDAP_UTIL, LDAPMODIFY, LDAPSEARCH] {
        tool.find()?;
    }
    let found = Path::new(PACKAGED_SCHEMA).exists();
    if found {
        Ok(())
    } else {
        Err(RealmError::Missing { tool: PACKAGED_SCHEMA, package: KDB5_LDAP_UTIL.package })
    }
}

/// Returns the section of kdc.conf that names the directory in a folder. The KDC writes nothing
/// into it, since replicas are read-only.
pub(crate) fn module(home: &Path) -> String {
    format!(
        "[dbmodules]
  directory = {{
    db_library = kldap
    ldap_kerberos_container_dn = {CONTAINER}
    ldap_servers = {uri}
    ldap_kdc_sasl_mech = EXTERNAL
    ldap_kadmind_sasl_mech = EXTERNAL
    ldap_conns_per_server = 2
    disable_last_success = true
    disable_lockout = true
  }}
",
        uri = uri(home),
    )
}

/// Starts slapd with an empty directory and creates the realm in it. With `provides`, replicas can
/// follow it.
pub(crate) fn create(dir: &Path, realm: &str, provides: bool) -> Result<(), RealmError> {
    start(dir, if provides { DirectoryRole::Provider } else { DirectoryRole::Alone })?;
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

/// The part of a directory in replication (RFC 4533).
#[derive(Clone, Copy)]
enum DirectoryRole<'d> {
    /// It has no replicas.
    Alone,
    /// Its changes go to replicas.
    Provider,
    /// It follows the directory in a folder, and is read-only.
    Replica(&'d Path),
}

/// Starts slapd in `home` with a replica of the directory in `dir`.
pub(crate) fn replicate(dir: &Path, home: &Path) -> Result<(), RealmError> {
    start(home, DirectoryRole::Replica(dir))
}

/// Returns the state of replication that the directory in a folder has reached, as text. Equal
/// texts mean equal contents.
pub(crate) fn state(home: &Path) -> Result<String, RealmError> {
    let (uri, what) = (uri(home), ["-LLL", "-s", "base", "-b", SUFFIX, "contextCSN"]);
    LDAPSEARCH.run(home, ["-Q", "-Y", "EXTERNAL", "-H", &uri].into_iter().chain(what))
}

fn start(home: &Path, role: DirectoryRole<'_>) -> Result<(), RealmError> {
    let socket = home.join(SOCKET);
    if socket.as_os_str().len() > SOCKET_PATH_MAX {
        let value = socket.display().to_string();
        return Err(RealmError::Option { what: "folder", value, rule: "its socket needs a shorter path" });
    }
    let schema = ZCAT.run(home, [PACKAGED_SCHEMA])?;
    let put = |path: PathBuf, text: &str| fs::write(&path, text).map_err(RealmError::io(&path));
    put(home.join(SCHEMA), &schema)?;
    put(home.join(CONF), &conf(home, role))?;
    let database = home.join(FOLDER);
    fs::create_dir(&database).map_err(RealmError::io(&database))?;
    let conf = home.join(CONF).into_os_string();
    SLAPD.run(home, ["-f".into(), conf, "-h".into(), uri(home).into()])?;
    wait_for_socket(home, &socket)
}

/// Stops slapd of a folder, if it runs.
pub(crate) fn stop(home: &Path) -> Result<bool, RealmError> {
    daemon(home).stop()
}

pub(crate) fn daemon(home: &Path) -> Daemon {
    Daemon { tool: SLAPD, pid_file: home.join(PID_FILE), argument: home.join(CONF) }
}

fn modify(dir: &Path, ldif: &str) -> Result<(), RealmError> {
    LDAPMODIFY.run_with_input(dir, ["-Q", "-Y", "EXTERNAL", "-H", &uri(dir)], ldif).map(|_| ())
}

/// Returns the configuration of slapd. Only the realm's owner has access.
fn conf(home: &Path, role: DirectoryRole<'_>) -> String {
    let (module, replication) = match role {
        DirectoryRole::Alone => ("", String::new()),
        DirectoryRole::Provider => ("moduleload syncprov\n", "overlay syncprov\n".to_owned()),
        DirectoryRole::Replica(of) => ("", follow(of)),
    };
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let home = home.display();
    format!(
        "include /etc/ldap/schema/core.schema
include \"{home}/{SCHEMA}\"
modulepath /usr/lib/ldap
moduleload back_mdb
{module}pidfile \"{home}/{PID_FILE}\"
threads 4
database mdb
maxsize 67108864
suffix \"{SUFFIX}\"
rootdn \"gidNumber={gid}+uidNumber={uid},cn=peercred,cn=external,cn=auth\"
directory \"{home}/{FOLDER}\"
dbnosync
index objectClass,krbPrincipalName,entryCSN,entryUUID eq
access to * by * none
{replication}"
    )
}

/// Returns the lines of a directory that follows the one in a folder: it stays connected, and tries
/// again each second when the connection breaks.
fn follow(provider: &Path) -> String {
    let uri = uri(provider);
    format!(
        "syncrepl rid=001 provider={uri} type=refreshAndPersist retry=\"1 +\" searchbase=\"{SUFFIX}\" \
         bindmethod=sasl saslmech=EXTERNAL
updateref {uri}
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
