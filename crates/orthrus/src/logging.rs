//! Logging to standard error, one line an event.
//!
//! The server queues its lines for a thread of its own. A reader that stops reading, for example a
//! stuck log collector behind a pipe, therefore costs lines, never a shard. Other commands write
//! their lines at once: some of them must not have threads yet when they choose a krb5.conf.

use anyhow::Context;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tracing_subscriber::EnvFilter;

/// Number of lines that wait for standard error; further ones are dropped and counted.
const QUEUED_LINES_MAX: usize = 4096;
/// How long the end of the process waits for the queued lines.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// The queue, once a thread writes its lines.
static QUEUE: OnceLock<SyncSender<LogMessage>> = OnceLock::new();
static DROPPED: AtomicU64 = AtomicU64::new(0);

enum LogMessage {
    Line(Vec<u8>),
    /// Answers when the lines before it are written.
    Flush(SyncSender<()>),
}

/// Starts logging with a filter as RUST_LOG takes it.
///
/// # Errors
/// Quotes the part of the filter that is wrong.
pub(crate) fn start(filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).with_context(|| {
        format!("--log {filter:?}: allowed are error, warn, info, debug, trace, or module=level,…")
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| LogWriter)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .init();
    Ok(())
}

/// Starts the thread that writes queued lines.
///
/// # Errors
/// An I/O error if the system gives no thread.
pub(crate) fn start_queue() -> io::Result<()> {
    let (queue, lines) = sync_channel(QUEUED_LINES_MAX);
    std::thread::Builder::new().name("log".into()).spawn(move || write_lines(&lines))?;
    let _ = QUEUE.set(queue);
    Ok(())
}

/// Waits until the queued lines are written, at most [`FLUSH_TIME_MAX`].
pub(crate) fn flush() {
    let (done, written) = sync_channel(1);
    if QUEUE.get().is_some_and(|queue| queue.try_send(LogMessage::Flush(done)).is_ok()) {
        let _ = written.recv_timeout(FLUSH_TIME_MAX);
    }
}

/// Returns the number of lines that were dropped because standard error was not read.
pub(crate) fn dropped_lines() -> u64 {
    DROPPED.load(Relaxed)
}

/// Writes lines until logging ends, and reports the dropped ones.
fn write_lines(messages: &Receiver<LogMessage>) {
    let mut reported = 0;
    for message in messages {
        // A log that cannot be written has no better place to complain.
        match message {
            LogMessage::Line(line) => drop(io::stderr().write_all(&line)),
            LogMessage::Flush(done) => drop(done.try_send(())),
        }
        let dropped = dropped_lines();
        if dropped > reported {
            let text = format!("{} lines of the log were dropped: nothing read them\n", dropped - reported);
            let _ = io::stderr().write_all(text.as_bytes());
            reported = dropped;
        }
    }
}

/// Queues each event, or writes it where no queue exists; `tracing_subscriber` writes an event at
/// once.
struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match QUEUE.get() {
            Some(queue) if queue.try_send(LogMessage::Line(line.to_vec())).is_err() => {
                DROPPED.fetch_add(1, Relaxed);
            }
            Some(_) => {}
            None => io::stderr().write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
