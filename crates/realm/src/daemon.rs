//! Daemons of a realm, stopped by a process descriptor, which cannot refer to another process.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::RealmError;
use crate::removal::remove_file;
use crate::tools::KerberosTool;

/// Time that a daemon has to end after SIGTERM, before SIGKILL.
const END_WAIT: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// A daemon of one realm, by its program, its pid file, and an argument that no other process has.
pub(crate) struct Daemon {
    pub tool: KerberosTool,
    pub pid_file: PathBuf,
    pub argument: PathBuf,
}

impl Daemon {
    /// Stops the daemon, and returns whether it was running.
    ///
    /// A process descriptor is opened before the process is identified, so that a reused process id
    /// is never signalled.
    pub(crate) fn stop(&self) -> Result<bool, RealmError> {
        let Some((process, _)) = self.running()? else { return Ok(false) };
        for signal in [Signal::TERM, Signal::KILL] {
            match pidfd_send_signal(&process, signal) {
                Ok(()) => {}
                Err(Errno::SRCH) => break,
                Err(errno) => return Err(RealmError::io(&self.pid_file)(errno.into())),
            }
            // A process descriptor becomes readable when the process ends.
            let mut ended = [PollFd::new(&process, PollFlags::IN)];
            if poll(&mut ended, Some(&END_WAIT)).unwrap_or(0) > 0 {
                break;
            }
        }
        remove_file(&self.pid_file)?;
        Ok(true)
    }

    /// Ends the daemon by SIGKILL, as a crash does, and keeps its files. Returns whether it was
    /// running.
    pub(crate) fn kill(&self) -> Result<bool, RealmError> {
        let Some((process, _)) = self.running()? else { return Ok(false) };
        match pidfd_send_signal(&process, Signal::KILL) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(errno) => Err(RealmError::io(&self.pid_file)(errno.into())),
        }
    }

    /// Returns the process if it runs.
    pub(crate) fn running(&self) -> Result<Option<(OwnedFd, Pid)>, RealmError> {
        let text = match fs::read_to_string(&self.pid_file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(RealmError::io(&self.pid_file)(error)),
        };
        let number = text.trim().parse().ok().filter(|number: &i32| *number > 0);
        let Some(pid) = number.and_then(Pid::from_raw) else { return Ok(None) };
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => process,
            Err(Errno::SRCH) => return Ok(None),
            Err(errno) => return Err(RealmError::io(&self.pid_file)(errno.into())),
        };
        let command = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        let arguments: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
        let name = arguments.first().is_some_and(|program| program.ends_with(self.tool.name.as_bytes()));
        let ours = arguments.contains(&self.argument.as_os_str().as_encoded_bytes());
        Ok((name && ours).then_some((process, pid)))
    }
}
