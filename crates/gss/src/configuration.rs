//! The configuration file of the Kerberos library, set for the whole process.

use std::path::Path;

/// The reason why the configuration could not be set.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The environment may only change while no other thread can read it.
    #[error("krb5.conf must be chosen before the program starts threads: {0} run already")]
    Threads(usize),
    /// `/proc` is not mounted, so the threads cannot be counted.
    #[error("cannot count this process's threads in /proc/self/task: {0}")]
    Proc(#[from] std::io::Error),
}

/// Makes the Kerberos library of this process, and of its children, use `krb5_conf`.
///
/// MIT's GSS-API reads the path of its configuration only from `KRB5_CONFIG`. A program that has
/// its own file calls this first in `main`.
///
/// # Errors
/// [`ConfigurationError::Threads`] if the process has more than one thread: changing the
/// environment would race with reads of it. [`ConfigurationError::Proc`] if the threads cannot be
/// counted.
pub fn use_configuration(krb5_conf: &Path) -> Result<(), ConfigurationError> {
    crate::ffi::set_only_thread_environment("KRB5_CONFIG", krb5_conf.as_os_str())
}
