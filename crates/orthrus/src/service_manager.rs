//! Notifications to the service manager, as sd_notify(3) and sd_watchdog_enabled(3) describe them.
//!
//! Each message is one datagram to the socket that `NOTIFY_SOCKET` names. Without the variable
//! nothing is sent.

use anyhow::{Context, bail};
use rustix::process::{Pid, getppid};
use rustix::time::{ClockId, clock_gettime};
use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError};
use std::time::Duration;

/// How long a message waits for a service manager whose queue is full.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);
/// Keep-alive messages in the time of the watchdog.
const KEEP_ALIVES: u32 = 2;
/// How often a start that takes long asks for more time.
pub(crate) const START_INTERVAL: Duration = Duration::from_secs(10);
/// The parts of the time that it asks for, which are intervals.
const START_PARTS: u32 = 3;

/// The service manager that started the process, if one did.
pub(crate) struct ServiceManager {
    address: Option<SocketAddr>,
    /// Time without a keep-alive message after which the manager restarts the service.
    watchdog: Option<Duration>,
    /// Whether another program, which hears of no successor, watches this process.
    watched: bool,
    /// Whether a failure has been logged.
    complained: AtomicBool,
}

impl ServiceManager {
    /// Finds the service manager by the environment. Logs a variable that is of no use.
    pub(crate) fn from_environment() -> Self {
        let variable = |name: &str| env::var(name).ok();
        let address = env::var_os("NOTIFY_SOCKET").and_then(|name| {
            let found = address(name.as_encoded_bytes());
            found.map_err(|error| tracing::warn!("no service manager is notified: {error:#}")).ok()
        });
        let watchdog = watchdog_time(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), std::process::id());
        // Process 1 of a machine starts servers, too, and outlives them.
        let init = || std::fs::read_to_string("/proc/1/comm").ok();
        let init = Some(Pid::INIT).filter(|init| getppid() == Some(*init)).and_then(|_| init());
        let watched = is_watched(init, variable("SYSTEMD_EXEC_PID"), std::process::id());
        Self { address, watchdog, watched, complained: AtomicBool::new(false) }
    }

    /// Returns whether the manager's socket has a name without a file.
    pub(crate) fn is_abstract(&self) -> bool {
        self.address.as_ref().is_some_and(|address| address.as_abstract_name().is_some())
    }

    /// Says that the service is ready, also after a reload; `status` is one line for people.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// Says that a reload begins; [`ServiceManager::ready`] ends it.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}\nSTATUS=reloading"));
    }

    /// Says that another process is the service from now on.
    pub(crate) fn succeeded_by(&self, process: u32) {
        self.send(&format!("MAINPID={process}"));
    }

    /// Checks that another process can be the service from now on.
    ///
    /// # Errors
    /// The end of this process would be that of the service.
    pub(crate) fn check_succession(&self) -> anyhow::Result<()> {
        if std::process::id() == 1 {
            bail!("it is the first process of its container, which ends with it; restart the server instead");
        }
        match &self.address {
            None if self.watched => bail!(
                "a program watches this process and does not learn that another one follows it, since NOTIFY_SOCKET is \
                 not set: the service, or its container, would end; restart the server instead, or run it in a unit \
                 with Type=notify"
            ),
            None => Ok(()),
            Some(address) => {
                let reached = UnixDatagram::unbound().and_then(|socket| socket.connect_addr(address));
                reached.with_context(|| {
                    format!(
                        "the service manager at {address:?} would not learn of the next process, and end it"
                    )
                })
            }
        }
    }

    /// Waits for a message of the start, and asks for more time meanwhile; `why` describes the
    /// wait.
    ///
    /// # Errors
    /// There is no sender any more.
    pub(crate) fn wait_for_start<T>(
        &self,
        started: &Receiver<T>,
        interval: Duration,
        why: impl Fn() -> String,
    ) -> Result<T, RecvError> {
        loop {
            match started.recv_timeout(interval) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Disconnected) => return Err(RecvError),
                Err(RecvTimeoutError::Timeout) => {
                    let time = (interval * START_PARTS).as_micros();
                    self.send(&format!("EXTEND_TIMEOUT_USEC={time}\nSTATUS={}", why()));
                }
            }
        }
    }

    /// Says that the service ends.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=ending");
    }

    /// Starts the thread that feeds the manager's watchdog, if it has one, while `is_alive` holds.
    /// `is_alive` gets the interval between two messages.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn feed_watchdog(
        &self,
        is_alive: impl Fn(Duration) -> bool + Send + 'static,
    ) -> io::Result<()> {
        let (Some(address), Some(time)) = (self.address.clone(), self.watchdog) else { return Ok(()) };
        let interval = time / KEEP_ALIVES;
        let run = move || {
            loop {
                // A message that is lost is a late one: the next follows in time.
                if is_alive(interval) {
                    let _ = send(&address, "WATCHDOG=1");
                }
                std::thread::sleep(interval);
            }
        };
        std::thread::Builder::new().name("keep-alive".into()).spawn(run).map(drop)
    }

    fn send(&self, message: &str) {
        let Some(address) = &self.address else { return };
        if let Err(error) = send(address, message)
            && !self.complained.swap(true, Relaxed)
        {
            tracing::warn!("the service manager at {address:?} cannot be notified: {error}");
        }
    }
}

