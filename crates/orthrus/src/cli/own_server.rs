//! This program as a server, in a process of its own.

use anyhow::Context;
use bench::ServerProcess;
use std::ffi::OsString;

/// Starts this program as a server with these arguments and waits until it serves.
///
/// # Errors
/// When it ends instead; it has said why on standard error.
pub fn start(arguments: Vec<OsString>, environment: &[(&str, OsString)]) -> anyhow::Result<ServerProcess> {
    let program = std::env::current_exe().context("this program cannot find itself")?;
    ServerProcess::start(&program, arguments, environment)
}
