//! The configuration file of the Kerberos library, set for the whole process.

use std::path::Path;

use crate::error::ConfigurationError;
use crate::ffi::set_only_thread_environment;

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
    set_only_thread_environment("KRB5_CONFIG", krb5_conf.as_os_str())
}
