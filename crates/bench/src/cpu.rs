//! Processor time, from the operating system.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Returns the processor time that a process of this machine has used, all its threads together; `None` when it is gone
/// or cannot be looked at.
///
/// The scheduler counts it in nanoseconds for each thread. Threads that have ended are not in the sum, so it is for
/// servers whose threads stay; where a kernel has no such counts, the process's own in hundredths of a second serve.
pub fn of_process(pid: u32) -> Option<Duration> {
    of_threads(pid).filter(|time| !time.is_zero()).or_else(|| of_stat(pid))
}

fn of_threads(pid: u32) -> Option<Duration> {
    let mut nanoseconds = 0u64;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        nanoseconds += text.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(nanoseconds))
}

fn of_stat(pid: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may hold anything; times are the 12th and 13th field behind it.
    let (_, rest) = text.rsplit_once(')')?;
    let ticks =
        rest.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>().ok()?;
    // USER_HZ is 100 on every architecture of Linux that a server runs on.
    Some(Duration::from_millis(ticks * 10))
}

/// Returns the processor time of the calling thread.
pub fn of_this_thread() -> Duration {
    used(UsageWho::RUSAGE_THREAD)
}

/// Returns the processor time of this process, all its threads together.
pub fn of_this_process() -> Duration {
    used(UsageWho::RUSAGE_SELF)
}

fn used(by: UsageWho) -> Duration {
    let Ok(usage) = getrusage(by) else { return Duration::ZERO };
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn work_is_counted_for_thread_and_process() {
        let (thread, process) = (of_this_thread(), of_process(std::process::id()).unwrap());
        let end = Instant::now() + Duration::from_millis(60);
        while Instant::now() < end {}
        assert!(of_this_thread() - thread > Duration::from_millis(5));
        assert!(of_process(std::process::id()).unwrap() > process);
    }

    #[test]
    fn a_process_that_is_gone_has_none() {
        assert_eq!(of_process(u32::MAX - 1), None);
    }
}
