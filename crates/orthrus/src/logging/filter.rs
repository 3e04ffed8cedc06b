//! The choice of the lines that are logged, which a reload can change.

use serde::{Deserialize, Deserializer};
use std::str::FromStr;
use std::sync::OnceLock;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::reload::Handle;
use tracing_subscriber::{EnvFilter, Registry};

/// The filter of a process that nobody gave another.
const DEFAULT_FILTER: &str = "info";

/// The modules that log: crates of the program, and the library for LDAP.
const MODULES: [&str; 7] = [
    "orthrus",
    "orthrus_grants",
    "orthrus_net",
    "orthrus_runtime",
    "orthrus_server",
    "orthrus_vfs_ceph",
    "ldap3",
];

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
        let directives = || text.split(',').map(str::trim).filter(|directive| !directive.is_empty());
        // An empty filter would log errors only, by surprise.
        if EnvFilter::try_new(text).is_err() || text.trim().is_empty() || !directives().all(says_level) {
            return Err(format!(
                "{text:?} is no filter; allowed are error, warn, info, debug, trace, or module=level,…"
            ));
        }
        match directives().filter_map(module).find(|module| !MODULES.contains(module)) {
            // It would select nothing.
            Some(unknown) => Err(format!("there is no module {unknown:?}; there are {}", MODULES.join(", "))),
            None => Ok(Self(text.to_owned())),
        }
    }
}

/// Returns the crate that a directive such as `orthrus_net::shard=debug` is for.
fn module(directive: &str) -> Option<&str> {
    let (target, _) = directive.split_once('=')?;
    target.split(['[', ':']).next().filter(|module| !module.is_empty())
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
        for good in ["info", "WARN", "off", "warn,orthrus_net=debug", "orthrus_net::shard[call]=trace, info,"]
        {
            assert!(good.parse::<LogFilter>().is_ok(), "{good}");
        }
        for wrong in ["infoo", "inof", "net", "info,net", "", " ", "orthrus_net=loud"] {
            let error = wrong.parse::<LogFilter>().expect_err(wrong);
            assert!(error.contains("error, warn, info, debug, trace"), "{error}");
        }
    }

    #[test]
    fn a_module_that_does_not_log_is_named_with_those_that_do() {
        for wrong in ["info,net=debug", "orthrus_state=debug", "server[call]=debug"] {
            let error = wrong.parse::<LogFilter>().expect_err(wrong);
            assert!(error.contains("there is no module") && error.contains("orthrus_net"), "{error}");
        }
    }

    #[test]
    fn the_modules_are_the_crates_that_log() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut logging = vec!["ldap3".to_owned()];
        for entry in std::fs::read_dir(crates).expect("it is there") {
            let manifest = entry.expect("it is there").path().join("Cargo.toml");
            let Ok(text) = std::fs::read_to_string(manifest) else { continue };
            let name = text.lines().find_map(|line| line.strip_prefix("name = ")).expect("a name");
            if text.contains("\ntracing.workspace") {
                logging.push(name.trim_matches('"').replace('-', "_"));
            }
        }
        logging.sort();
        let mut modules = MODULES.to_vec();
        modules.sort_unstable();
        assert_eq!(logging, modules);
    }
}
