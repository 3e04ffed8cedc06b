//! Temporary realms for tests.

use std::ops::Deref;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::{Realm, RealmError, RealmOptions};

/// Stops the KDC and removes the folder when its input ends, which means that the creating process
/// has ended, even by SIGKILL. The KDC is identified by the pid file on its command line.
const WATCH: &str = r#"cat >/dev/null
end() {
  pid=$(cat "$1" 2>/dev/null) && tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF "$2" && kill "$pid"
}
for home in "$0" "$0"/replica-*; do
  end "$home/kdc.pid" "$home/kdc.pid"
  end "$home/slapd.pid" "$home/slapd.conf"
done
rm -rf "${0%/realm}""#;

/// A realm in a temporary folder. Both end when it is dropped or when this process ends in any way.
#[derive(Debug)]
pub struct TemporaryRealm {
    realm: Realm,
    // Dropped after the KDC has been stopped.
    _folder: tempfile::TempDir,
    watch: Child,
}

impl TemporaryRealm {
    /// Creates a realm in a new temporary folder.
    ///
    /// # Errors
    /// The same as [`Realm::create`].
    pub fn create(options: &RealmOptions) -> Result<Self, RealmError> {
        let folder = private::temporary("orthrus-realm-")?;
        let realm = Realm::create(&folder.path().join("realm"), options)?;
        // A process group of its own: Ctrl-C must not reach it.
        let watch = Command::new("sh")
            .args(["-c", WATCH])
            .arg(realm.dir())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .map_err(RealmError::io(Path::new("sh")))?;
        Ok(Self { realm, _folder: folder, watch })
    }
}

impl Deref for TemporaryRealm {
    type Target = Realm;

    fn deref(&self) -> &Realm {
        &self.realm
    }
}

impl Drop for TemporaryRealm {
    fn drop(&mut self) {
        // No remedy exists for a failure here; the folder is removed in any case.
        let _ = Realm::down(self.realm.dir());
        drop(self.watch.stdin.take());
        let _ = self.watch.wait();
    }
}

const INSIDE: &str = "ORTHRUS_TEST_REALM";
const RAN: &str = "test-ran";

/// Runs the body of a test in a process that uses a new realm.
///
/// MIT's library reads its configuration from the environment, which a multi-threaded test process
/// must not change. So the test starts its own binary again for itself alone, with the variables
/// set; `test` is its full name, including modules. Without MIT's programs the test is skipped, and
/// names the package that contains them.
///
/// # Panics
/// If the test fails inside, with its output, or if the realm cannot be created.
pub fn in_realm(test: &str, options: &RealmOptions, body: impl FnOnce(&Realm)) {
    if let Some(dir) = std::env::var_os(INSIDE) {
        let dir = Path::new(&dir);
        let realm = Realm::open(dir).unwrap_or_else(|error| panic!("{error}"));
        std::fs::write(dir.with_file_name(RAN), "").unwrap_or_else(|error| panic!("{error}"));
        return body(&realm);
    }
    let realm = match TemporaryRealm::create(options) {
        Ok(realm) => realm,
        Err(error @ RealmError::Missing { .. }) => return eprintln!("skipped: {test}: {error}"),
        Err(error) => panic!("{error}"),
    };
    let program = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    let output = Command::new(program)
        .args([test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"])
        .envs(realm.env())
        .env(INSIDE, realm.dir())
        .env("KRB5CCNAME", realm.dir().join("ccache"))
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test} failed in its realm:\n{said}");
    assert!(realm.dir().with_file_name(RAN).exists(), "no test is named {test:?}, modules included");
    eprint!("{said}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes_of(dir: &Path) -> usize {
        let of_dir = |process: &std::fs::DirEntry| {
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let homes = [dir.to_owned(), dir.join("replica-1"), dir.join("replica-2")];
            let files = homes.map(|home| [home.join("kdc.pid"), home.join("slapd.conf")]).concat();
            let is_file = |word: &[u8]| files.iter().any(|file| file.as_os_str().as_encoded_bytes() == word);
            line.split(|byte| *byte == 0).any(is_file)
        };
        std::fs::read_dir("/proc").unwrap().flatten().filter(of_dir).count()
    }

    fn daemons_end_with_the_watch(options: &RealmOptions, daemons: usize) {
        let mut realm = match TemporaryRealm::create(options) {
            Ok(realm) => realm,
            Err(error @ RealmError::Missing { .. }) => return eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        };
        assert!(realm.is_running());
        assert_eq!(processes_of(realm.dir()), daemons);
        // SIGKILL closes the pipe in the same way; the watch ends after its cleanup.
        drop(realm.watch.stdin.take());
        realm.watch.wait().unwrap();
        assert!(!realm.dir().exists());
        // The daemons need a moment to handle the signal.
        let tries = (0..1000).take_while(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            processes_of(realm.dir()) > 0
        });
        assert!(tries.count() < 1000, "a daemon runs on");
    }

    #[test]
    fn the_kdc_ends_with_its_process_however_that_ends() {
        daemons_end_with_the_watch(&RealmOptions::default(), 1);
    }

    #[test]
    fn the_directory_ends_with_its_process_as_well() {
        daemons_end_with_the_watch(&RealmOptions { delegation: true, ..RealmOptions::default() }, 2);
    }

    #[test]
    fn replicas_end_with_their_process_as_well() {
        daemons_end_with_the_watch(&RealmOptions { replicas: 2, ..RealmOptions::default() }, 6);
    }
}
