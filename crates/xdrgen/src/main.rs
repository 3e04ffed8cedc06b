//! Generates Rust from XDR grammars.

fn main() {}
