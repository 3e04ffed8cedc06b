//! The program: command line, configuration, wiring.

mod config;

fn main() {}
