//! The current activity of each shard, for the watchdog.

use rpc::ConnectionId;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

/// The steps of a shard between two waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Takes its mail, and closes ended connections.
    Keeping,
    /// Reads from a connection.
    Reading,
    /// Runs the service on a batch.
    Serving,
    /// Sends to a connection.
    Sending,
}

impl Step {
    const ALL: [Self; 4] = [Self::Keeping, Self::Reading, Self::Serving, Self::Sending];

    fn name(self) -> &'static str {
        match self {
            Self::Keeping => "maintaining connections",
            Self::Reading => "reading",
            Self::Serving => "serving",
            Self::Sending => "sending",
        }
    }
}

/// The activity of one shard. The shard writes it, and the watchdog reads it.
#[derive(Debug)]
pub(crate) struct Activity {
    start: Instant,
    /// Milliseconds from `start` until the shard woke, plus one; 0 while it waits.
    woke: AtomicU64,
    step: AtomicU8,
    connection: AtomicU64,
    operation: Arc<AtomicU32>,
    ended: AtomicBool,
}

/// The activity of a busy shard at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BusyShard {
    /// When the shard woke; identifies a loop that takes a millisecond or more.
    pub(crate) woke: u64,
    /// Time since the shard last waited.
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

    /// Returns the cell in which the service stores the number of its running operation; 0 for
    /// none.
    pub(crate) fn operation(&self) -> &Arc<AtomicU32> {
        &self.operation
    }

    /// Records that the shard has stopped waiting.
    pub(crate) fn wake(&self) {
        self.step(Step::Keeping, 0);
        self.woke.store(self.milliseconds(), Relaxed);
    }

    /// Records that the shard waits.
    pub(crate) fn rest(&self) {
        self.woke.store(0, Relaxed);
    }

    /// Records a step of the shard and its connection, 0 for none.
    pub(crate) fn step(&self, step: Step, connection: u64) {
        self.step.store(step as u8, Relaxed);
        self.connection.store(connection, Relaxed);
    }

    /// Records that the shard's thread has ended.
    pub(crate) fn end(&self) {
        self.rest();
        self.ended.store(true, Relaxed);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Returns the activity of the shard, or `None` while it waits.
    pub(crate) fn busy(&self) -> Option<BusyShard> {
        let woke = self.woke.load(Relaxed);
        let step = Step::ALL.get(usize::from(self.step.load(Relaxed))).map_or("", |step| step.name());
        (woke > 0).then(|| BusyShard {
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

impl BusyShard {
    pub(crate) fn connection(&self) -> ConnectionId {
        ConnectionId(self.connection)
    }
}
