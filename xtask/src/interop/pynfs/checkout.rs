//! A checkout of pynfs: its commit, its dependencies and its build.

use super::suite::PynfsSuite;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The commit that the expectations were made with.
pub(super) const COMMIT: &str = "3c14d9e3ad12272ab2f6092c85bb28ab03951484";

/// A Python module, its Debian package, and the tests that need it.
struct Module {
    /// Any of these will do.
    names: &'static [&'static str],
    package: &'static str,
    kerberos: bool,
    build: bool,
}

const MODULES: &[Module] = &[
    Module {
        names: &["xdrlib3", "xdrlib"],
        package: "python3-standard-xdrlib, or pip install xdrlib3",
        kerberos: false,
        build: false,
    },
    Module { names: &["setuptools"], package: "python3-setuptools", kerberos: false, build: true },
    Module { names: &["ply"], package: "python3-ply", kerberos: false, build: true },
    Module { names: &["gssapi"], package: "python3-gssapi", kerberos: true, build: false },
];

/// A folder with pynfs, built.
pub(super) struct Checkout {
    folder: PathBuf,
    python: PathBuf,
    commit: String,
}

impl Checkout {
    /// Opens a folder, checks the dependencies of the suite, and builds the suite if necessary.
    ///
    /// # Errors
    /// When the folder is not a checkout of pynfs; when Python or a module is missing, with the
    /// package to install; when the build fails.
    pub(super) fn open(folder: &Path, python: &Path, kerberos: bool) -> anyhow::Result<Self> {
        let folder = folder.canonicalize().with_context(|| folder.display().to_string())?;
        if !folder.join("nfs4.1/testserver.py").is_file() {
            bail!("{} is no checkout of pynfs: it has no nfs4.1/testserver.py", folder.display());
        }
        let commit = commit(&folder);
        let checkout = Self { folder, python: python.to_owned(), commit };
        let built = checkout.is_built();
        checkout.look_for_modules(|module| (kerberos || !module.kerberos) && (!built || !module.build))?;
        if !built {
            checkout.build()?;
        }
        Ok(checkout)
    }

    /// The commit, or `unknown` for a folder that git does not know.
    pub(super) fn commit(&self) -> &str {
        &self.commit
    }

    /// Returns remarks for readers of the results.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![format!("pynfs in {}, commit {}", self.folder.display(), self.commit)];
        if self.commit != COMMIT {
            remarks
                .push(format!("the expectations are made for commit {COMMIT}: other tests, other results"));
        }
        remarks
    }

    /// Begins the command that runs a suite.
    pub(super) fn testserver(&self, suite: PynfsSuite) -> Command {
        let mut command = Command::new(&self.python);
        command.arg("testserver.py").current_dir(self.folder.join(suite.folder()));
        command
    }

    fn is_built(&self) -> bool {
        [
            "nfs4.1/xdrdef/nfs4_pack.py",
            "nfs4.0/xdrdef/nfs4_pack.py",
            "nfs4.0/lib/rpc/rpc_pack.py",
            "nfs4.0/lib/rpc/rpcsec/gss_pack.py",
            "rpc/rpc_pack.py",
            "rpc/gss_pack.py",
        ]
        .iter()
        .all(|file| self.folder.join(file).is_file())
    }

    fn look_for_modules(&self, needed: impl Fn(&Module) -> bool) -> anyhow::Result<()> {
        let found = |name: &str| {
            let status = Command::new(&self.python)
                .args(["-W", "ignore", "-c", &format!("import {name}")])
                .stderr(Stdio::null())
                .status();
            status.map(|status| status.success())
        };
        let mut missing = Vec::new();
        for module in MODULES.iter().filter(|module| needed(module)) {
            let mut any = false;
            for name in module.names {
                any = any
                    || found(name).with_context(|| {
                        format!("{} did not start; install python3", self.python.display())
                    })?;
            }
            if !any {
                missing.push(format!("{} (package {})", module.names[0], module.package));
            }
        }
        match missing.is_empty() {
            true => Ok(()),
            false => {
                bail!("{} lacks modules that the suite needs: {}", self.python.display(), missing.join("; "))
            }
        }
    }

    fn build(&self) -> anyhow::Result<()> {
        println!("building pynfs in {}", self.folder.display());
        for part in ["xdr", "rpc", "nfs4.1", "nfs4.0"] {
            let output = Command::new(&self.python)
                .args(["setup.py", "build"])
                .current_dir(self.folder.join(part))
                .output()
                .with_context(|| format!("{} did not start", self.python.display()))?;
            if !output.status.success() {
                bail!("pynfs does not build in {part}:\n{}", String::from_utf8_lossy(&output.stderr));
            }
        }
        if !self.is_built() {
            bail!("pynfs was built, but its generated files are not where they should be");
        }
        Ok(())
    }
}

fn commit(folder: &Path) -> String {
    let output = Command::new("git").arg("-C").arg(folder).args(["rev-parse", "HEAD"]).output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}
