//! The bridge itself: declarations of libgssapi_krb5 and owners of what it allocates.
//!
//! `raw` declares, the other files own: each C object has one Rust owner that frees it, and no
//! pointer leaves this module. Everything exported from here is safe to call.
#![allow(unsafe_code)]

mod context;
mod credential;
mod lucid;
mod name;
mod raw;
mod status;

use std::ffi::OsStr;

pub use context::{Advance, Initiation, accept};
pub use credential::{Cred, Store, Usage};
pub use name::Name;

use crate::configuration::ConfigurationError;

/// Sets an environment variable if this is the process's only thread.
pub fn set_only_thread_environment(name: &str, value: &OsStr) -> Result<(), ConfigurationError> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(ConfigurationError::Threads(threads));
    }
    // SAFETY: no other thread exists that could read or write the environment meanwhile.
    unsafe { std::env::set_var(name, value) };
    Ok(())
}
