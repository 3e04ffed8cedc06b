//! Events as entries of systemd's journal, with their fields.

use super::format::priority;
use super::queue::add;
use crate::journal::entry;
use std::fmt::{self, Write};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The name of the log in the journal.
const IDENTIFIER: &str = "orthrus";

/// Queues each event as an entry.
pub(super) struct JournalEntries;

impl<S: Subscriber> Layer<S> for JournalEntries {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        // The journal cannot complain to itself.
        let _ = add(&entry_of(priority(*metadata.level()), metadata.target(), |fields| event.record(fields)));
    }
}

/// Returns an entry with a message alone.
pub(super) fn entry_with(message: &str) -> Vec<u8> {
    let priority = priority(tracing::Level::WARN);
    entry_of(priority, module_path!(), |fields| fields.message.push_str(message))
}

fn entry_of(priority: u8, target: &str, record: impl FnOnce(&mut EventFields)) -> Vec<u8> {
    let mut event = EventFields::default();
    record(&mut event);
    // Most readers see the message alone, so it has the fields, too.
    let message = event.message + &event.text;
    let priority = priority.to_string();
    let own = [
        ("MESSAGE", message.as_str()),
        ("PRIORITY", &priority),
        ("SYSLOG_IDENTIFIER", IDENTIFIER),
        ("ORTHRUS_TARGET", target),
    ];
    let fields = event.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    entry(own.into_iter().chain(fields))
}

/// The message of an event, and its fields by their names in the journal.
#[derive(Default)]
struct EventFields {
    message: String,
    /// The fields as the text of a line.
    text: String,
    fields: Vec<(String, String)>,
}

impl EventFields {
    fn add(&mut self, field: &Field, quoted: fmt::Arguments<'_>, value: String) {
        if field.name() == "message" {
            self.message = value;
            return;
        }
        let _ = write!(self.text, " {}={quoted}", field.name());
        self.fields.push((journal_name(field.name()), value));
    }
}

impl Visit for EventFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value:?}"), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        self.add(field, format_args!("{text}"), text.clone());
    }
}

/// Returns the name of a field in the journal: capitals, digits and underscores.
fn journal_name(name: &str) -> String {
    let allowed = |letter: char| match letter.to_ascii_uppercase() {
        letter @ ('A'..='Z' | '0'..='9') => letter,
        _ => '_',
    };
    ["ORTHRUS_"].into_iter().flat_map(str::chars).chain(name.chars().map(allowed)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::JournalSocket;
    use crate::logging::queue;
    use std::os::unix::net::UnixDatagram;
    use tracing_subscriber::layer::SubscriberExt;

    /// Reads the fields of an entry, see systemd's "Native Journal Protocol".
    fn fields(mut entry: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        while let Some(end) = entry.iter().position(|byte| *byte == b'\n') {
            let (name, rest) = (&entry[..end], &entry[end + 1..]);
            let (length, rest) = rest.split_first_chunk().expect("a length");
            let (value, rest) = rest.split_at(u64::from_le_bytes(*length) as usize);
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("it is text");
            fields.push((text(name), text(value)));
            entry = &rest[1..];
        }
        fields
    }

    #[test]
    fn an_event_is_an_entry_with_its_priority_and_its_fields() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let reader = UnixDatagram::bind(&path).expect("it is free");
        queue::send_to(JournalSocket::open_at(&path).expect("it is there"));
        let subscriber = tracing_subscriber::registry().with(JournalEntries);
        tracing::subscriber::with_default(subscriber, || {
            let (user, peer) = ("a\nPRIORITY=0", std::net::Ipv4Addr::LOCALHOST);
            tracing::warn!(%peer, user, suppressed = 3, "refused by {}", "`sec`");
        });
        let mut entry = [0; 1000];
        let length = reader.recv(&mut entry).expect("an entry");
        let found = fields(&entry[..length]);
        let message = r#"refused by `sec` peer=127.0.0.1 user="a\nPRIORITY=0" suppressed=3"#;
        for (name, value) in [
            ("MESSAGE", message),
            ("PRIORITY", "4"),
            ("SYSLOG_IDENTIFIER", "orthrus"),
            ("ORTHRUS_TARGET", module_path!()),
            ("ORTHRUS_PEER", "127.0.0.1"),
            ("ORTHRUS_USER", "a\nPRIORITY=0"),
            ("ORTHRUS_SUPPRESSED", "3"),
        ] {
            assert!(found.contains(&(name.to_owned(), value.to_owned())), "{name} in {found:?}");
        }
        assert_eq!(found.len(), 7, "{found:?}");
        assert_eq!(journal_name("a.b-c9"), "ORTHRUS_A_B_C9");
    }
}
