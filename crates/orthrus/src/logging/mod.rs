//! Logging to standard error, one line an event, or to systemd's journal, one entry an event.
//!
//! The server queues its lines for a thread of its own. A reader that stops reading, for example a
//! stuck log collector behind a pipe, therefore costs lines, never a shard. Other commands write
//! their lines at once: some of them must not have threads yet when they choose a krb5.conf.

mod entries;
mod filter;
mod format;
mod queue;

pub(crate) use filter::{LogFilter, set_filter};
pub(crate) use format::{LogFormat, timestamp};
pub(crate) use queue::{dropped_lines, flush, start_queue};

use crate::journal::JournalSocket;
use crate::output::errln;
use anyhow::Context;
use entries::JournalEntries;
use format::JournalLines;
use queue::LogWriter;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use tracing::Level;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, reload};

/// The format of this process, once logging has started.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Writes the error that ends the program: as text, or as a line of the log where a program reads
/// standard error.
pub(crate) fn write_end(error: &anyhow::Error) {
    match FORMAT.get() {
        Some(LogFormat::Json | LogFormat::Journal | LogFormat::Journald)
            if tracing::enabled!(Level::ERROR) =>
        {
            tracing::error!("{}", with_causes(error));
            flush();
        }
        // Servers and directories choose parts of many messages.
        _ => errln!("orthrus: {}", terminal::escape_lines(&with_causes(error))),
    }
}

/// Returns an error with its causes. Some errors already name theirs.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            text += if text.is_empty() { "" } else { ": " };
            text += &cause;
        }
    }
    text
}

/// Starts logging: the lines of a filter, which the settings of a server can choose without one.
///
/// # Errors
/// The format needs the journal, and there is none.
pub(crate) fn start(chosen: Option<&LogFilter>, format: LogFormat) -> anyhow::Result<()> {
    let (filter, handle) = reload::Layer::new(chosen.cloned().unwrap_or_default().filter());
    filter::remember(handle, chosen.is_some());
    let format = format.resolved();
    let _ = FORMAT.set(format);
    let lines = fmt::layer()
        .with_writer(|| LogWriter)
        .with_ansi(format == LogFormat::Text && io::stderr().is_terminal())
        .with_target(false);
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).init(),
        LogFormat::Journal => registry.with(lines.event_format(JournalLines)).init(),
        LogFormat::Journald => {
            queue::send_to(
                JournalSocket::open().context("--log-format journald: there is no journal of systemd")?,
            );
            registry.with(JournalEntries).init();
        }
        LogFormat::Auto | LogFormat::Text => registry.with(lines).init(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_an_error_names_itself_is_not_repeated() {
        let full = || anyhow::anyhow!("no room");
        assert_eq!(
            with_causes(&full().context("/a: no room").context("the realm")),
            "the realm: /a: no room"
        );
        assert_eq!(with_causes(&full().context("/a")), "/a: no room");
    }
}
