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
use anyhow::{Context, bail};
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

/// Refuses exports of CephFS in new settings if a process with the settings of its start cannot
/// reach them.
///
/// # Errors
/// Names the remedy. Without it, the client of Ceph would try in vain for minutes.
pub(super) fn check_ceph(start: &Settings, settings: &Settings) -> anyhow::Result<()> {
    if start.sandbox == Sandbox::On && !network::uses_ceph(start) && network::uses_ceph(settings) {
        bail!("the first export of CephFS needs a restart, because of the sandbox");
    }
    Ok(())
}

/// Returns the ports of directories in new settings that a process with the settings of its start
/// cannot reach.
pub(super) fn out_of_reach(start: &Settings, settings: &Settings) -> Vec<u16> {
    if start.sandbox == Sandbox::Off || network::uses_ceph(start) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CephStorage, ExportSettings, Storage};

    #[test]
    fn a_process_that_was_no_client_of_ceph_cannot_become_one() {
        let without = Settings::default();
        let export = ExportSettings::new(Storage::Ceph(CephStorage::default()), "/data");
        let with = Settings { exports: vec![export], ..Settings::default() };
        let open = Settings { sandbox: Sandbox::Off, ..Settings::default() };
        for (start, now, may) in
            [(&without, &without, true), (&without, &with, false), (&with, &with, true), (&open, &with, true)]
        {
            assert_eq!(check_ceph(start, now).is_ok(), may);
        }
    }
}
