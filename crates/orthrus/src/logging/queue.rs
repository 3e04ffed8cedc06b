//! The queue of lines for standard error, and the thread that writes them.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

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
pub(super) struct LogWriter;

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
