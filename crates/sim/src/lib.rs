//! A seeded simulation: a whole server, its clients, the network between them and faults, on one
//! thread under a simulated clock.
//!
//! [`run`] plays one seed and returns the violations that the checker has found. The crate reads no
//! clock, opens no socket or file, and draws random numbers only from the seed, so the same seed is
//! the same simulation, byte for byte. docs/simulation.md lists the simulated parts and the missing
//! ones.

mod check;
mod client;
mod cluster;
mod contents;
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
mod upgrade;
mod work;
mod world;

pub use cluster::{ClusterFault, ClusterOutcome, run_cluster};
pub use history::Violation;
pub use mutation::Mutation;
pub use run::{SimOutcome, run};
pub use trace::TraceDetail;
