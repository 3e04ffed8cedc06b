//! The processes of a lab, seen from outside, and their end.

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// How long the kernel may take to end everything.
const END_WAIT: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// A process that cannot be mistaken for a later one of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process number in its namespace.
    pub pid: i32,
    /// When it began, in ticks since the machine did.
    pub began: u64,
}

/// A process of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process number outside the namespace.
    pub pid: u32,
    /// Program and arguments, as one list.
    pub command: Vec<String>,
}

impl ProcessIdentity {
    /// Looks at a running process.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        began(&stat).map(|began| Self { pid, began })
    }

    /// Whether it still runs.
    pub fn is_alive(self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        // A zombie is no running lab.
        began(&stat) == Some(self.began) && !matches!(fields(&stat).next(), Some("Z" | "X"))
    }

    /// Ends it, and returns when it has ended; whether it ran.
    ///
    /// The process is held by a descriptor before it is looked at: a number that has gone to
    /// another process in the meantime is never signalled. For the first process of a namespace the
    /// descriptor tells of its end when all others of the namespace have ended.
    ///
    /// # Errors
    /// When it may not be ended, or does not end.
    pub fn kill(self) -> anyhow::Result<bool> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(false) };
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(false),
            opened => opened.with_context(|| format!("process {}", self.pid))?,
        };
        if !self.is_alive() {
            return Ok(false);
        }
        match pidfd_send_signal(&process, Signal::KILL) {
            Err(Errno::SRCH) => return Ok(false),
            sent => sent.with_context(|| format!("process {} cannot be ended", self.pid))?,
        }
        let mut ended = [PollFd::new(&process, PollFlags::IN)];
        if poll(&mut ended, Some(&END_WAIT)).unwrap_or(0) == 0 {
            bail!("process {} does not end in {} s", self.pid, END_WAIT.tv_sec);
        }
        Ok(true)
    }
}

/// Lists the processes that hang on a supervisor, itself included.
pub(crate) fn all(supervisor: ProcessIdentity) -> Vec<Process> {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let Some(own) = namespace(&supervisor.pid.to_string()).filter(|_| supervisor.is_alive()) else {
        return Vec::new();
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let inside = numbers.filter(|pid| namespace(&pid.to_string()).as_ref() == Some(&own));
    inside.map(|pid| Process { pid, command: command(pid) }).collect()
}

fn command(pid: u32) -> Vec<String> {
    let bytes = fs::read(PathBuf::from(format!("/proc/{pid}/cmdline"))).unwrap_or_default();
    let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The fields of /proc/PID/stat behind the name, which can have spaces and brackets: the state is
/// the first.
pub(crate) fn fields(stat: &str) -> std::str::SplitWhitespace<'_> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace()
}

fn began(stat: &str) -> Option<u64> {
    fields(stat).nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_known_by_its_beginning() {
        let own = ProcessIdentity::of(std::process::id().try_into().unwrap()).unwrap();
        assert!(own.is_alive());
        assert!(!ProcessIdentity { began: own.began + 1, ..own }.is_alive());
        assert!(
            !ProcessIdentity { began: own.began + 1, ..own }.kill().unwrap(),
            "another process is left alone"
        );
    }

    #[test]
    fn a_process_is_ended_once() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id().try_into().unwrap()).unwrap();
        assert!(identity.kill().unwrap());
        assert!(!identity.is_alive());
        child.wait().unwrap();
        assert!(!identity.kill().unwrap());
    }

    #[test]
    fn names_with_brackets_do_not_move_the_fields() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 9";
        assert_eq!(began(stat), Some(4242));
    }
}
