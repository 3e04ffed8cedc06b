//! The side of the process that hands over.

use super::binary::Binary;
use super::freeze::{Frozen, Standstill};
use super::starter::Starter;
use super::{GO_TIME_MAX, LOOK_INTERVAL, PREPARE_TIME_MAX, restore_time};
use crate::api::UpgradeReport;
use crate::serve::clock::ServerClock;
use crate::serve::http::Author;
use crate::serve::http_listeners::HttpSockets;
use crate::serve::observe::AuditLog;
use crate::serve::process::{ReadyMemory, descriptor_table, thread_time};
use crate::serve::reload::Reloads;
use crate::serve::store::Store;
use crate::service_manager::ServiceManager;
use anyhow::{Context, bail};
use handover::{
    ChannelError, FDS_PER_MESSAGE_MAX, HandoverChannel, Hello, Order, RecentEventsImage, SuccessorAnswer,
    Taken,
};
use net::Running;
use runtime::{Gate, NfsService};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use vfs::Exports;

/// The time that the next process has to make its socket for administrators. Clients do not notice
/// it.
const LISTEN_TIME_MAX: Duration = Duration::from_secs(2);
/// The time that this process stays after a handover, so that its answer to the administrator
/// arrives.
const LAST_WORDS_TIME: Duration = Duration::from_millis(500);

/// The memory of an open, from its image to the open file; most other objects take less.
const OBJECT_SIZE: usize = 3 << 9;
/// The memory of a lock stateid or of a locked range.
const LOCK_SIZE: usize = 1 << 8;
/// The part of this memory that an image takes here.
const IMAGE_PART: usize = 3;

/// The state that goes over.
struct HandoverSize {
    objects: usize,
    /// The bytes that restoring it takes, about.
    memory: usize,
}

/// The parts of a running server that a handover needs.
pub(in crate::serve) struct UpgradeParts {
    pub(in crate::serve) service: Arc<NfsService>,
    pub(in crate::serve) running: Arc<Running>,
    pub(in crate::serve) exports: Arc<Exports>,
    pub(in crate::serve) gate: Arc<Gate>,
    pub(in crate::serve) reloads: Arc<Reloads>,
    pub(in crate::serve) manager: Arc<ServiceManager>,
    pub(in crate::serve) audit: Option<AuditLog>,
    pub(in crate::serve) clock: ServerClock,
    /// The addresses as they were configured.
    pub(in crate::serve) listen: SocketAddr,
    pub(in crate::serve) metrics: Option<SocketAddr>,
    pub(in crate::serve) web: Option<SocketAddr>,
    pub(in crate::serve) http_sockets: HttpSockets,
    /// The state folder without symbolic links, and its lock.
    pub(in crate::serve) state_dir: PathBuf,
    pub(in crate::serve) lock: OwnedFd,
    /// The store of the client records in that folder.
    pub(in crate::serve) store: Option<Arc<Store>>,
    /// Whether the service manager passed the listening socket.
    pub(in crate::serve) passed: bool,
    /// The process that starts the next one, if there is one.
    pub(in crate::serve) starter: Option<Arc<Starter>>,
    /// The program as it was started.
    pub(in crate::serve) binary: PathBuf,
}

/// Hands the server over, one attempt at a time.
pub(in crate::serve) struct Upgrades {
    parts: UpgradeParts,
    /// Held by an attempt; whether the next process serves.
    attempt: Mutex<bool>,
    /// Whether the server is about to end.
    ends: AtomicBool,
}

impl Upgrades {
    pub(in crate::serve) fn new(parts: UpgradeParts) -> Self {
        Self { parts, attempt: Mutex::new(false), ends: AtomicBool::new(false) }
    }

