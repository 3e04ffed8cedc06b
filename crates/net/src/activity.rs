//! What each shard is doing, for the watchdog.

use rpc::ConnectionId;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

/// What a shard does between two waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Looks after its mailbox, and closes connections.
    Keeping,
    /// Reads from a connection.
    Reading,
    /// Has the service handle requests.
    Serving,
    /// Sends to a connection.
    Sending,
}

impl Step {
    const ALL: [Self; 4] = [Self::Keeping, Self::Reading, Self::Serving, Self::Sending];

    fn name(self) -> &'static str {
        match self {
            Self::Keeping => "looking after connections",
            Self::Reading => "reading",
            Self::Serving => "serving",
            Self::Sending => "sending",
        }
    }
}

/// What one shard is doing now; the shard writes it, and the watchdog reads it.
#[derive(Debug)]
pub(crate) struct Activity {
    start: Instant,
    /// Milliseconds from `start` to when the shard woke, and one more; 0 while it waits.
    woke: AtomicU64,
    step: AtomicU8,
    connection: AtomicU64,
    operation: Arc<AtomicU32>,
    ended: AtomicBool,
}

/// What the watchdog sees of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// When the shard woke; different for each of its loops that is long enough to matter.
    pub(crate) woke: u64,
    /// For how long it has not waited.
    pub(crate) busy: Duration,
    pub(crate) step: &'static str,
    pub(crate) connection: u64,
    pub(crate) operation: u32,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            woke: AtomicU64::new(0),
            step: AtomicU8::new(0),
            connection: AtomicU64::new(0),
            operation: Arc::default(),
            ended: AtomicBool::new(false),
        }
    }

    /// Where the service writes which operation it carries out; 0 for none.
    pub(crate) fn operation(&self) -> &Arc<AtomicU32> {
        &self.operation
    }

    /// The shard has something to do.
    pub(crate) fn wake(&self) {
        self.step(Step::Keeping, 0);
        self.woke.store(self.milliseconds(), Relaxed);
    }

    /// The shard waits.
    pub(crate) fn rest(&self) {
        self.woke.store(0, Relaxed);
    }

    /// The shard does something for a connection.
    pub(crate) fn step(&self, step: Step, connection: u64) {
        self.step.store(step as u8, Relaxed);
        self.connection.store(connection, Relaxed);
    }

    /// The shard's thread is over.
    pub(crate) fn end(&self) {
        self.rest();
        self.ended.store(true, Relaxed);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// What the shard does, if it does not wait.
    pub(crate) fn look(&self) -> Option<Seen> {
        let woke = self.woke.load(Relaxed);
        let step = Step::ALL.get(usize::from(self.step.load(Relaxed))).map_or("", |step| step.name());
        (woke > 0).then(|| Seen {
            woke,
            busy: Duration::from_millis(self.milliseconds().saturating_sub(woke)),
            step,
            connection: self.connection.load(Relaxed),
            operation: self.operation.load(Relaxed),
        })
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }
}

impl Seen {
    pub(crate) fn connection(&self) -> ConnectionId {
        ConnectionId(self.connection)
    }
}
