//! The end of a cluster, however its process ends.

use crate::MiniCephError;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Ends the daemons and removes the folder when its input ends, which means that the creating
/// process has ended, even by SIGKILL; other signals, to all processes of a session, do not end it
/// before. The daemons are in its process group. They end by a signal that the shell ignores, so
/// that the folder can be removed, and stopped ones by the last. One that has not ended yet can
/// still make a file while the folder is removed.
const WATCH: &str = r#"trap "" HUP INT TERM VTALRM
cat >/dev/null
kill -VTALRM 0
for try in 1 2 3 4 5; do
    rm -rf "$0" && break
    sleep 0.2
done
kill -KILL 0"#;

/// The watch of a cluster; dropping it ends the daemons.
#[derive(Debug)]
pub(crate) struct Watch(Child);

impl Watch {
    pub(crate) fn start(dir: &Path) -> Result<Self, MiniCephError> {
        // A process group of its own: Ctrl-C must not reach it.
        let started = Command::new("sh")
            .args(["-c", WATCH])
            .arg(dir)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        started.map(Self).map_err(MiniCephError::io(Path::new("sh")))
    }

    /// Returns the process group that daemons belong to.
    pub(crate) fn group(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap_or(0)
    }

    /// Ends the daemons and removes the folder.
    pub(crate) fn end(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}
