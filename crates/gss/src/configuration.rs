//! The library's configuration file, chosen for the whole process.

use std::path::Path;

/// Why the configuration could not be chosen.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The environment may only change while nobody else can read it.
    #[error("krb5.conf must be chosen before the program starts threads: {0} run already")]
    Threads(usize),
    /// `/proc` is not there to count them.
    #[error("cannot count this process's threads in /proc/self/task: {0}")]
    Proc(#[from] std::io::Error),
}

/// Makes the Kerberos library of this process, and of its children, use `krb5_conf`.
///
/// MIT's GSS-API takes its configuration from `KRB5_CONFIG` and from nowhere else. A program that
/// knows the file calls this first thing in `main`.
///
/// # Errors
/// When the process has more than one thread: changing the environment would race with their
/// reading it.
pub fn use_configuration(krb5_conf: &Path) -> Result<(), ConfigurationError> {
    crate::ffi::set_only_thread_environment("KRB5_CONFIG", krb5_conf.as_os_str())
}
