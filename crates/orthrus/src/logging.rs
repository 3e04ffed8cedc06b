//! Logging to standard error, one line an event.

use anyhow::Context;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

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
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    Ok(())
}
