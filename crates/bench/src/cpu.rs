//! Processor time, from the operating system.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

/// Returns the processor time that a process of this machine has used, all its threads together, ended ones included;
/// `None` when it is gone.
pub fn of_process(pid: u32) -> Option<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(pid).ok()?)).ok()?;
    Some(Duration::from(clock.now().ok()?))
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
