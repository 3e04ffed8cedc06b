//! This process: its rights, its processor time and its memory.

use anyhow::bail;
use nix::sys::time::TimeValLike;
use nix::time::ClockId;
use nix::unistd::{SysconfVar, sysconf};
use std::time::Duration;
use vfs_local::{Prepared, ServesAs};

/// Checks that the process does not act as root for its callers.
///
/// # Errors
/// It is root and lacks capabilities to act as them; names the remedies.
pub(super) fn check(prepared: &Prepared) -> anyhow::Result<()> {
    if !matches!(prepared.serves_as, ServesAs::OneUser { uid: 0, .. }) {
        return Ok(());
    }
    bail!(
        "orthrus runs as root, but without {}, so that it could not act as its callers: each of them would be \
         root. Give it these capabilities (a container: --cap-add), or start it as another user",
        prepared.missing.join(", ")
    );
}

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
