//! The counters of a server that this program has started: the server logs them on a signal.

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Counts of events by the names that samples have for them.
pub type Counters = BTreeMap<String, u64>;

/// How long the server may take to tell its counters.
const COUNTERS_MAX: Duration = Duration::from_secs(10);

/// Asks a server, whose log is in a file, for its counters, by SIGUSR1.
///
/// # Errors
/// When the server does not log them.
pub fn of_server(pid: u32, log: &Path) -> anyhow::Result<Counters> {
    let read = || std::fs::read_to_string(log).context("the server has no log");
    // The line that comes last.
    let answers = |log: &str| log.matches(" held: ").count();
    let (before, end) = (answers(&read()?), Instant::now() + COUNTERS_MAX);
    kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGUSR1).context("the server is gone")?;
    loop {
        let said = read()?;
        if answers(&said) > before && said.ends_with('\n') {
            return Ok(parse(&said));
        }
        if Instant::now() > end {
            bail!("the server tells no counters:\n{said}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Adds counts to those of the same names.
pub(crate) fn add(all: &mut Counters, more: Counters) {
    more.into_iter().for_each(|(name, count)| *all.entry(name).or_default() += count);
}

/// Counts operations of a phase, and the microseconds that they took together.
pub(crate) fn count_phase(all: &mut Counters, phase: &str, operations: u64, time: Duration) {
    *all.entry(format!("{phase}_operations")).or_default() += operations;
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    *all.entry(format!("{phase}_us")).or_default() += micros;
}

/// Takes the last value of each counter out of a log.
fn parse(log: &str) -> Counters {
    let words = log.split_whitespace().filter_map(|word| word.split_once('='));
    words.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_last_value_of_a_counter_counts() {
        let counters = parse("x INFO calls: calls=3 lag_0=1\ny INFO calls: calls=5 lag_0=x\n");
        let expected = [("calls".to_owned(), 5), ("lag_0".to_owned(), 1)];
        assert_eq!(counters.into_iter().collect::<Vec<_>>(), expected);
    }
}
