//! OpenLDAP's server with an empty directory, which can be stopped, killed and started again.

use anyhow::{Context, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = "/usr/sbin/slapd";
/// How long slapd may take to start on a busy machine.
const START_MAX: Duration = Duration::from_secs(20);

/// A running slapd; dropping it ends it, and so does the end of this process.
pub(crate) struct BenchDirectory {
    child: Child,
    port: u16,
    configuration: PathBuf,
}

impl BenchDirectory {
    /// Returns why slapd cannot be started here, if so.
    pub(crate) fn missing() -> Option<String> {
        let missing = !Path::new(PROGRAM).exists();
        missing.then(|| "slapd is not installed (apt install slapd)".to_owned())
    }

    /// Starts slapd with its files in `folder`, on a free port of loopback, without TLS.
    pub(crate) fn start(folder: &Path) -> anyhow::Result<Self> {
        let database = folder.join("slapd");
        std::fs::create_dir(&database)?;
        let (configuration, entries) = (folder.join("slapd.conf"), folder.join("entries.ldif"));
        std::fs::write(
            &configuration,
            format!(
                "modulepath /usr/lib/ldap\nmoduleload back_mdb\ninclude /etc/ldap/schema/core.schema\n\
                 include /etc/ldap/schema/cosine.schema\npidfile {folder}/slapd.pid\ndatabase mdb\n\
                 suffix dc=bench\ndirectory {folder}/slapd\n",
                folder = folder.display()
            ),
        )?;
        std::fs::write(&entries, "dn: dc=bench\nobjectClass: domain\ndc: bench\n")?;
        let mut add = Command::new(PROGRAM);
        add.args(["-T", "add", "-q", "-f"]).arg(&configuration).arg("-l").arg(&entries);
        ensure!(add.status().context("slapd did not start")?.success(), "slapd did not take its entry");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = spawn(&configuration, port)?;
        let slapd = Self { child, port, configuration };
        slapd.wait()?;
        Ok(slapd)
    }

    /// Returns the port on loopback.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Stops the process with SIGSTOP: its port still accepts connections, and nothing answers.
    pub(crate) fn stop(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Continues the stopped process.
    pub(crate) fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// Kills the process with SIGKILL: its port refuses connections.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts the killed process again, on the same port.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        self.child = spawn(&self.configuration, self.port)?;
        self.wait()
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.child.id())?), signal)?)
    }

    fn wait(&self) -> anyhow::Result<()> {
        let end = Instant::now() + START_MAX;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            ensure!(Instant::now() < end, "slapd does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

fn spawn(configuration: &Path, port: u16) -> anyhow::Result<Child> {
    let url = format!("ldap://127.0.0.1:{port}");
    // With -d it stays in the foreground.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", PROGRAM, "-d", "0", "-h", &url, "-f"]).arg(configuration);
    command.stdin(Stdio::null()).spawn().context("slapd did not start")
}

impl Drop for BenchDirectory {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_directory_refuses_connections_until_it_is_started_again() {
        if let Some(reason) = BenchDirectory::missing() {
            return eprintln!("skipped: {reason}");
        }
        let folder = private::temporary("orthrus-slapd-").unwrap();
        let mut slapd = BenchDirectory::start(folder.path()).unwrap();
        let accepts = |slapd: &BenchDirectory| TcpStream::connect(("127.0.0.1", slapd.port())).is_ok();
        slapd.stop().unwrap();
        assert!(accepts(&slapd), "the kernel accepts for it");
        slapd.resume().unwrap();
        slapd.kill().unwrap();
        assert!(!accepts(&slapd));
        slapd.restart().unwrap();
        assert!(accepts(&slapd));
    }
}
