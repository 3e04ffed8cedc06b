//! One core for the server, another for the client.

use anyhow::Context;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The assignment of client and server to cores.
#[derive(Clone, Copy)]
pub(crate) struct Cores {
    server: usize,
    client: usize,
}

impl Cores {
    /// Takes the last core that this process may use for servers and the first for itself. With a
    /// single core both share it.
    ///
    /// # Errors
    /// When the kernel does not say which there are.
    pub(crate) fn choose() -> anyhow::Result<Self> {
        let allowed = sched_getaffinity(Pid::from_raw(0)).context("the cores cannot be asked for")?;
        let cores = || (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false));
        let client = cores().next().context("no core may be used")?;
        let server = cores().next_back().unwrap_or(client);
        let chosen = Self { server, client };
        pin(client)?;
        Ok(chosen)
    }

    /// Runs `work` on the server's core. Processes that it starts stay there.
    ///
    /// # Errors
    /// The errors of `work`, and an error if the kernel refuses the core.
    pub(crate) fn on_server<T>(self, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        pin(self.server)?;
        let outcome = work();
        pin(self.client)?;
        outcome
    }

    /// Describes the assignment in words.
    pub(crate) fn describe(self) -> String {
        if self.server == self.client {
            return "client and server share the only core".to_owned();
        }
        format!("server pinned to core {}, client to core {}", self.server, self.client)
    }
}

/// Takes this thread to one of the cores that it may use, by number from zero.
///
/// # Errors
/// When there are not so many.
pub(crate) fn pin_to(number: usize) -> anyhow::Result<()> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).context("the cores cannot be asked for")?;
    let mut cores = (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false));
    pin(cores.nth(number).context("there are not enough cores")?)
}

fn pin(core: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &set).with_context(|| format!("core {core} cannot be chosen"))
}
