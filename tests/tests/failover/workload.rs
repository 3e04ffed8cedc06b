//! The clients of a failure: native ones and a Linux kernel hold locks and write, and one of each
//! kind at the other gateway asks for a lock.

use crate::clients::{Holder, HolderProgress, Rival, RivalReport};
use crate::linux::{self, LinuxHolder, LinuxRival, LinuxRivalReport};
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
    linux: Option<(LinuxHolder, LinuxRival)>,
    rival: Rival,
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
pub(crate) struct RivalsReport {
    pub(crate) native: RivalReport,
    pub(crate) linux: Option<LinuxReport>,
}

/// The findings of the Linux clients.
pub(crate) struct LinuxReport {
    /// Acknowledged writes of the holder, all of them.
    pub(crate) written: u64,
    pub(crate) rival: LinuxRivalReport,
    /// From the request to the holder to unlock, to the grant of the lock to the rival.
    pub(crate) handed_over: Duration,
}

impl fmt::Display for RivalsReport {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let RivalReport { denied, grace, .. } = self.native;
        write!(f, "the native rival was denied the lock {denied} times and waited for grace {grace} times")?;
        self.linux.as_ref().map_or(Ok(()), |linux| write!(f, "; {linux}"))
    }
}

impl fmt::Display for LinuxReport {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let LinuxRivalReport { denied: [before, after], .. } = self.rival;
        write!(
            f,
            "the Linux rival was denied the lock {before} times before and {after} times after the failure, \
             and got it {:.1} s after the holder was asked to unlock",
            self.handed_over.as_secs_f64()
        )
    }
}

impl Workload {
    /// Starts all clients, and waits until each has written and the rivals have asked.
    pub(crate) fn start(site: &FailoverSite) -> Self {
        let mut linux = site.linux_clients();
        let native: Vec<_> = (0..HOLDERS).map(|number| site.holder(number)).collect();
        let rival = site.rival(&holder_name(0), &native[0].progress);
        if let Some((_, rival)) = &mut linux {
            rival.wait_until_denied();
        }
        let workload = Self { native, linux, rival };
        for (_, progress) in workload.clients() {
            progress.wait_beyond(WRITES_BEFORE);
        }
        workload
    }

    /// Notes that something has failed.
    pub(crate) fn note_failure(&mut self) {
        if let Some((_, rival)) = &mut self.linux {
            rival.note_failure();
        }
    }

    /// Returns all clients with the names of their files.
    pub(crate) fn clients(&self) -> Vec<(String, Arc<HolderProgress>)> {
        let native = (0..HOLDERS).zip(&self.native);
        let native = native.map(|(number, holder)| (holder_name(number), Arc::clone(&holder.progress)));
        let linux = self.linux.iter().map(|(linux, _)| (linux::FILE.to_owned(), Arc::clone(&linux.progress)));
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
        let native = self.rival.stop(within);
        let linux = self.linux.map(|(holder, mut rival)| {
            // A grace period in between makes no difference: the lock is held.
            rival.wait_until_denied_again();
            let asked = Instant::now();
            let written = holder.stop();
            let rival = rival.wait();
            LinuxReport { written, handed_over: rival.granted - asked, rival }
        });
        RivalsReport { native, linux }
    }
}

/// Returns the name of the file of a native client.
pub(crate) fn holder_name(number: usize) -> String {
    format!("holder{number}")
}
