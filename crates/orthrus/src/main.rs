//! The program: command line, configuration, wiring.

fn main() {}
