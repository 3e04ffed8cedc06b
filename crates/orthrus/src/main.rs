//! The program: command line, configuration, wiring.

mod cli;
mod config;
mod logging;
mod requests;
mod serve;
mod service_manager;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let result = cli::Arguments::parse().run();
    logging::flush();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(cli::Unhealthy(status)) = error.downcast_ref() {
                return (*status).into();
            }
            eprintln!("orthrus: {error:#}");
            if error.is::<cli::LeftOut>() { cli::LeftOut::STATUS.into() } else { ExitCode::FAILURE }
        }
    }
}