    /// Returns whether the program at `path`, or else at the path of the start, is another one than
    /// this process runs. False if there is no program.
    ///
    /// # Errors
    /// Another program is there, and the server must not start it.
    pub(in crate::serve) fn has_new_binary(&self, path: Option<&Path>) -> anyhow::Result<bool> {
        match Binary::open(path.unwrap_or(&self.parts.binary)) {
            Ok(binary) => Ok(!binary.is_running()),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends an attempt in progress and prevents further ones, because the server is about to end.
    /// Returns whether the next process serves; it ends, too.
    pub(in crate::serve) fn end(&self) -> bool {
        self.ends.store(true, Release);
        let serves = *self.attempt.lock().unwrap_or_else(PoisonError::into_inner);
        if serves && let Some(starter) = &self.parts.starter {
            starter.terminate();
        }
        serves
    }

    /// Hands the server over to the program at `binary`, or else at the path of the start, on
    /// behalf of `author`. `recent` goes with it. When this returns, the next process serves, and
    /// this one ends soon.
    ///
    /// # Errors
    /// The reason why this process goes on; clients have noticed at most a pause.
    pub(in crate::serve) fn run(
        &self,
        binary: Option<PathBuf>,
        standstill: Duration,
        recent: RecentEventsImage,
        author: Author,
    ) -> anyhow::Result<UpgradeReport> {
        let Ok(mut serves) = self.attempt.try_lock() else { bail!("another upgrade is being made") };
        if *serves {
            bail!("another process has taken over by now; ask again");
        }
        let path = binary.unwrap_or_else(|| self.parts.binary.clone());
        tracing::warn!("upgrade to {} by {author}", path.display());
        let report = self.attempt(path, standstill, recent);
        match &report {
            Ok(report) => {
                *serves = true;
                tracing::warn!("{report}; this process ends");
                let audit = self.parts.audit.clone();
                audit
                    .iter()
                    .for_each(|audit| audit.admin(&author.to_string(), "upgrade", &report.to_string()));
                let leave = move || {
                    std::thread::sleep(LAST_WORDS_TIME);
                    audit.iter().for_each(AuditLog::flush);
                    crate::logging::flush();
                    // No lock is released and no file is touched: the next process has them.
                    vfs_local::exit_at_once(0);
                };
                if std::thread::Builder::new().name("leave".into()).spawn(leave.clone()).is_err() {
                    leave();
                }
            }
            Err(error) => tracing::error!("the upgrade failed, and this process serves on: {error:#}"),
        }
        report
    }

    fn attempt(
        &self,
        path: PathBuf,
        standstill: Duration,
        recent: RecentEventsImage,
    ) -> anyhow::Result<UpgradeReport> {
        let UpgradeParts { service, running, exports, gate, reloads, manager, .. } = &self.parts;
        let table = exports.snapshot();
        if let Some(export) = table.iter().find(|export| !export.absent && export.backend.heir().is_none()) {
            bail!(
                "the export {} cannot be handed over: its files, or the connection to them, are in this process \
                 alone; restart the server instead",
                export.pseudo_path
            );
        }
        manager.check_succession()?;
        // The next process reads the same file.
        let mut settings = reloads.hold(|| self.ends.load(Acquire))?;
        self.sync_records()?;
        let mut successor = self.start(&path)?;
        let version = successor.prepare(self)?;
        // As the next process does, before clients begin to wait.
        let _memory = ReadyMemory::of(self.size().memory / IMAGE_PART);
        let still = Standstill::begin(service, running, gate, &self.ends, standstill)
            .context("the server does not come to a standstill")?;
        let before = thread_time();
        // The image has no records that wait for the disk, so all of them are written first.
        service.server().engine().write_all_records();
        self.sync_records()?;
        let frozen = still.image(exports, recent)?;
        let lease = service.server().engine().lease();
        successor.restore(&frozen, restore_time(self.size().objects, lease), &self.ends)?;
        if self.ends.load(Acquire) {
            bail!("the server is to end");
        }
        successor.go()?;
        if let Some(starter) = self.parts.starter.clone() {
            settings.leave_to(move || starter.reload());
        }
        let (pause, spent) = (still.pause(), thread_time().saturating_sub(before));
        tracing::info!(
            "handing over the state took {:.1} ms of processor time",
            spent.as_secs_f64() * 1000.0
        );
        still.leave();
        let process = successor.process;
        manager.succeeded_by(process);
        successor.leave();
        let counts = service.server().engine().counts();
        Ok(UpgradeReport {
            from: env!("CARGO_PKG_VERSION").to_owned(),
            to: version,
            program: path.display().to_string(),
            process,
            pause_ms: pause.as_secs_f64() * 1000.0,
            connections: frozen.sockets.len(),
            clients: counts.clients,
            sessions: counts.sessions,
            opens: counts.opens,
            locks: counts.ranges,
            delegations: counts.delegations,
            copies: counts.copies,
            contexts: service.server().rpcsec().map_or(0, |rpcsec| rpcsec.contexts().len()),
        })
    }

    /// Returns how much goes over.
    fn size(&self) -> HandoverSize {
        let server = self.parts.service.server();
        let state::Counts { opens, lock_stateids, ranges, delegations, sessions, .. } =
            server.engine().counts();
        let contexts = server.rpcsec().map_or(0, |rpcsec| rpcsec.contexts().len());
        let connections = self.parts.running.stats().connections.load(Relaxed);
        let (large, small) =
            (opens + delegations + sessions + contexts + connections, lock_stateids + ranges);
        let memory = large.saturating_mul(OBJECT_SIZE).saturating_add(small.saturating_mul(LOCK_SIZE));
        HandoverSize { objects: large + small, memory }
    }

    /// Writes client records that a full disk has kept in memory: the next process reads the file.
    fn sync_records(&self) -> anyhow::Result<()> {
        let synced = self.parts.store.iter().try_for_each(|store| store.sync());
        let folder = self.parts.state_dir.display();
        synced.with_context(|| {
            format!(
                "the client records in {folder} cannot be written, and clients that only this process knows could not \
                 reclaim after a crash; make room there"
            )
        })
    }

    /// Starts the next process.
    fn start(&self, program: &Path) -> anyhow::Result<Successor<'_>> {
        let starter = self.parts.starter.as_deref();
        let starter = starter.context("the log of the start has the reason why no process can be started")?;
        let (channel, input) = HandoverChannel::pair().context("there is no socket for the next process")?;
        let process = starter.start(program, input)?;
        Ok(Successor { starter, channel, process, serves: false })
    }

    fn hello(&self) -> Hello {
        let parts = &self.parts;
        Hello {
            major: handover::MAJOR,
            minor: handover::MINOR,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            began: parts.clock.began(),
            listen: parts.listen,
            metrics: parts.metrics,
            web: parts.web,
            state_dir: parts.state_dir.display().to_string(),
            passed: Some(parts.passed),
            descriptor_table: descriptor_table(),
            memory: Some(self.size().memory as u64),
        }
    }
}

/// The next process. Dropping this ends it, unless it serves.
struct Successor<'s> {
    starter: &'s Starter,
    channel: HandoverChannel,
    process: u32,
    serves: bool,
}

