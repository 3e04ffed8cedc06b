//! The KDC process: starts it on a free port, and stops it.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::process::Pid;

use crate::daemon::Daemon;
use crate::tools::KDC;
use crate::{RealmError, RealmOptions, configuration};

pub(crate) const PID_FILE: &str = "kdc.pid";

/// Number of attempts to find a free port when another process takes it first.
const TRIES_MAX: u32 = 16;
/// Time that a listening KDC has to write its pid file.
const PID_WAIT: Duration = Duration::from_secs(10);

/// Starts a KDC of the realm in `dir`, whose own folder is `home`, and returns its address.
///
/// Another process may take the free port before the KDC binds it. MIT's KDC sets SO_REUSEPORT, so
/// that two KDCs would silently share the port. The count of listening sockets detects this.
pub(crate) fn start(
    dir: &Path,
    home: &Path,
    options: &RealmOptions,
    listen: Option<SocketAddr>,
) -> Result<SocketAddr, RealmError> {
    let mut last = None;
    for _ in 0..TRIES_MAX {
        let address = free_address(listen)?;
        configuration::write_kdc(dir, home, options, address)?;
        // The KDC daemonises, and its first process ends only once the sockets listen.
        let started = KDC.run(home, ["-r", &options.realm, "-P", &home.join(PID_FILE).display().to_string()]);
        match started.and_then(|output| wait_for_pid_file(home).map(|()| output)) {
            Ok(_) if listeners(address) <= 1 => return Ok(address),
            Ok(_) => {
                stop(home)?;
                last = Some(RealmError::Listen { address, why: "another KDC took it too".to_owned() });
            }
            Err(RealmError::Tool { output, .. }) => {
                let log = fs::read_to_string(home.join("kdc.log")).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(3).collect();
                last = Some(RealmError::Listen { address, why: format!("{output} {}", tail.join("; ")) });
            }
            Err(other) => return Err(other),
        }
        if listen.is_some_and(|asked| asked.port() != 0) {
            break;
        }
    }
    Err(last.unwrap_or_else(|| RealmError::Listen {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        why: "no free port".to_owned(),
    }))
}

/// Waits for the pid file of the KDC. The daemon writes it after the first process has ended, and
/// until then the KDC cannot be stopped.
fn wait_for_pid_file(dir: &Path) -> Result<(), RealmError> {
    let begin = Instant::now();
    while running(dir)?.is_none() {
        if begin.elapsed() > PID_WAIT {
            let file = dir.join(PID_FILE);
            let why = format!("krb5kdc listens, but wrote no pid file in {} s", PID_WAIT.as_secs());
            return Err(RealmError::io(&file)(std::io::Error::new(ErrorKind::TimedOut, why)));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn free_address(asked: Option<SocketAddr>) -> Result<SocketAddr, RealmError> {
    let address = asked.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    TcpListener::bind(address)
        .and_then(|probe| probe.local_addr())
        .map_err(|error| RealmError::Listen { address, why: error.to_string() })
}

/// Returns the number of sockets that listen on `address`; 0 if /proc is not readable.
fn listeners(address: SocketAddr) -> usize {
    const LISTEN: &str = "0A";
    let (file, ip) = match address {
        SocketAddr::V4(v4) => ("/proc/self/net/tcp", format!("{:08X}", u32::from_ne_bytes(v4.ip().octets()))),
        SocketAddr::V6(v6) => {
            let words = v6.ip().octets();
            let hex = |w: &[u8]| w.iter().rev().map(|b| format!("{b:02X}")).collect::<String>();
            ("/proc/self/net/tcp6", words.chunks(4).map(hex).collect())
        }
    };
    let local = format!("{ip}:{:04X}", address.port());
    let listens = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        fields.next() == Some(local.as_str()) && fields.nth(1) == Some(LISTEN)
    };
    fs::read_to_string(file).unwrap_or_default().lines().filter(|line| listens(line)).count()
}

/// Stops the KDC of a folder, and returns whether one was running.
pub(crate) fn stop(dir: &Path) -> Result<bool, RealmError> {
    daemon(dir).stop()
}

/// Returns the KDC of a folder if it runs: a krb5kdc that was started with this folder's pid file.
pub(crate) fn running(dir: &Path) -> Result<Option<(OwnedFd, Pid)>, RealmError> {
    daemon(dir).running()
}

pub(crate) fn daemon(dir: &Path) -> Daemon {
    let pid_file = dir.join(PID_FILE);
    Daemon { tool: KDC, argument: pid_file.clone(), pid_file }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_socket_is_counted() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = TcpListener::bind(address) else { continue };
            assert_eq!(listeners(socket.local_addr().unwrap()), 1, "{address}");
        }
    }

    #[test]
    fn a_pid_file_that_names_another_process_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(PID_FILE), std::process::id().to_string()).unwrap();
        assert!(!stop(dir.path()).unwrap());
        for text in ["", "x", "-1", "0", "999999999999"] {
            fs::write(dir.path().join(PID_FILE), text).unwrap();
            assert!(!stop(dir.path()).unwrap(), "{text:?}");
        }
    }
}
