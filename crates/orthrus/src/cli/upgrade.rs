//! `orthrus upgrade`: a running server goes on in another process.

use super::Unhealthy;
use super::asked_server::AskedServer;
use crate::api::{ApiError, UpgradeOutcome, UpgradeRequest};
use crate::output::{errln, outln};
use crate::serve::{self, STANDSTILL_TIME, STANDSTILL_TIME_MAX};
use anyhow::Context;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The exit status when there is no server to upgrade.
const NO_SERVER_STATUS: u8 = 3;
/// The exit status when the server has not said how the upgrade ended.
const UNKNOWN_STATUS: u8 = 4;
/// How long an upgrade may take: a reload before it, and each of its steps.
const UPGRADE_TIME_MAX: Duration = Duration::from_secs(120);

/// Have a running server go on in another process, such as that of a new version.
///
/// The server starts the program that has its path now, and hands over connections, sessions,
/// opens, locks, delegations, Kerberos contexts and copies. Clients notice a pause, mostly below
/// a second; none reconnects, and no operation is lost or runs twice. The new process reads the
/// configuration, also the keys that need a restart. If anything fails, the old process goes on.
///
/// Exit status: 0 the new process serves, 1 the old process goes on, 2 wrong usage, 3 no server
/// runs, 4 the server has not said how it ended.
#[derive(clap::Args)]
pub(super) struct Upgrade {
    /// The program of the new process (default: the path that the server was started by). It lies
    /// beside that one, its name begins with "orthrus", and only root or the server's user can
    /// change it.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Milliseconds that calls in progress may take to end before the upgrade is given up (default:
    /// 600, at most 5000). From half of it on, calls that have not begun get NFS4ERR_DELAY.
    #[arg(long, value_name = "MS", default_value_t = STANDSTILL_TIME.as_millis() as u64, hide_default_value = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=STANDSTILL_TIME_MAX.as_millis() as u64))]
    wait: u64,
    /// Upgrade to the program of this command, or that of --binary, but only if the server runs
    /// another one; otherwise reload the configuration.
    #[arg(long)]
    if_replaced: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: AskedServer,
}

impl Upgrade {
    /// Asks the server to hand over to the next process.
    ///
    /// # Errors
    /// The reason why the old process goes on; the exit status tells when no server runs.
    pub(super) fn run(self) -> anyhow::Result<()> {
        // The program of the unit is meant, whatever the server was upgraded to since.
        let binary = self.binary.or_else(|| self.if_replaced.then(serve::started_program));
        let request = UpgradeRequest {
            binary: binary.map(absolute).transpose()?,
            standstill_ms: Some(self.wait),
            if_replaced: self.if_replaced,
        };
        match self.server.post_within::<UpgradeOutcome>("/v1/upgrade", &request, UPGRADE_TIME_MAX)? {
            Ok(outcome) if self.json => outln!("{}", serde_json::to_string(&outcome)?),
            Ok(outcome) => outcome.lines.iter().for_each(|line| outln!("{line}")),
            Err(ApiError::NoServer(why)) => {
                errln!("orthrus: {}", self.server.no_server(&why));
                return Err(Unhealthy(NO_SERVER_STATUS).into());
            }
            Err(ApiError::NoAnswer(error)) => {
                errln!("orthrus: {error:#}; `orthrus status` and the log say which process serves");
                return Err(Unhealthy(UNKNOWN_STATUS).into());
            }
            Err(error @ (ApiError::Refused(..) | ApiError::Denied(_))) => return Err(error.into()),
        }
        Ok(())
    }
}

fn absolute(path: PathBuf) -> anyhow::Result<String> {
    let path = std::path::absolute(path)?;
    path.to_str().map(str::to_owned).context("the path of the program is not UTF-8")
}

/// Start the next process for a server that asks for it; `orthrus serve` runs this command itself.
#[derive(clap::Args)]
pub(super) struct StarterArguments {
    /// The program of the server.
    program: PathBuf,
    /// The arguments of the server.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl StarterArguments {
    /// Obeys the server until it ends.
    ///
    /// # Errors
    /// Standard input is no socket of a server.
    pub(super) fn run(self) -> anyhow::Result<()> {
        serve::obey(self.program, self.arguments)
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::{Arguments, Command};
    use clap::Parser;

    #[test]
    fn options_before_the_command_of_the_server_are_those_of_the_next_process() {
        let own = ["--log-format", "json", "--log", "warn", "serve", "/data"];
        let starter = ["orthrus", "starter", "/usr/bin/orthrus", "--"].into_iter().chain(own);
        let Command::Starter(starter) = Arguments::try_parse_from(starter).unwrap().command else {
            panic!("another command")
        };
        assert_eq!(starter.arguments, own);
    }
}
