//! Finds and runs the programs of MIT Kerberos and OpenLDAP. Errors name the missing package or
//! repeat the program's output.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::RealmError;

/// A program that a realm requires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KerberosTool {
    pub name: &'static str,
    pub package: &'static str,
}

pub(crate) const KDC: KerberosTool = KerberosTool { name: "krb5kdc", package: "krb5-kdc" };
pub(crate) const KDB5_UTIL: KerberosTool = KerberosTool { name: "kdb5_util", package: "krb5-kdc" };
pub(crate) const KADMIN: KerberosTool = KerberosTool { name: "kadmin.local", package: "krb5-admin-server" };
pub(crate) const KDB5_LDAP_UTIL: KerberosTool =
    KerberosTool { name: "kdb5_ldap_util", package: "krb5-kdc-ldap" };
pub(crate) const SLAPD: KerberosTool = KerberosTool { name: "slapd", package: "slapd" };
pub(crate) const LDAPMODIFY: KerberosTool = KerberosTool { name: "ldapmodify", package: "ldap-utils" };
pub(crate) const LDAPSEARCH: KerberosTool = KerberosTool { name: "ldapsearch", package: "ldap-utils" };
pub(crate) const ZCAT: KerberosTool = KerberosTool { name: "zcat", package: "gzip" };
pub(crate) const KINIT: KerberosTool = KerberosTool { name: "kinit", package: "krb5-user" };

/// Folders of administration programs, which are not in a user's PATH.
const SBIN: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Bytes at the end of a failed program's output that the error repeats.
const OUTPUT_MAX: usize = 2000;

impl KerberosTool {
    /// Finds the program in PATH and in the folders of administration programs.
    pub(crate) fn find(self) -> Result<PathBuf, RealmError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .chain(SBIN.iter().map(PathBuf::from))
            .map(|folder| folder.join(self.name))
            .find(|file| file.is_file())
            .ok_or(RealmError::Missing { tool: self.name, package: self.package })
    }

    /// Returns a command that uses the realm in `dir` and ignores the user's own Kerberos settings.
    pub(crate) fn command(self, dir: &Path) -> Result<Command, RealmError> {
        let mut command = Command::new(self.find()?);
        command.env("KRB5_CONFIG", dir.join("krb5.conf")).env("KRB5_KDC_PROFILE", dir.join("kdc.conf"));
        for name in ["KRB5CCNAME", "KRB5_KTNAME", "KRB5_CLIENT_KTNAME", "KRB5_TRACE"] {
            command.env_remove(name);
        }
        // The machine's ldap.conf is for other directories.
        command.env("LDAPNOINIT", "1");
        command.current_dir(dir).stdin(Stdio::null());
        Ok(command)
    }

    /// Runs the program and waits for its end.
    pub(crate) fn run<S: AsRef<OsStr>>(
        self,
        dir: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<String, RealmError> {
        let output = self.command(dir)?.args(arguments).output();
        self.finished(output.map_err(RealmError::io(Path::new(self.name)))?)
    }

    /// Runs the program with `input` on its standard input.
    pub(crate) fn run_with_input<S: AsRef<OsStr>>(
        self,
        dir: &Path,
        arguments: impl IntoIterator<Item = S>,
        input: &str,
    ) -> Result<String, RealmError> {
        let failed = || RealmError::io(Path::new(self.name));
        let mut command = self.command(dir)?;
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed())?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that ends early closes its input; its exit status is more useful than
            // EPIPE.
            let _ = stdin.write_all(input.as_bytes());
        }
        self.finished(child.wait_with_output().map_err(failed())?)
    }

    fn finished(self, output: Output) -> Result<String, RealmError> {
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        if output.status.success() { Ok(text) } else { Err(self.failed(&text)) }
    }

    /// Returns an error with the end of the program's output.
    pub(crate) fn failed(self, text: &str) -> RealmError {
        let start = text.len().saturating_sub(OUTPUT_MAX);
        let start = (start..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let output = text.get(start..).unwrap_or_default().trim().to_owned();
        RealmError::Tool { tool: self.name, output }
    }
}