impl Successor<'_> {
    /// Makes it read its configuration; returns the version of its program.
    fn prepare(&self, upgrades: &Upgrades) -> anyhow::Result<String> {
        let until = Instant::now() + PREPARE_TIME_MAX;
        let parts = &upgrades.parts;
        let listener = parts.running.listener()?;
        let input = std::io::stdin();
        let mut fds = vec![listener.as_fd(), parts.lock.as_fd(), input.as_fd()];
        let HttpSockets { metrics, page } = &parts.http_sockets;
        fds.extend([metrics, page].into_iter().flatten().map(AsFd::as_fd));
        self.send(&upgrades.hello(), &fds, until)?;
        let answer = self.receive(&upgrades.ends, until).context("the next process does not get ready")?;
        match answer {
            SuccessorAnswer::Prepared(version) => Ok(version),
            answer => Err(unexpected(answer)),
        }
    }

    /// Receives an answer, unless the server `ends` meanwhile.
    fn receive(&self, ends: &AtomicBool, until: Instant) -> anyhow::Result<SuccessorAnswer> {
        loop {
            if ends.load(Acquire) {
                bail!("the server is to end");
            }
            match self.channel.receive(until.min(Instant::now() + LOOK_INTERVAL)) {
                Ok((answer, _)) => return Ok(answer),
                Err(ChannelError::Silent) if Instant::now() < until => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends it the image, and waits until it has restored everything within `time`, unless the
    /// server `ends`.
    fn restore(&self, frozen: &Frozen, time: Duration, ends: &AtomicBool) -> anyhow::Result<()> {
        let until = Instant::now() + time;
        let (sockets, objects) = (frozen.sockets.len() as u32, frozen.objects.len() as u32);
        let taken = Order::Take(Taken { sockets, objects });
        self.send(&taken, &[frozen.image.as_fd()], until)?;
        for fds in frozen.fds().chunks(FDS_PER_MESSAGE_MAX) {
            self.send(&Order::Descriptors, fds, until)?;
        }
        match self.receive(ends, until).context("the next process does not restore the state")? {
            SuccessorAnswer::Restored => Ok(()),
            answer => Err(unexpected(answer)),
        }
    }

    /// Tells it to serve.
    ///
    /// # Errors
    /// It does not serve, and never will.
    fn go(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + GO_TIME_MAX;
        self.send(&Order::Go, &[], until)?;
        let answer = self.channel.receive(until).or_else(|error| match error {
            // An answer that is on its way arrives now, or never.
            ChannelError::Silent => {
                self.channel.close();
                self.channel.receive(Instant::now()).map_err(|_| ChannelError::Silent)
            }
            error => Err(error),
        });
        match answer.context("the next process does not begin to serve")? {
            (SuccessorAnswer::Serving, _) => {
                self.serves = true;
                Ok(())
            }
            (answer, _) => Err(unexpected(answer)),
        }
    }

    fn send(
        &self,
        message: &impl minicbor::Encode<()>,
        fds: &[BorrowedFd<'_>],
        until: Instant,
    ) -> anyhow::Result<()> {
        match self.channel.send(message, fds, until) {
            Ok(()) => Ok(()),
            // It may have said why it ends.
            Err(ChannelError::Closed) => match self.channel.receive(Instant::now()) {
                Ok((answer @ SuccessorAnswer::Refused(_), _)) => Err(unexpected(answer)),
                _ => Err(ChannelError::Closed).context("the next process"),
            },
            Err(error) => Err(error).context("the next process"),
        }
    }

    /// Waits until administrators reach it, and lets it run on its own.
    fn leave(self) {
        let _ = self.channel.receive::<SuccessorAnswer>(Instant::now() + LISTEN_TIME_MAX);
    }
}

impl Drop for Successor<'_> {
    fn drop(&mut self) {
        if !self.serves {
            self.channel.close();
            self.starter.end();
        }
    }
}

fn is_missing(error: &anyhow::Error) -> bool {
    let cause = error.root_cause().downcast_ref::<std::io::Error>();
    cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::NotFound)
}

fn unexpected(answer: SuccessorAnswer) -> anyhow::Error {
    match answer {
        SuccessorAnswer::Refused(why) => anyhow::anyhow!("the next process: {why}"),
        answer => anyhow::anyhow!("the next process answers out of order: {answer:?}"),
    }
}
