//! The processor time and the memory of this process, by the operating system.

use nix::sys::time::TimeValLike;
use nix::time::ClockId;
use nix::unistd::{SysconfVar, sysconf};
use std::time::Duration;

pub(super) fn processor_time() -> Option<Duration> {
    let time = ClockId::CLOCK_PROCESS_CPUTIME_ID.now().ok()?;
    u64::try_from(time.num_nanoseconds()).ok().map(Duration::from_nanos)
}

/// The second number of /proc/self/statm, proc(5), in pages.
pub(super) fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    let page = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    pages.checked_mul(u64::try_from(page).ok()?)
}
