//! Realms for tests.

use std::ops::Deref;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Realm, RealmError, RealmOptions};

/// A realm in a temporary folder; both end when it is dropped.
#[derive(Debug)]
pub struct TemporaryRealm {
    realm: Realm,
    // Dropped after the KDC has been stopped.
    _folder: tempfile::TempDir,
}

impl TemporaryRealm {
    /// Makes a realm in a new temporary folder.
    ///
    /// # Errors
    /// As [`Realm::create`].
    pub fn create(options: &RealmOptions) -> Result<Self, RealmError> {
        let parent = std::env::temp_dir();
        let folder = tempfile::Builder::new()
            .prefix("orthrus-realm-")
            .tempdir_in(&parent)
            .map_err(RealmError::io(&parent))?;
        let realm = Realm::create(&folder.path().join("realm"), options)?;
        Ok(Self { realm, _folder: folder })
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
        // Nothing sensible can be done about a failure here; the folder goes in any case.
        let _ = Realm::down(self.realm.dir());
    }
}

const INSIDE: &str = "ORTHRUS_TEST_REALM";
const RAN: &str = "test-ran";

/// Runs the body of a test in a process that sees a fresh realm.
///
/// MIT's library takes its configuration from the environment, which a test process with threads must not
/// change. So the test starts its own binary once more for itself alone, with the variables set; `test` is its
/// full name, modules included. Without MIT's programs the test is skipped, and says which package they are in.
///
/// # Panics
/// When the test fails inside, with its output, or when the realm cannot be made.
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
