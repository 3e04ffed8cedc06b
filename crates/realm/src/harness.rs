//! Temporary realms for tests.

use std::io::Write;
use std::ops::Deref;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::{Realm, RealmError, RealmOptions, directory, kdc, replicas};

/// Stops the daemons and removes the folder `$0` when its input ends, which means that the creating
/// process has ended, even by SIGKILL. The input has an argument of each daemon's command line. A
/// pid file would not do: a daemon writes it late. Programs that make the realm may still write to
/// the folder, too, so that one round may not be enough.
const WATCH: &str = r#"daemons=$(cat)
for round in 1 2 3 4 5 6 7 8 9 10; do
  found=$(printf '%s\n' "$daemons" | grep -lszxFf - /proc/[0-9]*/cmdline | cut -d/ -f3)
  [ -n "$found" ] && kill $found
  rm -rf "$0" 2>/dev/null
  [ -z "$found" ] && [ ! -e "$0" ] && exit
  sleep 0.2
done"#;

/// A realm in a temporary folder. Both end when it is dropped or when this process ends in any way.
#[derive(Debug)]
pub struct TemporaryRealm {
    realm: Realm,
    // Dropped after the KDC has been stopped.
    watch: RealmWatch,
    _folder: tempfile::TempDir,
}

/// The process that cleans up after this one; it does so at the latest when the value is dropped.
#[derive(Debug)]
struct RealmWatch(Child);

impl TemporaryRealm {
    /// Creates a realm in a new temporary folder.
    ///
    /// # Errors
    /// The same as [`Realm::create`].
    pub fn create(options: &RealmOptions) -> Result<Self, RealmError> {
        let folder = private::temporary("orthrus-realm-")?;
        let path = folder.path().canonicalize().map_err(RealmError::io(folder.path()))?;
        let dir = path.join("realm");
        let watch = RealmWatch::begin(&path, &dir)?;
        let realm = Realm::create(&dir, options)?;
        Ok(Self { realm, watch, _folder: folder })
    }
}

impl RealmWatch {
    /// Watches over the realm in `dir`, which is removed with `folder`.
    fn begin(folder: &Path, dir: &Path) -> Result<Self, RealmError> {
        let failed = || RealmError::io(Path::new("sh"));
        // A process group of its own: Ctrl-C must not reach it.
        let watch = Command::new("sh")
            .args(["-c", WATCH])
            .arg(folder)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .map_err(failed())?;
        let mut watch = Self(watch);
        let further = (1..=crate::REPLICAS_MAX).map(|number| replicas::home(dir, number));
        for home in std::iter::once(dir.to_owned()).chain(further) {
            for daemon in [kdc::daemon(&home), directory::daemon(&home)] {
                let line = [daemon.argument.as_os_str().as_encoded_bytes(), b"\n"].concat();
                watch.0.stdin.iter_mut().try_for_each(|stdin| stdin.write_all(&line)).map_err(failed())?;
            }
        }
        Ok(watch)
    }

    /// Lets it clean up, and waits for its end.
    fn end(&mut self) {
        drop(self.0.stdin.take());
        // No remedy exists for a failure here.
        let _ = self.0.wait();
    }
}

impl Drop for RealmWatch {
    fn drop(&mut self) {
        self.end();
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
        self.watch.end();
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

    /// Tries it `before` the daemons have written their pid files, or later.
    fn daemons_end_with_the_watch(options: &RealmOptions, daemons: usize, before: bool) {
        let mut realm = match TemporaryRealm::create(options) {
            Ok(realm) => realm,
            Err(error @ RealmError::Missing { .. }) => return eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        };
        assert!(realm.is_running());
        assert_eq!(processes_of(realm.dir()), daemons);
        if before {
            std::fs::remove_file(realm.dir().join(kdc::PID_FILE)).unwrap();
        }
        // SIGKILL closes the pipe in the same way; the watch ends after its cleanup.
        realm.watch.end();
        assert!(!realm.dir().parent().unwrap().exists());
        assert_eq!(processes_of(realm.dir()), 0, "a daemon runs on");
    }

    #[test]
    fn the_kdc_ends_with_its_process_however_that_ends() {
        for before in [false, true] {
            daemons_end_with_the_watch(&RealmOptions::default(), 1, before);
        }
    }

    #[test]
    fn the_directory_ends_with_its_process_as_well() {
        daemons_end_with_the_watch(&RealmOptions { delegation: true, ..RealmOptions::default() }, 2, false);
    }

    #[test]
    fn replicas_end_with_their_process_as_well() {
        daemons_end_with_the_watch(&RealmOptions { replicas: 2, ..RealmOptions::default() }, 6, false);
    }
}
