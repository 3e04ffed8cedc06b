//! `orthrus serve` under a test's control.

use crate::program::{nobody, orthrus, orthrus_at, program, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a server may take to start or to end on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// The options of a server.
#[derive(Clone, Debug, Default)]
pub struct Serve {
    arguments: Vec<OsString>,
    unprivileged: bool,
    for_everybody: bool,
    unread_log: bool,
    listen: Option<SocketAddr>,
    state: Option<OsString>,
    variables: Vec<(OsString, OsString)>,
    program: Option<PathBuf>,
    prefix: Vec<String>,
}

impl Serve {
    /// Begins with a state folder and a free port.
    pub fn new(state: impl AsRef<OsStr>) -> Self {
        Self { state: Some(state.as_ref().to_owned()), ..Self::default() }
    }

    /// Adds a command line argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Sets a variable of the server's environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Starts the program of another path.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Adds command line arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Listens there instead of at a free port.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// Serves as the user `nobody`.
    pub fn unprivileged(mut self) -> Self {
        self.unprivileged = true;
        self
    }

    /// Lets all users of the machine connect.
    pub fn for_everybody(mut self) -> Self {
        self.for_everybody = true;
        self
    }

    /// Starts the server by a program that becomes it, such as `nsenter`.
    pub fn behind(mut self, prefix: impl IntoIterator<Item = String>) -> Self {
        self.prefix = prefix.into_iter().collect();
        self
    }

    /// Leaves the log unread, so that the pipe behind standard error fills up.
    pub fn unread_log(mut self) -> Self {
        self.unread_log = true;
        self
    }

    /// Starts the server and waits until it serves; it ends with the test, however that ends. It is
    /// for this user alone: many tests let clients act as root.
    pub fn start(self) -> Server {
        let listen = self.listen.map_or("127.0.0.1:0".to_owned(), |address| address.to_string());
        let mut arguments: Vec<OsString> = vec!["serve".into(), "--end-with-input".into()];
        arguments.extend((!self.for_everybody).then(|| "--same-user".into()));
        arguments.extend(["--listen".into(), listen.into()]);
        if let Some(state) = &self.state {
            arguments.extend(["--state-dir".into(), state.clone()]);
        }
        arguments.extend(self.arguments.iter().cloned());
        let named = |name: &str| self.arguments.iter().any(|argument| argument == name);
        // Tests need no privileges and no ports of their own, and go through proxies.
        if !named("--config") && !named("--secure") {
            arguments.extend(["--secure", "false"].map(OsString::from));
        }
        if !named("--config") && !named("--sec") {
            arguments.extend(["--sec", "krb5p,krb5i,krb5,sys"].map(OsString::from));
        }
        let program = self.program.as_deref().unwrap_or_else(|| program());
        let mut command = if self.unprivileged { nobody(arguments) } else { orthrus_at(program, arguments) };
        if let Some((program, words)) = self.prefix.split_first() {
            command = prefixed(program, words, &command);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let input = child.stdin.take();
        let log = Arc::new(Mutex::new(String::new()));
        if !self.unread_log {
            read_log(child.stderr.take().expect("a pipe"), log.clone());
        }
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        output.read_line(&mut line).expect("standard output is text");
        let address = line.trim().strip_prefix("orthrus serves ").and_then(|address| address.parse().ok());
        let metrics = None;
        let mut server = Server {
            child,
            successor: None,
            input,
            log,
            address: ([0, 0, 0, 0], 0).into(),
            metrics,
            how: self,
        };
        match address {
            Some(address) => server.address = address,
            None => {
                let _ = server.child.kill();
                let _ = server.child.wait();
                std::thread::sleep(Duration::from_millis(100));
                panic!("the server did not start: {line:?}\n{}", server.log());
            }
        }
        if server.how.arguments.iter().any(|argument| argument == "--metrics") {
            line.clear();
            output.read_line(&mut line).expect("standard output is text");
            let url = line.trim().strip_prefix("orthrus metrics http://");
            server.metrics = url.and_then(|url| url.strip_suffix("/metrics")?.parse().ok());
        }
        server
    }
}

/// Returns a command that another program becomes.
fn prefixed(program: &str, words: &[String], command: &Command) -> Command {
    let mut all = Command::new(program);
    all.args(words).arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => all.env(name, value),
            None => all.env_remove(name),
        };
    }
    all
}

/// Starts a thread that appends each line of `error` to `log`.
fn read_log(error: ChildStderr, log: Arc<Mutex<String>>) {
    let error = BufReader::new(error);
    std::thread::spawn(move || {
        for line in error.lines().map_while(Result::ok) {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.push_str(&line);
            log.push('\n');
        }
    });
}

