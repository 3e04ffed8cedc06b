//! This process: its rights, and the processor time and memory of it and its threads.

use anyhow::bail;
use nix::sys::time::TimeValLike;
use nix::time::ClockId;
use nix::unistd::{SysconfVar, sysconf};
use rustix::io::fcntl_dupfd_cloexec;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::time::{Duration, Instant};
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

/// The file in which a process says how readily it ends when memory runs out
/// (proc_pid_oom_score_adj(5)).
const OOM_SCORE: &str = "/proc/self/oom_score_adj";
/// The value with which a process is the first to end.
const FIRST_TO_END: i32 = 1000;

/// The offer of this process to end before others when memory runs out.
#[must_use = "the process stays the first to end until this is withdrawn"]
pub(super) struct EndsFirst {
    score: File,
    former: i32,
}

impl EndsFirst {
    /// Makes the offer; `None` where it could not be withdrawn.
    pub(super) fn offer() -> Option<Self> {
        let former = std::fs::read_to_string(OOM_SCORE).ok()?.trim().parse().ok()?;
        let mut offer = Self { score: File::options().write(true).open(OOM_SCORE).ok()?, former };
        // A process that may lower the value of others can make its own final.
        let tried = [former + 1, former, FIRST_TO_END].map(|score| offer.set(score));
        tried.into_iter().all(|set| set.is_ok()).then_some(offer)
    }

    /// Withdraws the offer: this process serves now.
    pub(super) fn withdraw(mut self) {
        if let Err(error) = self.set(self.former) {
            tracing::warn!("when memory runs out, this process is the first to end: {OOM_SCORE}: {error}");
        }
    }

    fn set(&mut self, score: i32) -> io::Result<()> {
        self.score.write_all(score.to_string().as_bytes())
    }
}

pub(super) fn processor_time() -> Option<Duration> {
    let time = ClockId::CLOCK_PROCESS_CPUTIME_ID.now().ok()?;
    u64::try_from(time.num_nanoseconds()).ok().map(Duration::from_nanos)
}

/// Returns the processor time of this thread.
pub(super) fn thread_time() -> Duration {
    let time = ClockId::CLOCK_THREAD_CPUTIME_ID.now().map(|time| time.num_nanoseconds());
    Duration::from_nanos(time.ok().and_then(|time| time.try_into().ok()).unwrap_or(0))
}

/// The second number of /proc/self/statm, proc(5), in pages.
pub(super) fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    let page = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    pages.checked_mul(u64::try_from(page).ok()?)
}

/// Returns the size of the table of descriptors (FDSize of proc_pid_status(5)).
pub(super) fn descriptor_table() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("FDSize:"))?.trim().parse().ok()
}

/// Grows the table of descriptors to this size, as far as the limit of the process allows. Where
/// the process has threads, the kernel waits some milliseconds for each doubling.
pub(super) fn grow_descriptor_table(size: u32) {
    let highest = i32::try_from(size).unwrap_or(i32::MAX).saturating_sub(1);
    // Beyond the limit there is no such number, and the table grows when it must.
    let _ = fcntl_dupfd_cloexec(std::io::stdin(), highest);
}

/// Bytes of a block that the allocator does not map for itself alone.
const BLOCK_SIZE: usize = 64 << 10;
/// How long a process may take to get its memory ready for an upgrade.
const READY_TIME_MAX: Duration = Duration::from_secs(2);

/// Memory that the allocator has from the kernel, for what this thread will need.
#[must_use = "the allocator may give the memory back when this is dropped"]
pub(super) struct ReadyMemory {
    /// The allocator gives back memory behind which nothing is in use.
    _last: Option<Vec<u8>>,
}

impl ReadyMemory {
    /// Gets about so many bytes, or fewer if it takes long. The kernel clears each page now, and
    /// not when it is used.
    pub(super) fn of(bytes: usize) -> Self {
        let until = Instant::now() + READY_TIME_MAX;
        let blocks = (0..bytes / BLOCK_SIZE).take_while(|_| Instant::now() < until);
        let mut blocks: Vec<Vec<u8>> = blocks.map(|_| vec![1; BLOCK_SIZE]).collect();
        let _last = blocks.pop();
        // Nothing reads the blocks, so the compiler could leave them out.
        drop(std::hint::black_box(blocks));
        Self { _last }
    }
}

/// Returns the processor time of the threads that live now, by the kind of thread: its name without
/// a number, such as `shard`.
pub(super) fn thread_times() -> BTreeMap<String, Duration> {
    let mut times = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        // A thread can end meanwhile.
        let read = |file: &str| std::fs::read_to_string(entry.path().join(file)).ok();
        let Some((kind, time)) = read("comm").zip(read("schedstat")).and_then(|(name, stat)| {
            let nanoseconds = stat.split(' ').next()?.parse().ok()?;
            Some((kind_of_thread(name.trim()), Duration::from_nanos(nanoseconds)))
        }) else {
            continue;
        };
        *times.entry(kind).or_default() += time;
    }
    times
}

fn kind_of_thread(name: &str) -> String {
    match name.rsplit_once('-') {
        Some((kind, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => kind.to_owned(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted_by_their_kind() {
        for (name, kind) in
            [("shard-0", "shard"), ("disk-127", "disk"), ("keep-alive", "keep-alive"), ("http", "http")]
        {
            assert_eq!(kind_of_thread(name), kind);
        }
        assert!(!thread_times().is_empty());
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn memory_that_is_ready_needs_the_kernel_no_more() {
        use nix::sys::resource::{UsageWho, getrusage};
        let faults = || getrusage(UsageWho::RUSAGE_THREAD).unwrap().minor_page_faults();
        let memory = ReadyMemory::of(16 << 20);
        let before = faults();
        let small: Vec<Box<[u8; 1000]>> = (0..8000).map(|_| Box::new([1; 1000])).collect();
        let large = vec![1_u8; 4 << 20];
        std::hint::black_box((small, large));
        let faults = faults() - before;
        drop(memory);
        assert!(faults < 300, "{faults} page faults for 3,000 pages");
    }

    #[test]
    fn the_table_of_descriptors_grows_at_once_and_no_further_than_the_limit() {
        let size = descriptor_table().unwrap();
        grow_descriptor_table(u32::MAX);
        assert_eq!(descriptor_table(), Some(size));
        grow_descriptor_table(size + 1);
        assert!(descriptor_table() > Some(size));
    }
}
