//! Runs the fuzz targets for a bounded time.

use std::process::Command;

/// Arguments of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Seconds for each target.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Only run these targets.
    targets: Vec<String>,
}

impl Arguments {
    /// Runs each target long enough to notice a regression, and short enough for every push.
    pub(crate) fn for_ci() -> Self {
        Self { seconds: 10, targets: Vec::new() }
    }
}

/// Runs the targets; a crash, a hang or too much memory is an error.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    steps::run(Command::new("fuzz/run.sh").arg(arguments.seconds.to_string()).args(&arguments.targets))
}
