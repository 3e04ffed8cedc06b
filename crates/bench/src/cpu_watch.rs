//! Processor time at both ends between two moments.

use std::time::Duration;

use crate::measuring::{Sample, Stages};
use crate::{Delta, ServerProbe, Snapshot, cpu};

/// A moment, to be compared with a later one.
#[derive(Debug)]
pub struct CpuWatch<'w> {
    probe: &'w ServerProbe,
    of_machine: bool,
    server: Snapshot,
    client: Option<Duration>,
    machine: Option<Duration>,
}

/// Processor time since a moment; `None` if it is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuUse {
    /// The client's processor time.
    pub client: Option<Duration>,
    /// Processor time of the server.
    pub server: Option<Duration>,
    /// Where the server's time went, if it tells.
    pub stages: Option<Stages>,
    /// Time of the client's machine that anything used: programs, its kernel, or its host for
    /// others. Unknown for a client whose own time is that of the machine.
    pub machine: Option<Duration>,
}

impl CpuUse {
    /// Returns these times without so much of the client's, which is not part of the measurement.
    #[must_use]
    pub fn without_client(self, beside: Duration) -> Self {
        Self { client: self.client.map(|all| all.saturating_sub(beside)), ..self }
    }

    /// Returns a sample with these times and nothing else.
    pub fn sample(&self) -> Sample {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        Sample {
            client_cpu_seconds: seconds(self.client),
            server_cpu_seconds: seconds(self.server),
            machine_cpu_seconds: seconds(self.machine),
            server_stages: self.stages,
            ..Sample::default()
        }
    }
}

impl<'w> CpuWatch<'w> {
    /// Takes the times of now, of this process and of the server as far as it can be looked at.
    pub fn of_process(probe: &'w ServerProbe) -> Self {
        let (server, machine) = (probe.snapshot(), cpu::of_machine_and_host());
        Self { probe, of_machine: false, server, client: Some(cpu::of_this_process()), machine }
    }

    /// Takes the times of now for a client that is the kernel's. It works in threads of its own, so
    /// its time is that of the whole machine, minus the server's where both share the machine.
    pub fn of_machine(probe: &'w ServerProbe) -> Self {
        let server = probe.snapshot();
        Self { probe, of_machine: true, server, client: cpu::of_machine(), machine: None }
    }

    /// Returns the time since then, with the server's time for `variant`.
    pub fn since(self, variant: &str) -> CpuUse {
        let now = if self.of_machine { cpu::of_machine() } else { Some(cpu::of_this_process()) };
        let machine = self.machine.and_then(|from| Some(cpu::of_machine_and_host()?.saturating_sub(from)));
        let Delta { cpu: server, stages } = self.probe.since(&self.server, variant);
        let client = self.client.zip(now).map(|(from, to)| to.saturating_sub(from));
        // Only a process of this machine is part of the machine's time.
        let ours = server.filter(|_| self.of_machine && self.probe.pid.is_some()).unwrap_or(Duration::ZERO);
        CpuUse { client: client.map(|all| all.saturating_sub(ours)), server, stages, machine }
    }
}
