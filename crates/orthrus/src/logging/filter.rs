//! The choice of the lines that are logged, which a reload can change.

use serde::{Deserialize, Deserializer};
use std::str::FromStr;
use std::sync::OnceLock;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::reload::Handle;
use tracing_subscriber::{EnvFilter, Registry};

/// The filter of a process that nobody gave another.
const DEFAULT_FILTER: &str = "info";

/// The filter in force, and whether the command line chose it.
static CURRENT: OnceLock<(Handle<EnvFilter, Registry>, bool)> = OnceLock::new();

/// A filter as RUST_LOG takes it: a level, or levels of modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogFilter(String);

impl LogFilter {
    /// Makes the filter of the choice.
    pub(super) fn filter(&self) -> EnvFilter {
        EnvFilter::new(&self.0)
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        Self(DEFAULT_FILTER.to_owned())
    }
}

impl FromStr for LogFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A word that is no level would be a module, and the log would lack all others.
        let says_level =
            |directive: &str| directive.contains('=') || directive.parse::<LevelFilter>().is_ok();
        let mut directives = text.split(',').map(str::trim).filter(|directive| !directive.is_empty());
        match EnvFilter::try_new(text) {
            // An empty filter would log errors only, by surprise.
            Ok(_) if !text.trim().is_empty() && directives.all(says_level) => Ok(Self(text.to_owned())),
            _ => Err(format!(
                "{text:?} is no filter; allowed are error, warn, info, debug, trace, or module=level,…"
            )),
        }
    }
}

impl<'de> Deserialize<'de> for LogFilter {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Remembers the filter of this process; `fixed` if settings must not replace it.
pub(super) fn remember(handle: Handle<EnvFilter, Registry>, fixed: bool) {
    let _ = CURRENT.set((handle, fixed));
}

/// Logs the lines of a filter from now on, unless the command line chose others.
pub(crate) fn set_filter(choice: &LogFilter) {
    if let Some((handle, false)) = CURRENT.get() {
        // It fails only without a logger.
        let _ = handle.reload(choice.filter());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_no_filter() {
        for good in ["info", "WARN", "off", "warn,net=debug", "net[call]=trace, info,"] {
            assert!(good.parse::<LogFilter>().is_ok(), "{good}");
        }
        for wrong in ["infoo", "inof", "net", "info,net", "", " ", "net=loud"] {
            let error = wrong.parse::<LogFilter>().expect_err(wrong);
            assert!(error.contains("error, warn, info, debug, trace"), "{error}");
        }
    }
}
