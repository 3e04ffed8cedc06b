//! A server in a process of its own, so that its processor time is separate from the client's.

use crate::MetricsEndpoint;
use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the server may take to end before it is killed.
const END_MAX: Duration = Duration::from_secs(5);

/// Returns the arguments that make a server offer `sys`, which it does only when asked, and the
/// Kerberos flavors if it has keys. Where this process cannot have low ports, `sys` must be good
/// from others.
pub fn flavor_arguments(kerberos: bool) -> Vec<OsString> {
    let flavors = if kerberos { "krb5p,krb5i,krb5,sys" } else { "sys" };
    let secure = if client::may_use_low_port() { "true" } else { "false" };
    ["--sec", flavors, "--secure", secure].map(OsString::from).to_vec()
}

/// Returns the resident memory of a process of this machine in KiB; `None` when it is gone.
pub fn resident_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// A running `orthrus serve`; dropping it ends it, and so does the end of this process.
pub struct ServerProcess {
    child: Child,
    address: SocketAddr,
    metrics: Option<MetricsEndpoint>,
}

impl ServerProcess {
    /// Starts `program`, an `orthrus`, as a server with these arguments and waits until it serves.
    ///
    /// # Errors
    /// When it ends instead; it has said why on standard error.
    pub fn start(
        program: &Path,
        arguments: Vec<OsString>,
        environment: &[(&str, OsString)],
    ) -> anyhow::Result<Self> {
        Self::start_with_log(program, arguments, environment, None)
    }

    /// As [`ServerProcess::start`]; with `log`, the server's log goes there instead of to standard
    /// error.
    ///
    /// # Errors
    /// When the server ends instead.
    /// When it ends instead.
    pub fn start_with_log(
        program: &Path,
        arguments: Vec<OsString>,
        environment: &[(&str, OsString)],
        log: Option<File>,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        // A process group of its own: Ctrl-C is for this program, which then ends the server.
        let metrics = metrics_argument(&arguments);
        let own = same_user_argument(&arguments);
        command.arg("serve").arg("--end-with-input").args(own).args(arguments).args(metrics);
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.env("ORTHRUS_LOG", std::env::var_os("ORTHRUS_LOG").unwrap_or_else(|| "warn".into()));
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        if let Some(log) = log {
            command.env("ORTHRUS_LOG", "info").stderr(log);
        }
        let mut child =
            command.spawn().with_context(|| format!("the server did not start: {}", program.display()))?;
        let output = child.stdout.take().context("the server has no output")?;
        let mut line = String::new();
        let mut output = BufReader::new(output);
        output.read_line(&mut line).context("the server said nothing")?;
        let address = line.trim().strip_prefix("orthrus serves ").and_then(|address| address.parse().ok());
        match address {
            Some(address) => {
                line.clear();
                // Without it the server serves as well.
                let _ = output.read_line(&mut line);
                let url = line.trim().strip_prefix("orthrus metrics ");
                Ok(Self { child, address, metrics: url.and_then(|url| url.parse().ok()) })
            }
            None => {
                let status = child.wait()?;
                bail!("the server ended with {status} before it served")
            }
        }
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns where it tells its metrics.
    pub fn metrics(&self) -> Option<MetricsEndpoint> {
        self.metrics.clone()
    }

    /// Returns the process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

/// A server on loopback is for this user alone: it shows the user's folders, and sys proves
/// nothing. Without sys a caller needs a ticket. Others do not reach a server at the other end of a
/// link, in a network namespace of this run.
fn same_user_argument(arguments: &[OsString]) -> Option<&'static str> {
    let offers_sys =
        value_of(arguments, "--sec").is_none_or(|flavors| flavors.split(',').any(|sec| sec == "sys"));
    listens_on(arguments).filter(|ip| ip.is_loopback() && offers_sys).map(|_| "--same-user")
}

/// Returns the address that a server listens on.
fn listens_on(arguments: &[OsString]) -> Option<IpAddr> {
    let listen: SocketAddr = value_of(arguments, "--listen")?.parse().ok()?;
    Some(listen.ip())
}

fn value_of<'a>(arguments: &'a [OsString], option: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| argument == option)?;
    arguments.get(at + 1)?.to_str()
}

/// The server tells its metrics where it serves, at a port that is free: it may be on an interface
/// of its own.
fn metrics_argument(arguments: &[OsString]) -> Vec<OsString> {
    let address = listens_on(arguments).filter(|ip| !ip.is_unspecified());
    let address = address.unwrap_or(Ipv4Addr::LOCALHOST.into());
    vec!["--metrics".into(), SocketAddr::new(address, 0).to_string().into()]
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(0));
        if pid.as_raw() > 0 {
            let _ = kill(pid, Signal::SIGTERM);
        }
        let end = Instant::now() + END_MAX;
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
