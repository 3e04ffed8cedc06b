//! The clients of a failure: native ones and a Linux kernel hold locks and write, and rivals at the
//! other gateway ask for the locks.

use crate::clients::{Holder, HolderProgress, Rival};
use crate::guest::{self, LinuxHolder};
use crate::{FailoverSite, HOLDERS};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Acknowledged writes of each client before anything fails.
const WRITES_BEFORE: u64 = 20;

/// The clients of a site, at work.
pub(crate) struct Workload {
    native: Vec<Holder>,
    linux: Option<LinuxHolder>,
    rivals: Vec<Rival>,
}

/// The acknowledgements that a client has got, and its file.
pub(crate) struct Promise {
    pub(crate) name: String,
    pub(crate) written: u64,
    pub(crate) made: u64,
}

/// When clients have continued after a failure.
pub(crate) struct Continued {
    /// The last of the native clients.
    native: Instant,
    linux: Option<Instant>,
}

/// How long clients have waited after a failure.
pub(crate) struct Outage {
    native: Duration,
    linux: Option<Duration>,
}

impl Continued {
    pub(crate) fn since(self, failed: Instant) -> Outage {
        Outage { native: self.native - failed, linux: self.linux.map(|time| time - failed) }
    }
}

impl Outage {
    /// Returns the time until the last client has continued.
    pub(crate) fn last(&self) -> Duration {
        self.linux.map_or(self.native, |linux| linux.max(self.native))
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let native = self.native.as_secs_f64();
        write!(f, "the last of {HOLDERS} native clients continues after {native:.1} s")?;
        match self.linux {
            Some(linux) => write!(f, " and the Linux client after {:.1} s", linux.as_secs_f64()),
            None => Ok(()),
        }
    }
}

/// The findings of all rivals.
#[derive(Default)]
pub(crate) struct RivalsReport {
    /// Answers that denied a lock, of the rival with the fewest.
    pub(crate) denied: u64,
    /// Answers that a grace period is on.
    pub(crate) grace: u64,
    /// When the last lock was granted; `None` if one never was.
    pub(crate) granted: Option<Instant>,
}

impl Workload {
    /// Starts all clients, and waits until each has written.
    pub(crate) fn start(site: &FailoverSite) -> Self {
        let linux = site.linux_holder();
        let native: Vec<_> = (0..HOLDERS).map(|number| site.holder(number)).collect();
        let mut workload = Self { native, linux, rivals: Vec::new() };
        for (_, progress) in workload.clients() {
            progress.wait_beyond(WRITES_BEFORE);
        }
        let contested = [Some((holder_name(0), &workload.native[0].progress))];
        let linux = workload.linux.as_ref().map(|linux| (guest::FILE.to_owned(), &linux.progress));
        let contested = contested.into_iter().chain([linux]).flatten();
        workload.rivals = contested.map(|(name, progress)| site.rival(&name, progress)).collect();
        workload
    }

    /// Returns all clients with the names of their files.
    pub(crate) fn clients(&self) -> Vec<(String, Arc<HolderProgress>)> {
        let native = (0..HOLDERS).zip(&self.native);
        let native = native.map(|(number, holder)| (holder_name(number), Arc::clone(&holder.progress)));
        let linux = self.linux.iter().map(|linux| (guest::FILE.to_owned(), Arc::clone(&linux.progress)));
        native.chain(linux).collect()
    }

    /// Waits until each client has got so many more acknowledgements.
    pub(crate) fn wait_for(&self, more: u64) -> Continued {
        let wait = |progress: Arc<HolderProgress>| {
            let before = progress.written.load(SeqCst);
            std::thread::spawn(move || progress.wait_beyond(before + more - 1))
        };
        let waiting: Vec<_> = self.clients().into_iter().map(|(_, progress)| wait(progress)).collect();
        let mut times = waiting.into_iter().map(|thread| thread.join().expect("every client continues"));
        let native = times.by_ref().take(HOLDERS).max().expect("there are native clients");
        Continued { native, linux: times.next() }
    }

    /// Returns how often each native client has reclaimed.
    pub(crate) fn reclaimed(&self) -> Vec<u64> {
        self.native.iter().map(|holder| holder.progress.reclaimed.load(SeqCst)).collect()
    }

    /// Returns the acknowledgements up to now.
    pub(crate) fn promises(&self) -> Vec<Promise> {
        let promise = |(name, progress): (String, Arc<HolderProgress>)| Promise {
            name,
            written: progress.written.load(SeqCst),
            made: progress.made.load(SeqCst),
        };
        self.clients().into_iter().map(promise).collect()
    }

    /// Ends the clients, which unlock, and waits until the rivals have got the locks.
    pub(crate) fn stop(self, within: Duration) -> RivalsReport {
        self.native.into_iter().for_each(Holder::stop);
        self.linux.into_iter().for_each(LinuxHolder::stop);
        let reports = self.rivals.into_iter().map(|rival| rival.stop(within)).collect::<Vec<_>>();
        let granted: Option<Vec<_>> = reports.iter().map(|report| report.granted).collect();
        RivalsReport {
            denied: reports.iter().map(|report| report.denied).min().unwrap_or_default(),
            grace: reports.iter().map(|report| report.grace).sum(),
            granted: granted.and_then(|times| times.into_iter().max()),
        }
    }
}

/// Returns the name of the file of a native client.
pub(crate) fn holder_name(number: usize) -> String {
    format!("holder{number}")
}
