//! Processor time, from the operating system.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;

/// Returns the processor time that a process of this machine has used, all its threads together,
/// ended ones included; `None` when it is gone.
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

/// Returns the processor time of the children of this process that have ended and been waited for,
/// and of theirs.
pub fn of_children() -> Duration {
    used(UsageWho::RUSAGE_CHILDREN)
}

/// Returns the processor time that all processors of this machine have spent at work since it
/// started, in steps of 10 ms; `None` where /proc does not say so.
pub fn of_machine() -> Option<Duration> {
    of_stat(&BUSY)
}

/// Returns the same with the time that the host has given to other machines instead; `None`, too,
/// if this process may use a part of the processors only, where others do not disturb it.
pub fn of_machine_and_host() -> Option<Duration> {
    let all = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN).ok()??;
    let own = std::thread::available_parallelism().ok()?.get();
    of_stat(&BUSY_OR_STOLEN).filter(|_| usize::try_from(all).is_ok_and(|all| all == own))
}

fn of_stat(columns: &[usize]) -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    ticks(sum(stat.lines().next()?, columns)?)
}

/// Returns the processor time of a process and of its children that have ended, in steps of 10 ms;
/// `None` when it is gone.
pub fn of_family(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    ticks(family(&stat)?)
}

fn ticks(count: u64) -> Option<Duration> {
    let rate = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    Some(Duration::from_secs_f64(count as f64 / rate as f64))
}

/// Columns of work in a line `cpu user nice system idle iowait irq softirq steal …` of /proc/stat.
/// A guest's time is in user.
const BUSY: [usize; 5] = [0, 1, 2, 5, 6];
/// The same with stolen time, which is another machine's.
const BUSY_OR_STOLEN: [usize; 6] = [0, 1, 2, 5, 6, 7];

/// Sums columns of such a line.
fn sum(line: &str, columns: &[usize]) -> Option<u64> {
    let mut fields = line.split_whitespace();
    if fields.next() != Some("cpu") {
        return None;
    }
    let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    (fields.len() >= 7).then(|| columns.iter().filter_map(|at| fields.get(*at)).sum())
}

/// Adds up utime, stime, cutime and cstime, fields 14 to 17 of proc(5); the name in parentheses may
/// hold blanks.
fn family(stat: &str) -> Option<u64> {
    let (_, after) = stat.rsplit_once(") ")?;
    let fields: Vec<u64> = after.split(' ').skip(11).take(4).map_while(|field| field.parse().ok()).collect();
    (fields.len() == 4).then(|| fields.iter().sum())
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
        let worked = || of_this_thread() - thread > Duration::from_millis(5);
        let counted = || of_process(std::process::id()).unwrap() > process;
        // The duration depends on the other users of the processor.
        let end = Instant::now() + Duration::from_secs(30);
        while !(worked() && counted()) && Instant::now() < end {}
        assert!(worked() && counted());
    }

    #[test]
    fn busy_time_excludes_idle_and_guest_time_and_stolen_time_unless_it_is_asked_for() {
        let line = "cpu  100 20 30 4000 500 6 7 800 90 1";
        assert_eq!((sum(line, &BUSY), sum(line, &BUSY_OR_STOLEN)), (Some(163), Some(963)));
        assert_eq!(sum("cpu0 1 2 3 4 5 6 7", &BUSY), None);
        assert_eq!(sum("cpu 1 2 3", &BUSY), None);
    }

    #[test]
    fn a_family_is_the_process_and_its_ended_children() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 700 800 0 0 11 22 33 44 20 0 1 0 555";
        assert_eq!(family(stat), Some(110));
        assert_eq!(family("7 (x) S 1 2"), None);
        assert!(of_family(std::process::id()).is_some() && of_family(u32::MAX - 1).is_none());
        assert!(of_machine() >= of_family(std::process::id()));
    }

    #[test]
    fn a_process_that_is_gone_has_none() {
        assert_eq!(of_process(u32::MAX - 1), None);
    }
}
