//! Workloads, and measurements of the cost of each security flavor.
//!
//! | module | what it does |
//! |---|---|
//! | [`workload`] | loads on an [`Endpoint`]; every byte is checked |
//! | [`measuring`] | the order of repetitions, samples, intervals, the record of a run |
//! | `machine_limits` | the limits of the machine, measured in the run that they explain |
//! | [`link`] | a network of a stated rate between a run's client and server |
//! | [`native`] | the driver that makes loads by the project's own client |
//! | [`mounted`] | the driver that makes loads by fio and git on Linux mounts |
//! | [`lanl`] | the driver and the evaluation that copy whole files |
//! | [`evaluation`] | which cases `quick`, `anf`, `ontap`, `nconnect` and plans measure |
//!
//! [`measuring`] knows neither drivers nor evaluations. A driver is a [`measuring::CaseDriver`]; an
//! evaluation is a [`measuring::Evaluation`] and a page of its record in the crate `report`.

pub mod counters;
pub mod cpu;
mod cpu_watch;
mod endpoint;
mod environment;
pub mod evaluation;
mod folder;
pub mod lanl;
pub mod link;
mod machine_limits;
pub mod measuring;
mod mount;
mod mount_facts;
pub mod mounted;
pub mod native;
mod pattern;
mod repository;
mod server_probe;
mod server_process;
pub mod tools;
mod tree;
pub mod workload;

pub use client::Flavor;
pub use cpu_watch::{CpuUse, CpuWatch};
pub use endpoint::{Endpoint, Finished};
pub use environment::Environment;
pub use folder::folder_name;
pub use machine_limits::limits as machine_limits;
pub use measuring::Unit;
pub use mount::ExportMount;
pub use mount_facts::MountFacts;
pub use pattern::Pattern;
pub use repository::KnownRepository;
pub use server_probe::{Delta, MetricsEndpoint, ServerProbe, Snapshot};
pub use server_process::{ServerProcess, flavor_arguments, resident_kib};
pub use tree::Tree;
