//! The queue of lines for standard error or the journal, and the thread that writes them.

use super::FORMAT;
use super::entries::entry_with;
use super::format::{LogFormat, priority, timestamp};
use crate::journal::JournalSocket;
use serde_json::json;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tracing::Level;

/// Number of lines that wait for standard error or the journal; further ones are dropped and
/// counted.
const QUEUED_LINES_MAX: usize = 4096;
/// How long the end of the process waits for the queued lines.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// The queue, once a thread writes its lines.
static QUEUE: OnceLock<SyncSender<LogMessage>> = OnceLock::new();
static DROPPED: AtomicU64 = AtomicU64::new(0);
/// The journal that takes the place of standard error, if one does.
static JOURNAL: OnceLock<JournalSocket> = OnceLock::new();

enum LogMessage {
    Line(Vec<u8>),
    /// Answers when the lines before it are written.
    Flush(SyncSender<()>),
}

/// Sends lines, which must be entries, to a journal.
pub(super) fn send_to(journal: JournalSocket) {
    let _ = JOURNAL.set(journal);
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

/// Queues a line, or writes it where no queue exists.
///
/// # Errors
/// An error of standard error or the journal, without a queue.
pub(super) fn add(line: &[u8]) -> io::Result<()> {
    match QUEUE.get() {
        Some(queue) if queue.try_send(LogMessage::Line(line.to_vec())).is_err() => {
            DROPPED.fetch_add(1, Relaxed);
        }
        Some(_) => {}
        None => write_now(line)?,
    }
    Ok(())
}

/// Writes a line, and waits while its reader is behind.
fn write_now(line: &[u8]) -> io::Result<()> {
    match JOURNAL.get() {
        Some(journal) => journal.send(line),
        None => io::stderr().write_all(line),
    }
}

/// Writes lines until logging ends, and reports the dropped ones.
fn write_lines(messages: &Receiver<LogMessage>) {
    let mut reported = 0;
    for message in messages {
        match message {
            LogMessage::Line(line) => {
                if write_now(&line).is_err() {
                    DROPPED.fetch_add(1, Relaxed);
                }
            }
            LogMessage::Flush(done) => drop(done.try_send(())),
        }
        let dropped = dropped_lines();
        if dropped > reported {
            let text = format!("{} lines of the log were dropped: nothing read them", dropped - reported);
            let report = warning(FORMAT.get().copied().unwrap_or(LogFormat::Text), &text);
            // A log that cannot be written has no better place to complain.
            if write_now(&report).is_ok() {
                reported = dropped;
            }
        }
    }
}

/// Returns a warning as the format has it, without `tracing`, which would queue it.
fn warning(format: LogFormat, text: &str) -> Vec<u8> {
    let line = match format {
        LogFormat::Journald => return entry_with(text),
        LogFormat::Journal => format!("<{}>{text}", priority(Level::WARN)),
        LogFormat::Json => json!({"timestamp": timestamp(), "level": "WARN", "message": text}).to_string(),
        LogFormat::Auto | LogFormat::Text => format!("{}  WARN {text}", timestamp()),
    };
    (line + "\n").into_bytes()
}

/// Queues each event, or writes it where no queue exists; `tracing_subscriber` writes an event at
/// once.
pub(super) struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        add(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_about_dropped_lines_has_the_format_of_the_others() {
        let line = |format| String::from_utf8(warning(format, "7 lines")).unwrap();
        let object: serde_json::Value = serde_json::from_str(&line(LogFormat::Json)).unwrap();
        assert_eq!((&object["level"], &object["message"]), (&"WARN".into(), &"7 lines".into()));
        assert!(object["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{object}");
        assert_eq!(line(LogFormat::Journal), "<4>7 lines\n");
        let text = line(LogFormat::Text);
        assert!(text.ends_with("Z  WARN 7 lines\n"), "{text}");
    }
}