/// A running server; dropping it ends it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// The process that has taken over from `child`.
    successor: Option<u32>,
    /// The server ends when this is closed.
    input: Option<ChildStdin>,
    log: Arc<Mutex<String>>,
    address: SocketAddr,
    metrics: Option<SocketAddr>,
    how: Serve,
}

impl Server {
    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns where it tells metrics, if it was started with `--metrics`.
    pub fn metrics(&self) -> SocketAddr {
        self.metrics.expect("it says where its metrics are")
    }

    /// Returns the port that it serves.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns its process ID.
    pub fn pid(&self) -> u32 {
        self.successor.unwrap_or(self.child.id())
    }

    /// Returns the command that upgrades the server, to the program of a path if there is one.
    pub fn upgrade_command(&self, binary: Option<&Path>) -> Command {
        let state = self.how.state.clone().expect("a state folder");
        let mut arguments: Vec<OsString> = vec!["upgrade".into(), "--json".into()];
        arguments.extend(["--state-dir".into(), state]);
        arguments.extend(binary.map(|path| ["--binary".into(), path.into()]).into_iter().flatten());
        orthrus(arguments)
    }

    /// Upgrades the server, and returns the report.
    pub fn upgrade(&mut self, binary: Option<&Path>) -> serde_json::Value {
        let mut command = self.upgrade_command(binary);
        self.upgrade_by(&mut command)
    }

    /// As [`Server::upgrade`], by a command that prints JSON.
    pub fn upgrade_by(&mut self, command: &mut Command) -> serde_json::Value {
        let ended = run(command);
        assert!(ended.status.success(), "{}\n{}", ended.stderr, self.log());
        let outcome: serde_json::Value = serde_json::from_str(&ended.stdout).expect("a report");
        let report = outcome["upgraded"].clone();
        self.successor = report["process"].as_u64().and_then(|process| process.try_into().ok());
        report
    }

    /// Returns its log so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the lines in which it complains of peers.
    pub fn complaints(&self) -> Vec<String> {
        let complains = |line: &&str| line.contains(" WARN ") && line.contains("peer");
        self.log().lines().filter(complains).map(str::to_owned).collect()
    }

    /// Waits until it has logged `text`.
    pub fn wait_for_log(&self, text: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.log().contains(text) {
            assert!(Instant::now() < end, "the server did not log {text:?}:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns whether the process runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends the process a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().try_into().expect("a process id"));
        kill(pid, signal).expect("the server runs");
    }

    /// Waits for its end and returns how it ended and how long that took.
    pub fn wait(&mut self) -> (ExitStatus, Duration) {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is a child") {
                return (status, begin.elapsed());
            }
            assert!(begin.elapsed() < PATIENCE, "the server does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills the process with SIGKILL, as a crash does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(successor) = self.successor.take() {
            // A process that has taken over is no child. It ends with its input, too, as does one
            // that a failed test knows nothing of.
            self.input = None;
            let _ = kill(Pid::from_raw(successor.cast_signed()), Signal::SIGKILL);
        }
    }

    /// Starts it again after its end: the same arguments, state folder and port.
    pub fn restart(&mut self) {
        self.kill();
        *self = Serve { listen: Some(self.address), ..self.how.clone() }.start();
    }

    /// As [`Server::restart`], by value.
    pub fn restarted(mut self) -> Self {
        self.restart();
        self
    }

    /// Asks the server for its counters, by SIGUSR1, and returns one of them.
    pub fn counter(&self, name: &str) -> u64 {
        let [(_, count)] = self.counters(&[name]);
        count
    }

    /// The same for several at once.
    pub fn counters<'n, const N: usize>(&self, names: &[&'n str; N]) -> [(&'n str, u64); N] {
        // The line that comes last.
        let answers = || self.log().matches("held: ").count();
        let (before, end) = (answers(), Instant::now() + PATIENCE);
        self.signal(Signal::SIGUSR1);
        while answers() == before {
            assert!(Instant::now() < end, "the server tells no counters:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        let log = self.log();
        names.map(|name| {
            let label = format!("{name}=");
            let found = log.split_whitespace().rev().find_map(|word| word.strip_prefix(&label));
            let found = found.unwrap_or_else(|| panic!("there is no counter {label}"));
            (name, found.parse().expect("a number"))
        })
    }

    /// Resident memory in KiB.
    pub fn rss_kib(&self) -> u64 {
        rss_kib(self.pid())
    }
}

/// Resident memory of a process in KiB.
pub fn rss_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    line.trim().trim_end_matches("kB").trim().parse().expect("a number")
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- log of the server\n{}", self.log());
        }
    }
}
