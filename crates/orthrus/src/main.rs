//! The program: command line, configuration, wiring.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod api;
mod cli;
mod config;
mod journal;
mod logging;
mod output;
mod serve;
mod service_manager;

use output::errln;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = cli::Arguments::of_command_line().unwrap_or_else(|error| {
        serve::tell_predecessor(&anyhow::anyhow!("{error}"));
        error.exit()
    });
    let result = arguments.run();
    logging::flush();
    match result {
        Ok(()) => match output::failure() {
            None => ExitCode::SUCCESS,
            Some(error) => {
                errln!("orthrus: standard output: {error}");
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            if let Some(cli::Unhealthy(status)) = error.downcast_ref() {
                return (*status).into();
            }
            logging::write_end(&error);
            if error.is::<cli::LeftOut>() { cli::LeftOut::STATUS.into() } else { ExitCode::FAILURE }
        }
    }
}
