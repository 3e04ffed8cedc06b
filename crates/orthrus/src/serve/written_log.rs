//! A log that tests read.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::Subscriber;

/// The lines that were logged while its subscriber was in use.
#[derive(Clone, Default)]
pub(super) struct WrittenLog(Arc<Mutex<Vec<u8>>>);

impl WrittenLog {
    /// Returns a subscriber that writes here.
    pub(super) fn subscriber(&self) -> impl Subscriber + Send + Sync + use<> {
        let writer = self.clone();
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish()
    }

    /// Returns the lines that were logged until now.
    pub(super) fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for WrittenLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
