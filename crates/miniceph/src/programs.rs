//! Finds and runs the programs of Ceph. Errors name the missing package or repeat the output.

use crate::MiniCephError;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A program that a cluster requires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CephProgram {
    pub(crate) name: &'static str,
    package: &'static str,
}

pub(crate) const MON: CephProgram = CephProgram { name: "ceph-mon", package: "ceph-mon" };
pub(crate) const OSD: CephProgram = CephProgram { name: "ceph-osd", package: "ceph-osd" };
pub(crate) const MDS: CephProgram = CephProgram { name: "ceph-mds", package: "ceph-mds" };
pub(crate) const MONMAPTOOL: CephProgram = CephProgram { name: "monmaptool", package: "ceph-base" };
pub(crate) const AUTHTOOL: CephProgram = CephProgram { name: "ceph-authtool", package: "ceph-common" };
pub(crate) const CEPH: CephProgram = CephProgram { name: "ceph", package: "ceph-common" };

/// Every program that a cluster requires.
pub(crate) const ALL: [CephProgram; 6] = [MON, OSD, MDS, MONMAPTOOL, AUTHTOOL, CEPH];

/// Bytes at the end of a failed program's output that the error repeats.
const OUTPUT_MAX: usize = 2000;
/// Seconds after which the `ceph` program gives up reaching the monitor.
const CONNECT_TIMEOUT: &str = "15";

impl CephProgram {
    /// Finds the program in PATH.
    pub(crate) fn find(self) -> Result<PathBuf, MiniCephError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .map(|folder| folder.join(self.name))
            .find(|file| file.is_file())
            .ok_or(MiniCephError::Missing { program: self.name, package: self.package })
    }

    /// Returns a command that ignores the settings of the user and of the machine.
    pub(crate) fn command(self, dir: &Path) -> Result<Command, MiniCephError> {
        let mut command = Command::new(self.find()?);
        for name in ["CEPH_ARGS", "CEPH_CONF", "CEPH_KEYRING"] {
            command.env_remove(name);
        }
        command.current_dir(dir).stdin(Stdio::null());
        Ok(command)
    }

    /// Runs the program in a process group and returns its output. It ends with the group, and not
    /// by a signal of the terminal.
    pub(crate) fn run<S: AsRef<OsStr>>(
        self,
        dir: &Path,
        group: i32,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<String, MiniCephError> {
        let mut command = self.command(dir)?;
        let output = command.args(arguments).process_group(group).output();
        self.finished(&output.map_err(MiniCephError::io(Path::new(self.name)))?)
    }

    fn finished(self, output: &Output) -> Result<String, MiniCephError> {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        let said = text + &String::from_utf8_lossy(&output.stderr);
        Err(MiniCephError::Program { program: self.name, output: tail(&said, OUTPUT_MAX) })
    }
}

/// Runs a command of `ceph` against the cluster in a folder, and returns its output.
pub(crate) fn ceph<S: Into<OsString>>(
    dir: &Path,
    group: i32,
    arguments: impl IntoIterator<Item = S>,
) -> Result<String, MiniCephError> {
    let conf = dir.join(crate::configuration::CONF);
    let fixed: [OsString; 4] = ["--connect-timeout".into(), CONNECT_TIMEOUT.into(), "-c".into(), conf.into()];
    CEPH.run(dir, group, fixed.into_iter().chain(arguments.into_iter().map(Into::into)))
}

/// Returns the end of a text.
pub(crate) fn tail(text: &str, longest: usize) -> String {
    let start = text.len().saturating_sub(longest);
    let start = (start..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.get(start..).unwrap_or_default().trim().to_owned()
}
