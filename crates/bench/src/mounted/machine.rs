//! Processor time on a client's machine: the kernel's NFS client works in threads of its own, so
//! what it uses is what all of the machine does, but for the server where that is on the same one.

use std::time::Duration;

use crate::measuring::Stages;
use crate::{Delta, ServerProbe, Snapshot, cpu};

/// A moment, to be compared with a later one.
#[derive(Debug)]
pub struct MachineCpu<'w> {
    probe: &'w ServerProbe,
    machine: Option<Duration>,
    server: Snapshot,
}

/// What was used since a moment; none where it cannot be known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachineUse {
    /// The client's processor time.
    pub client: Option<Duration>,
    /// The server's.
    pub server: Option<Duration>,
    /// Where the server's time went.
    pub stages: Option<Stages>,
}

impl<'w> MachineCpu<'w> {
    /// Takes the times of now, of this machine and of the server as far as it can be looked at.
    pub fn now(probe: &'w ServerProbe) -> Self {
        Self { probe, machine: cpu::of_machine(), server: probe.snapshot() }
    }

    /// Returns what has been used since, at the server for `variant`.
    pub fn since(self, variant: &str) -> MachineUse {
        let Delta { cpu: server, stages } = self.probe.since(&self.server, variant);
        let machine = self.machine.zip(cpu::of_machine()).map(|(from, to)| to.saturating_sub(from));
        // Only what a process of this machine used is part of what the machine did.
        let ours = server.filter(|_| self.probe.pid.is_some()).unwrap_or(Duration::ZERO);
        MachineUse { client: machine.map(|all| all.saturating_sub(ours)), server, stages }
    }
}
