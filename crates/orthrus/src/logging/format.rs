//! The formats of the log's lines.

use rustix::fs::fstat;
use std::fmt;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::registry::LookupSpan;

/// The form of a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// `journal` if systemd's journal reads standard error, else `text`.
    Auto,
    /// Time, level, message and fields.
    Text,
    /// One JSON object with the fields of the event, its level and its time.
    Json,
    /// As text, with a priority for systemd's journal in place of time and level, see sd-daemon(3).
    Journal,
    /// Entries of systemd's journal by its own socket, with a field `ORTHRUS_…` for each of the
    /// event.
    Journald,
}

impl LogFormat {
    /// Chooses the format if it is `Auto`.
    pub(super) fn resolved(self) -> Self {
        match self {
            Self::Auto if journal_reads_stderr(std::env::var("JOURNAL_STREAM").ok().as_deref()) => {
                Self::Journal
            }
            Self::Auto => Self::Text,
            chosen => chosen,
        }
    }
}

/// Returns whether standard error is the stream that systemd names by device and inode, see
/// systemd.exec(5). The variable is inherited, so the stream may be another one by now.
fn journal_reads_stderr(stream: Option<&str>) -> bool {
    let Some((device, inode)) = stream.and_then(|stream| stream.split_once(':')) else { return false };
    let Ok(own) = fstat(std::io::stderr()) else { return false };
    device.parse() == Ok(own.st_dev) && inode.parse() == Ok(own.st_ino)
}

/// Lines with a priority for systemd's journal, which knows the time.
pub(super) struct JournalLines;

impl<S, N> FormatEvent<S, N> for JournalLines
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Returns the current time as RFC 3339 writes it.
pub(crate) fn timestamp() -> String {
    let mut text = String::new();
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}

/// Returns the priority of syslog(3).
pub(super) fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_is_recognised_by_its_stream_alone() {
        let own = fstat(std::io::stderr()).expect("it is open");
        assert!(journal_reads_stderr(Some(&format!("{}:{}", own.st_dev, own.st_ino))));
        assert!(!journal_reads_stderr(Some(&format!("{}:{}", own.st_dev, own.st_ino + 1))));
        for other in [None, Some(""), Some("8"), Some("8:"), Some("-1:x")] {
            assert!(!journal_reads_stderr(other), "{other:?}");
        }
    }
}
