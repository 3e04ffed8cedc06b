//! Processor time on a client's machine. The kernel's NFS client works in threads of its own, so
//! its time is that of the whole machine, minus the server's where both share the machine.

use std::time::Duration;

use crate::measuring::{Sample, Stages};
use crate::{Delta, ServerProbe, Snapshot, cpu};

/// A moment, to be compared with a later one.
#[derive(Debug)]
pub struct MachineCpu<'w> {
    probe: &'w ServerProbe,
    machine: Option<Duration>,
    server: Snapshot,
}

/// Processor time since a moment; `None` if it is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachineUse {
    /// The client's processor time.
    pub client: Option<Duration>,
    /// The server's part of it.
    pub server: Option<Duration>,
    /// Where the server's time went.
    pub stages: Option<Stages>,
}

impl MachineUse {
    /// Returns a sample with the part of these times that falls on the measurement, and nothing
    /// else.
    pub fn sample(&self, part: f64) -> Sample {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * part);
        Sample {
            client_cpu_seconds: seconds(self.client),
            server_cpu_seconds: seconds(self.server),
            server_stages: self.stages,
            ..Sample::default()
        }
    }
}

impl<'w> MachineCpu<'w> {
    /// Takes the times of now, of this machine and of the server as far as it can be looked at.
    pub fn now(probe: &'w ServerProbe) -> Self {
        Self { probe, machine: cpu::of_machine(), server: probe.snapshot() }
    }

    /// Returns the time since then, with the server's time for `variant`.
    pub fn since(self, variant: &str) -> MachineUse {
        let Delta { cpu: server, stages } = self.probe.since(&self.server, variant);
        let machine = self.machine.zip(cpu::of_machine()).map(|(from, to)| to.saturating_sub(from));
        // Only a process of this machine is part of the machine's time.
        let ours = server.filter(|_| self.probe.pid.is_some()).unwrap_or(Duration::ZERO);
        MachineUse { client: machine.map(|all| all.saturating_sub(ours)), server, stages }
    }
}
