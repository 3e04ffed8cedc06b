//! The command line: commands and their dispatch.

mod asked_server;
mod bench;
mod config;
mod control;
mod doctor;
mod gateways;
mod generated;
mod grants;
mod groups;
mod id;
mod import;
mod lab;
mod left_out;
mod listings;
mod own_realm;
mod realm;
mod realm_shell;
mod serve;
mod status;
mod stop;
mod table;
mod trace;
mod try_it;
mod upgrade;

use crate::api::{ClientRow, ContextRow, DelegationRow, ExportRow, LockRow, OpenRow, SessionRow};
use crate::logging::{LogFilter, LogFormat};
use crate::serve::STARTER;
use anyhow::Context;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
pub(crate) use doctor::Unhealthy;
pub(crate) use left_out::LeftOut;

/// An NFSv4 server with fast Kerberos encryption, and a benchmark of its cost.
#[derive(Parser)]
#[command(name = "orthrus", version, max_term_width = 100)]
#[command(after_help = "A first try, as any user: orthrus try /some/folder")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Log filter, as for RUST_LOG: error, warn, info, debug, trace, or per module.
    /// Without it the key `log` of `orthrus serve`, or else info.
    #[arg(long, global = true, display_order = 900, help_heading = "Log", value_name = "FILTER")]
    #[arg(env = "ORTHRUS_LOG")]
    log: Option<LogFilter>,
    /// Format of the log: text, json, journal (text with priorities for systemd), journald (entries
    /// of the journal with fields), or auto: `journal` under systemd, else `text`.
    #[arg(long, global = true, display_order = 901, help_heading = "Log", value_name = "FORMAT")]
    // The help of every command ends with this option.
    #[arg(default_value = "auto", env = "ORTHRUS_LOG_FORMAT", hide_possible_values = true)]
    log_format: LogFormat,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Arguments),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Import(import::ImportConfig),
    Id(id::Explain),
    Doctor(doctor::Examine),
    Status(status::StatusArguments),
    /// List the exports of a running server, as they are in force.
    ///
    /// An export with rules has a row for each of them; the first row that names a client counts.
    Exports(listings::ListingArguments),
    /// List the clients of a running server.
    Clients(listings::ListingArguments),
    /// List the sessions of clients: connections, slots in use and granted, and the backchannel.
    ///
    /// `orthrus sessions 10.0.0.7` shows those of a machine.
    Sessions(listings::ListingArguments),
    /// List the Kerberos contexts of users and machines.
    ///
    /// `orthrus contexts alice@` shows those of a user, and when their tickets expire.
    Contexts(listings::ListingArguments),
    /// List the files that clients have open.
    Opens(listings::ListingArguments),
    /// List the byte ranges that clients have locked.
    ///
    /// `orthrus locks /srv/data/file` shows who locks a file.
    Locks(listings::ListingArguments),
    /// List the delegations that clients have.
    Delegations(listings::ListingArguments),
    Trace(trace::TraceArguments),
    Web(control::WebArguments),
    Evict(control::Evict),
    Revoke(control::Revoke),
    Reload(control::ReloadArguments),
    Upgrade(upgrade::Upgrade),
    #[command(name = STARTER, hide = true)]
    Starter(upgrade::StarterArguments),
    Drain(control::Drain),
    #[command(subcommand)]
    Cluster(gateways::ClusterCommand),
    #[command(subcommand)]
    Realm(realm::Command),
    #[command(subcommand)]
    Grants(grants::GrantsCommand),
    #[command(subcommand)]
    Bench(bench::Command),
    #[command(subcommand)]
    Lab(lab::Command),
    Try(try_it::Arguments),
    Completions(generated::CompletionsArguments),
    Man(generated::ManArguments),
}

impl Arguments {
    /// Parses the command line.
    ///
    /// # Errors
    /// A usage error, or the text of a help page or the version.
    pub(crate) fn of_command_line() -> Result<Self, clap::Error> {
        let mut command = groups::grouped(Self::command());
        let matches = command.try_get_matches_from_mut(std::env::args_os());
        let mut matches = matches.map_err(without_hidden)?;
        Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }

    /// Runs the command.
    ///
    /// # Errors
    /// A message that names the cause and the remedy.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        crate::logging::start(self.log.as_ref(), self.log_format)?;
        select_cpu().with_context(|| format!("{} cannot be obeyed", krb5::CPU_VARIABLE))?;
        match self.command {
            Command::Serve(arguments) => arguments.run(),
            Command::Config(command) => command.run(),
            Command::Import(arguments) => arguments.run(),
            Command::Id(arguments) => arguments.run(),
            Command::Doctor(arguments) => arguments.run(),
            Command::Status(arguments) => arguments.run(),
            Command::Exports(arguments) => arguments.run::<ExportRow>(),
            Command::Clients(arguments) => arguments.run::<ClientRow>(),
            Command::Sessions(arguments) => arguments.run::<SessionRow>(),
            Command::Contexts(arguments) => arguments.run::<ContextRow>(),
            Command::Opens(arguments) => arguments.run::<OpenRow>(),
            Command::Locks(arguments) => arguments.run::<LockRow>(),
            Command::Delegations(arguments) => arguments.run::<DelegationRow>(),
            Command::Trace(arguments) => arguments.run(),
            Command::Web(arguments) => arguments.run(),
            Command::Evict(arguments) => arguments.run(),
            Command::Revoke(arguments) => arguments.run(),
            Command::Reload(arguments) => arguments.run(),
            Command::Upgrade(arguments) => arguments.run(),
            Command::Starter(arguments) => arguments.run(),
            Command::Drain(arguments) => arguments.run(),
            Command::Cluster(command) => command.run(),
            Command::Realm(command) => command.run(),
            Command::Grants(command) => command.run(),
            Command::Bench(command) => command.run(),
            Command::Lab(command) => command.run(),
            Command::Try(arguments) => arguments.run(),
            Command::Completions(arguments) => arguments.run(),
            Command::Man(arguments) => arguments.run(),
        }
    }
}

/// Takes the command that a server runs itself out of the suggestions for a misspelt one.
fn without_hidden(mut error: clap::Error) -> clap::Error {
    let suggested = ContextKind::SuggestedSubcommand;
    if let Some(ContextValue::Strings(mut names)) = error.remove(suggested) {
        names.retain(|name| name != STARTER);
        if !names.is_empty() {
            error.insert(suggested, ContextValue::Strings(names));
        }
    }
    error
}

/// Selects the instruction set that the environment names, if it names one.
fn select_cpu() -> Result<(), krb5::CpuError> {
    match std::env::var_os(krb5::CPU_VARIABLE) {
        Some(name) => krb5::select(name.to_string_lossy().parse()?),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_of_people_are_suggested() {
        let said = |word: &str| {
            let refused = groups::grouped(Arguments::command()).try_get_matches_from(["orthrus", word]);
            without_hidden(refused.expect_err("there is no such command")).to_string()
        };
        assert!(said("srve").contains("'serve'") && !said("srve").contains(STARTER), "{}", said("srve"));
        assert!(!said("startr").contains(STARTER), "{}", said("startr"));
    }
}
