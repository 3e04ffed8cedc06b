//! Logging to standard error, one line an event.
//!
//! The server queues its lines for a thread of its own. A reader that stops reading, for example a
//! stuck log collector behind a pipe, therefore costs lines, never a shard. Other commands write
//! their lines at once: some of them must not have threads yet when they choose a krb5.conf.

mod format;
mod queue;

pub(crate) use format::LogFormat;
pub(crate) use queue::{dropped_lines, flush, start_queue};

use anyhow::Context;
use format::JournalLines;
use queue::LogWriter;
use std::io::{self, IsTerminal};
use tracing_subscriber::EnvFilter;

/// Starts logging with a filter as RUST_LOG takes it.
///
/// # Errors
/// Quotes the part of the filter that is wrong.
pub(crate) fn start(filter: &str, format: LogFormat) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).with_context(|| {
        format!("--log {filter:?}: allowed are error, warn, info, debug, trace, or module=level,…")
    })?;
    let format = format.resolved();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| LogWriter)
        .with_ansi(format == LogFormat::Text && io::stderr().is_terminal())
        .with_target(false);
    match format {
        LogFormat::Json => lines.json().flatten_event(true).init(),
        LogFormat::Journal => lines.event_format(JournalLines).init(),
        LogFormat::Auto | LogFormat::Text => lines.init(),
    }
    Ok(())
}
