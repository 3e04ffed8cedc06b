//! Processor time on a client's machine: the kernel's NFS client works in threads of its own, so what it uses is what all of
//! the machine does, but for the server where that is on the same one.

use std::time::Duration;

use crate::cpu;

/// A moment, to be compared with a later one.
#[derive(Clone, Copy, Debug)]
pub struct MachineCpu {
    server_pid: Option<u32>,
    machine: Option<Duration>,
    server: Option<Duration>,
}

impl MachineCpu {
    /// Takes the times of now; `server_pid` is the server's process where that is on this machine.
    pub fn now(server_pid: Option<u32>) -> Self {
        Self { server_pid, machine: cpu::of_machine(), server: server_pid.and_then(cpu::of_process) }
    }

    /// Returns what client and server have used since; none where it cannot be known.
    pub fn since(self) -> (Option<Duration>, Option<Duration>) {
        let later = Self::now(self.server_pid);
        let grown = |from: Option<Duration>, to: Option<Duration>| Some(to?.saturating_sub(from?));
        let server = grown(self.server, later.server);
        let machine = grown(self.machine, later.machine);
        (machine.map(|all| all.saturating_sub(server.unwrap_or(Duration::ZERO))), server)
    }
}
