//! Bindings of libgssapi_krb5 and libkrb5, and owners of the objects that it allocates.
//!
//! `raw` has the declarations. In the other files each C object has one Rust owner that frees it,
//! and no pointer leaves this module. All exported functions are safe to call.
#![allow(unsafe_code, reason = "C functions of MIT's library")]

mod context;
mod credential;
mod lucid;
mod name;
mod raw;
mod status;

use std::ffi::OsStr;

pub(crate) use context::{Advance, Initiation, accept};
pub(crate) use credential::{Cred, Store, Usage, remove_cache};
pub(crate) use name::GssName;

use crate::error::ConfigurationError;

/// Sets an environment variable if the process has only one thread.
pub(crate) fn set_only_thread_environment(name: &str, value: &OsStr) -> Result<(), ConfigurationError> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(ConfigurationError::Threads(threads));
    }
    // SAFETY: no other thread exists that could access the environment at the same time.
    unsafe { std::env::set_var(name, value) };
    Ok(())
}