fn send(address: &SocketAddr, message: &str) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(SEND_TIMEOUT))?;
    socket.send_to_addr(message.as_bytes(), address).map(drop)
}

/// Returns the address of a socket: a path, or a name in the abstract name space behind `@`.
fn address(name: &[u8]) -> anyhow::Result<SocketAddr> {
    let text = || String::from_utf8_lossy(name).into_owned();
    let address = match name {
        [b'@', rest @ ..] if !rest.is_empty() => SocketAddr::from_abstract_name(rest),
        [b'/', ..] => SocketAddr::from_pathname(std::path::Path::new(&text())),
        _ => bail!("NOTIFY_SOCKET={:?} is neither a path nor an abstract name", text()),
    };
    address.with_context(|| format!("NOTIFY_SOCKET={:?}", text()))
}

/// Programs that are process 1 of a container, and end with the process that they have started.
const CONTAINER_INITS: [&str; 5] = ["tini", "docker-init", "catatonit", "podman-init", "dumb-init"];

/// Returns whether the init of a container, or systemd (systemd.exec(5)), has started the process
/// `own`. The next process is the child of another one. `init` is the name of process 1 if that is
/// the parent.
fn is_watched(init: Option<String>, started: Option<String>, own: u32) -> bool {
    init.is_some_and(|init| CONTAINER_INITS.contains(&init.trim_end()))
        || started.is_some_and(|started| started.parse() == Ok(own))
}

