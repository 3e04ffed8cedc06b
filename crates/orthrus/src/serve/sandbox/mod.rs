//! The sandbox of the server: the process gives up what serving does not need, also without a
//! service manager.
//!
//! A program that takes over the process by a defect finds no programs to execute, no new
//! privileges, no memory that is both writable and executable, and about half of the system calls.
//! The rights on files are not reduced here: a reload may add an export anywhere, and Landlock
//! denies every access to a file without a path, which is what a filehandle opens after a restart.
//! The kernel's permissions and the mounts of the service's unit bound them.

mod network;
mod system_calls;

use crate::config::{Sandbox, Settings};
use anyhow::Context;
use network::NetworkLimits;
use std::fmt;

/// The parts of the sandbox that the kernel has taken.
#[derive(Debug)]
pub(super) struct InForce {
    /// Whether the settings ask for it.
    on: bool,
    writable_code: bool,
    network: Option<NetworkLimits>,
}

/// Enters the sandbox: it holds for this thread and all that it starts, until their end.
///
/// Called after the addresses were bound, and before other threads exist. With `abstract_sockets`
/// the process may use those of others, as some service managers want.
///
/// # Errors
/// The kernel has no filter for system calls; names the remedy.
pub(super) fn enter(settings: &Settings, abstract_sockets: bool) -> anyhow::Result<InForce> {
    if settings.sandbox == Sandbox::Off {
        return Ok(InForce { on: false, writable_code: false, network: None });
    }
    vfs_local::drop_binding();
    let writable_code = vfs_local::deny_writable_code();
    // The filter of system calls comes last, since it denies further steps.
    let network = network::restrict(settings, abstract_sockets);
    system_calls::restrict()
        .context("the system calls cannot be restricted; sandbox = \"off\" starts without the sandbox")?;
    Ok(InForce { on: true, writable_code, network })
}

/// Returns the ports of directories in new settings that a process with the settings of its start
/// cannot reach.
pub(super) fn out_of_reach(start: &Settings, settings: &Settings) -> Vec<u16> {
    if start.sandbox == Sandbox::Off {
        return Vec::new();
    }
    let before = network::reachable(start);
    network::reachable(settings).into_iter().filter(|port| !before.contains(port)).collect()
}

impl InForce {
    /// Logs what is in force.
    pub(super) fn log(&self) {
        match self.on {
            true => tracing::info!("{self}"),
            false => tracing::warn!("{self}"),
        }
    }
}

impl fmt::Display for InForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.on {
            return f.write_str(
                "sandbox = \"off\": after a takeover the process could execute programs and use all system calls",
            );
        }
        write!(f, "sandbox: {} system calls, no programs, no new privileges", system_calls::count())?;
        if self.writable_code {
            f.write_str(", no writable code")?;
        }
        match &self.network {
            Some(network) => write!(f, ", {network}"),
            None => f.write_str("; without limits on TCP ports, which need Landlock of Linux 6.7"),
        }
    }
}
