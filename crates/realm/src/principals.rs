//! The database and who is in it.

use std::path::Path;

use crate::tools::{KADMIN, KDB5_UTIL};
use crate::{RealmError, RealmOptions};

/// Creates the database with its principals and the keytabs `server`, `client` and `users`.
pub fn create(dir: &Path, options: &RealmOptions) -> Result<(), RealmError> {
    let realm = options.realm.as_str();
    KDB5_UTIL.run(dir, ["-r", realm, "create", "-s", "-P", "throw-away"])?;
    // kadmin.local works on the database itself: no kadmind is needed.
    let said = KADMIN.run_with_input(dir, ["-r", realm], &script(dir, options))?;
    // It exits with 0 whatever its queries do; a failed one says what failed "while" what.
    if said.lines().any(|line| line.contains(" while ")) {
        return Err(KADMIN.failed(&said));
    }
    for keytab in ["server.keytab", "client.keytab", "users.keytab"] {
        if !dir.join(keytab).is_file() {
            return Err(KADMIN.failed(&said));
        }
    }
    Ok(())
}

/// Writes the queries; names have been checked and quote nothing.
fn script(dir: &Path, options: &RealmOptions) -> String {
    let service_keys = format!("-randkey -e \"{}\"", options.enctypes.key_salts(true));
    let mut script = Script { dir, queries: String::new() };
    for user in options.all_users() {
        script.add(&format!("-pw {user}"), &user);
        script.export(&user, "users.keytab");
    }
    let hosts = options.all_hosts();
    for host in &hosts {
        let principal = format!("nfs/{host}");
        script.add(&service_keys, &principal);
        script.export(&principal, "server.keytab");
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

struct Script<'a> {
    dir: &'a Path,
    queries: String,
}

impl Script<'_> {
    fn add(&mut self, how: &str, principal: &str) {
        self.queries.push_str(&format!("addprinc {how} {principal}\n"));
    }

    /// Exports the keys as they are, so that a password stays good beside its keytab.
    fn export(&mut self, principal: &str, keytab: &str) {
        let keytab = self.dir.join(keytab);
        self.queries.push_str(&format!("ktadd -k \"{}\" -norandkey {principal}\n", keytab.display()));
    }
}