/// Returns the time of the watchdog, if it is meant for the process `own`.
fn watchdog_time(microseconds: Option<String>, pid: Option<String>, own: u32) -> Option<Duration> {
    let is_ours = pid.is_none_or(|pid| pid.parse() == Ok(own));
    let time = microseconds?.parse().ok().filter(|time| *time > 0 && is_ours)?;
    Some(Duration::from_micros(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    #[test]
    fn a_name_is_a_path_or_abstract() {
        assert!(address(b"/run/systemd/notify").unwrap().as_pathname().is_some());
        assert_eq!(address(b"@a/b").unwrap().as_abstract_name(), Some(&b"a/b"[..]));
        for wrong in [&b""[..], b"@", b"vsock:2:3", b"run/notify", &[b'/'; 200], &[b'@'; 200]] {
            assert!(address(wrong).is_err(), "{}", String::from_utf8_lossy(wrong));
        }
    }

    #[test]
    fn the_watchdog_of_another_process_does_not_count() {
        let time = |time: &str, pid: Option<&str>| {
            watchdog_time(Some(time.into()), pid.map(Into::into), 7).map(|time| time.as_micros())
        };
        assert_eq!(time("30000000", None), Some(30_000_000));
        assert_eq!(time("30000000", Some("7")), Some(30_000_000));
        for (wrong, pid) in [("30000000", Some("8")), ("30000000", Some("x")), ("0", None), ("-1", None)] {
            assert_eq!(time(wrong, pid), None, "{wrong} {pid:?}");
        }
        assert_eq!(watchdog_time(None, None, 7), None);
    }

    #[test]
    fn the_init_of_a_container_and_systemd_watch_the_processes_that_they_start() {
        let watched = |init: Option<&str>, started: Option<&str>| {
            is_watched(init.map(Into::into), started.map(Into::into), 7)
        };
        assert!(watched(Some("docker-init\n"), None) && watched(None, Some("7")));
        // A shell within a unit, and the init of a machine.
        assert!(!watched(None, Some("6")) && !watched(Some("systemd\n"), None) && !watched(None, None));
    }

    #[test]
    fn the_watchdog_is_fed_only_while_the_service_is_alive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager {
            address: Some(SocketAddr::from_pathname(&path).unwrap()),
            watchdog: Some(Duration::from_millis(20)),
            watched: false,
            complained: AtomicBool::new(false),
        };
        let alive = Arc::new(AtomicBool::new(true));
        let (asked, answered) = channel();
        let now = alive.clone();
        manager
            .feed_watchdog(move |interval| {
                assert_eq!(interval, Duration::from_millis(10));
                let _ = asked.send(());
                now.load(Relaxed)
            })
            .unwrap();
        let receive = || {
            let mut message = [0; 64];
            socket.recv(&mut message).map(|size| message[..size].to_vec())
        };
        for _ in 0..3 {
            assert_eq!(receive().unwrap(), b"WATCHDOG=1");
        }
        alive.store(false, Relaxed);
        // The second question from now on is asked, and answered, after the change.
        answered.try_iter().for_each(drop);
        (0..2).for_each(|_| answered.recv().unwrap());
        socket.set_nonblocking(true).unwrap();
        while receive().is_ok() {}
        (0..3).for_each(|_| answered.recv().unwrap());
        assert_eq!(receive().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        alive.store(true, Relaxed);
        socket.set_nonblocking(false).unwrap();
        assert_eq!(receive().unwrap(), b"WATCHDOG=1");
    }

    #[test]
    fn a_manager_that_is_gone_is_no_fault_of_the_service() {
        let manager = ServiceManager {
            address: Some(SocketAddr::from_abstract_name("orthrus-nobody-listens").unwrap()),
            watchdog: None,
            watched: false,
            complained: AtomicBool::new(false),
        };
        manager.ready("");
        manager.stopping();
        assert!(manager.complained.load(Relaxed));
        // It would take the end of this process for that of the service.
        assert!(manager.check_succession().is_err());
    }

    #[test]
    fn a_start_that_waits_asks_for_more_time_and_says_why() {
        // sd_notify(3)
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager {
            address: Some(SocketAddr::from_pathname(&path).unwrap()),
            watchdog: None,
            watched: false,
            complained: AtomicBool::new(false),
        };
        let (start, started) = channel();
        let manager_hears = std::thread::spawn(move || {
            let mut message = [0; 128];
            let size = socket.recv(&mut message).unwrap();
            start.send(7).unwrap();
            String::from_utf8(message[..size].to_vec()).unwrap()
        });
        let interval = Duration::from_millis(10);
        assert_eq!(manager.wait_for_start(&started, interval, || "waiting for gw2".to_owned()), Ok(7));
        assert_eq!(manager_hears.join().unwrap(), "EXTEND_TIMEOUT_USEC=30000\nSTATUS=waiting for gw2");
    }
}
