//! The process that starts the next one.
//!
//! The server cannot: its sandbox denies programs, and every process would inherit it. This one is
//! there from the start, before the sandbox. It takes orders of the server alone, and starts no
//! other program than the server's own.

use super::VARIABLE;
use super::binary::Binary;
use anyhow::{Context, bail};
use handover::{ChannelError, HandoverChannel, StarterAnswer, StarterOrder};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGUSR1};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The name of the command that is this process.
pub(crate) const STARTER: &str = "starter";
/// How long the starter may take for an order.
const ORDER_TIME_MAX: Duration = Duration::from_secs(5);
/// How long the starter waits for the end of a process that it has killed.
const REAP_TIME_MAX: Duration = Duration::from_secs(1);
/// How often it looks for that end.
const REAP_INTERVAL: Duration = Duration::from_millis(5);
/// How long it waits for an order before it waits for the next; it has nothing else to do.
const IDLE_TIME: Duration = Duration::from_secs(3600);
/// Variables that are for the first process of the service alone.
const OWN_VARIABLES: [&str; 4] = ["WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// The starter, as the server has it.
pub(in crate::serve) struct Starter(Mutex<StarterChannel>);

/// The way to the starter. Orders have numbers, which their answers repeat.
struct StarterChannel {
    channel: HandoverChannel,
    /// The number of the last order.
    last: u32,
}

impl Starter {
    /// Starts the starter. Called before the process has given up anything.
    ///
    /// # Errors
    /// The system's.
    pub(in crate::serve) fn spawn(program: &Path) -> anyhow::Result<Self> {
        vfs_local::keep_from_children();
        let (channel, input) = HandoverChannel::pair().context("no socket for it")?;
        let mut command = Command::new("/proc/self/exe");
        // Options before the command of the server are its own as well.
        command.arg0("orthrus").arg(STARTER).arg(program).arg("--").args(std::env::args_os().skip(1));
        // It ends when the server does, and leaves the next process alone.
        command.stdin(Stdio::from(input)).env_remove(VARIABLE).spawn()?;
        Ok(Self::with(channel))
    }

    fn with(channel: HandoverChannel) -> Self {
        Self(Mutex::new(StarterChannel { channel, last: 0 }))
    }

    /// Starts a program with one end of a channel; returns the number of its process.
    ///
    /// # Errors
    /// The reason why it is not started.
    pub(super) fn start(&self, program: &Path, input: OwnedFd) -> anyhow::Result<u32> {
        let name = program.to_str().context("the path of the program is not UTF-8")?.to_owned();
        match self.ask(StarterOrder::Start(name), Some(input))? {
            StarterAnswer::Started(process) => Ok(process),
            StarterAnswer::Failed(why) => bail!("{why}"),
            StarterAnswer::Done => bail!("the starter answers out of order"),
        }
    }

    /// Ends the process that was started last.
    pub(super) fn end(&self) {
        if let Ok(StarterAnswer::Failed(why)) = self.ask(StarterOrder::End, None) {
            tracing::warn!("{why}");
        }
    }

    /// Asks the process that was started last to end.
    pub(super) fn terminate(&self) {
        let _ = self.ask(StarterOrder::Terminate, None);
    }

    /// Asks the process that was started last to apply its configuration file.
    pub(super) fn reload(&self) {
        let _ = self.ask(StarterOrder::Reload, None);
    }

    fn ask(&self, order: StarterOrder, input: Option<OwnedFd>) -> anyhow::Result<StarterAnswer> {
        let mut starter = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        starter.last = starter.last.wrapping_add(1);
        let fds: Vec<_> = input.iter().map(AsFd::as_fd).collect();
        let answer = starter.answer(&(starter.last, order), &fds);
        answer.context(
            "the process that starts the next one (`orthrus starter`) gives no answer; restart the server instead",
        )
    }
}

impl StarterChannel {
    /// Sends an order and returns its answer. The starter may still answer an earlier order that
    /// took too long.
    fn answer(
        &self,
        order: &(u32, StarterOrder),
        fds: &[BorrowedFd<'_>],
    ) -> Result<StarterAnswer, ChannelError> {
        let until = Instant::now() + ORDER_TIME_MAX;
        self.channel.send(order, fds, until)?;
        loop {
            let ((number, answer), _) = self.channel.receive::<(u32, StarterAnswer)>(until)?;
            if number == order.0 {
                return Ok(answer);
            }
        }
    }
}

/// Obeys the orders of the server at the other end of standard input, until it ends.
///
/// # Errors
/// Standard input is no channel.
pub(crate) fn obey(program: PathBuf, arguments: Vec<OsString>) -> anyhow::Result<()> {
    // Sent to all processes of a service, they mean the server.
    for signal in [SIGHUP, SIGUSR1] {
        signal_hook::flag::register(signal, Arc::default()).context("signals cannot be caught")?;
    }
    let input = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
    let _ = rustix::thread::set_name(c"orthrus-starter");
    let channel = HandoverChannel::from(input);
    let mut orders = Orders { program, arguments, child: None };
    loop {
        let ((number, order), fds) = match channel.receive::<(u32, StarterOrder)>(Instant::now() + IDLE_TIME)
        {
            Ok(order) => order,
            Err(ChannelError::Silent) => continue,
            Err(ChannelError::Closed) => return Ok(()),
            Err(error) => return Err(error).context("`orthrus serve` starts this command itself"),
        };
        let answer = match order {
            StarterOrder::Start(path) => orders.start(Path::new(&path), fds),
            StarterOrder::End => orders.end(),
            StarterOrder::Terminate => orders.signal(Signal::TERM),
            StarterOrder::Reload => orders.signal(Signal::HUP),
        };
        let answer = answer.unwrap_or_else(|why| StarterAnswer::Failed(format!("{why:#}")));
        if channel.send(&(number, answer), &[], Instant::now() + ORDER_TIME_MAX).is_err() {
            return Ok(());
        }
    }
}

struct Orders {
    /// The server's own program, and its arguments.
    program: PathBuf,
    arguments: Vec<OsString>,
    /// The process that was started last.
    child: Option<Child>,
}

impl Orders {
    fn start(&mut self, path: &Path, fds: Vec<OwnedFd>) -> anyhow::Result<StarterAnswer> {
        let binary = Binary::beside(&self.program, path)?;
        let input = fds.into_iter().next().context("the channel is missing")?;
        let mut command = Command::new(binary.path());
        command.arg0(path).args(&self.arguments).stdin(Stdio::from(input)).env(VARIABLE, "1");
        for name in OWN_VARIABLES {
            command.env_remove(name);
        }
        let child = command.spawn().with_context(|| format!("{} cannot be started", path.display()))?;
        let process = child.id();
        self.child = Some(child);
        Ok(StarterAnswer::Started(process))
    }

    fn end(&mut self) -> anyhow::Result<StarterAnswer> {
        let Some(mut child) = self.child.take() else { return Ok(StarterAnswer::Done) };
        let _ = child.kill();
        let until = Instant::now() + REAP_TIME_MAX;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                bail!("process {} waits for a file system, and cannot be ended yet", child.id());
            }
            std::thread::sleep(REAP_INTERVAL);
        }
        Ok(StarterAnswer::Done)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<StarterAnswer> {
        let process = self.child.as_ref().map(|child| child.id().cast_signed());
        // It is a child of this process, so its number is still its own.
        if let Some(process) = process.and_then(Pid::from_raw) {
            kill_process(process, signal)?;
        }
        Ok(StarterAnswer::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_is_not_taken_for_that_of_the_next_order() {
        let (channel, other) = HandoverChannel::pair().unwrap();
        let starter = Starter::with(channel);
        let other = HandoverChannel::from(other);
        let obeying = std::thread::spawn(move || {
            let until = Instant::now() + ORDER_TIME_MAX;
            let ((number, order), _) = other.receive::<(u32, StarterOrder)>(until).unwrap();
            other.send(&(number.wrapping_sub(1), StarterAnswer::Started(7)), &[], until).unwrap();
            other.send(&(number, StarterAnswer::Started(8)), &[], until).unwrap();
            order
        });
        let (_, input) = HandoverChannel::pair().unwrap();
        assert_eq!(starter.start(Path::new("/usr/bin/orthrus"), input).unwrap(), 8);
        assert_eq!(obeying.join().unwrap(), StarterOrder::Start("/usr/bin/orthrus".to_owned()));
    }
}
