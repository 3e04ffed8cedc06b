//! A simulation with a seed: a whole server, its clients, the network between them and everything
//! that goes wrong, on one thread and under a simulated clock.
//!
//! [`run`] plays one seed and returns what the checker found. Nothing in here reads a clock, opens
//! a socket or a file, or draws random numbers but from the seed, so the same seed is the same simulation,
//! byte for byte. docs/simulation.md says what is simulated and what is not.

mod check;
mod client;
mod disk;
mod faults;
mod gateway;
mod history;
mod journal;
mod kerberos;
mod machine;
mod mutation;
mod network;
mod onlooker;
mod plan;
mod rng;
mod run;
mod tamper;
mod trace;
mod unsynced;
mod work;
mod world;

pub use history::Violation;
pub use mutation::Mutation;
pub use run::{Outcome, run};
