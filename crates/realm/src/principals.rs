//! The principal database and the keytabs.

use std::path::Path;

use crate::tools::{KADMIN, KDB5_UTIL};
use crate::{MASTER_PASSWORD, RealmError, RealmOptions, directory};

/// The file that holds the users' passwords.
pub(crate) const PASSWORDS: &str = "passwords";

/// Random bytes of a password. The KDC issues tickets without pre-authentication, which permits
/// offline guessing.
const PASSWORD_BYTES: usize = 16;

/// Creates the database with its principals, the users' passwords and the keytabs `server`,
/// `client` and `users`.
pub(crate) fn create(dir: &Path, options: &RealmOptions) -> Result<(), RealmError> {
    let realm = options.realm.as_str();
    // The master key is stored beside it, and the folder protects both.
    if options.has_directory() {
        directory::create(dir, realm, options.replicas > 0)?;
    } else {
        KDB5_UTIL.run(dir, ["-r", realm, "create", "-s", "-P", MASTER_PASSWORD])?;
    }
    // kadmin.local opens the database directly, without kadmind.
    let passwords = options.all_users().into_iter().map(|user| Ok((user, password()?)));
    let passwords = passwords.collect::<Result<Vec<_>, RealmError>>()?;
    let file = dir.join(PASSWORDS);
    let lines: String = passwords.iter().map(|(user, password)| format!("{user} {password}\n")).collect();
    private::write_new(&file, lines.as_bytes()).map_err(RealmError::io(&file))?;
    let said = KADMIN.run_with_input(dir, ["-r", realm], &script(dir, options, &passwords))?;
    // kadmin.local exits with 0 even if a query fails; the output of a failed query contains
    // "while".
    if said.lines().any(|line| line.contains(" while ")) {
        return Err(KADMIN.failed(&said));
    }
    let grants = options.delegation.then_some("grants.keytab");
    for keytab in ["server.keytab", "client.keytab", "users.keytab"].into_iter().chain(grants) {
        if !dir.join(keytab).is_file() {
            return Err(KADMIN.failed(&said));
        }
    }
    if options.delegation { directory::allow_delegation(dir, realm, &options.all_hosts()) } else { Ok(()) }
}

fn password() -> Result<String, RealmError> {
    let mut bytes = [0; PASSWORD_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| {
        RealmError::io(Path::new("a random password"))(std::io::Error::other(error.to_string()))
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the queries; the names are already validated and need no quoting.
fn script(dir: &Path, options: &RealmOptions, passwords: &[(String, String)]) -> String {
    let service_keys = format!("-randkey -e \"{}\"", options.enctypes.key_salts(true));
    let mut script = KadminScript { dir, queries: String::new() };
    for (user, password) in passwords {
        script.add(&format!("-pw {password}"), user);
        script.export(user, "users.keytab");
    }
    let hosts = options.all_hosts();
    for host in &hosts {
        let principal = format!("nfs/{host}");
        script.add(&service_keys, &principal);
        script.export(&principal, "server.keytab");
        if options.delegation {
            let principal = format!("grants/{host}");
            script.add(&format!("+ok_to_auth_as_delegate {service_keys}"), &principal);
            script.export(&principal, "grants.keytab");
        }
    }
    for client in options.all_clients() {
        let (host, nfs) = (format!("host/{client}"), format!("nfs/{client}"));
        script.add(&service_keys, &host);
        if !hosts.contains(&client) {
            script.add(&service_keys, &nfs);
        }
        script.export(&host, "client.keytab");
        script.export(&nfs, "client.keytab");
    }
    script.queries
}

struct KadminScript<'a> {
    dir: &'a Path,
    queries: String,
}

impl KadminScript<'_> {
    fn add(&mut self, how: &str, principal: &str) {
        self.queries.push_str(&format!("addprinc {how} {principal}\n"));
    }

    /// Exports the existing keys, so that the password stays valid beside the keytab.
    fn export(&mut self, principal: &str, keytab: &str) {
        let keytab = self.dir.join(keytab);
        self.queries.push_str(&format!("ktadd -k \"{}\" -norandkey {principal}\n", keytab.display()));
    }
}
