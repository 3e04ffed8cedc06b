//! One core for the server, another for the client.

use anyhow::Context;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::sync::OnceLock;

/// The assignment of client and server to cores.
#[derive(Clone, Copy)]
pub(crate) struct Cores {
    server: usize,
    client: usize,
}

impl Cores {
    /// Takes the last core that this process may use for servers and the first for itself. With a
    /// single core both share it.
    pub(crate) fn choose() -> anyhow::Result<Self> {
        let cores = allowed()?;
        let client = *cores.first().context("no core may be used")?;
        let chosen = Self { server: *cores.last().unwrap_or(&client), client };
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

    /// Runs `work` on all cores, and lets this thread use all of them from now on. Processes that
    /// `work` starts do so, too.
    ///
    /// # Errors
    /// The errors of `work`, and an error if the kernel refuses.
    pub(crate) fn on_all<T>(self, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        sched_setaffinity(Pid::from_raw(0), &at_start()?).context("the cores cannot be chosen")?;
        work()
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
pub(crate) fn pin_to(number: usize) -> anyhow::Result<()> {
    pin(*allowed()?.get(number).context("there are not enough cores")?)
}

/// The cores that this process could use before it chose any.
static AT_START: OnceLock<CpuSet> = OnceLock::new();

fn at_start() -> anyhow::Result<CpuSet> {
    if let Some(known) = AT_START.get() {
        return Ok(*known);
    }
    let allowed = sched_getaffinity(Pid::from_raw(0)).context("the cores cannot be asked for")?;
    Ok(*AT_START.get_or_init(|| allowed))
}

/// Returns the cores that this process may use.
fn allowed() -> anyhow::Result<Vec<usize>> {
    let allowed = at_start()?;
    Ok((0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false)).collect())
}

fn pin(core: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &set).with_context(|| format!("core {core} cannot be chosen"))
}
