//! Workloads, measurements and the report on what each security flavor costs.
//!
//! | module | what it does |
//! |---|---|
//! | [`workload`] | loads on an [`Endpoint`]: closed and open loop, the operations of git; every byte is checked |
//! | [`measuring`] | the order of repetitions, samples, intervals, noise and limits of the machine, the record of a run |
//! | [`native`] | the driver that makes loads by the project's own client |
//! | [`evaluation`] | which cases `anf`, `ontap`, `nconnect` and own plans measure, and how their records are shown |
//! | [`view`] | tables and charts as data; the page, Markdown, CSV and text that are made of them |
//! | [`quick`], [`report`] | `bench quick`: all flavors side by side in a minute, in an older and simpler form |
//!
//! Another way to make load (mounted folders and the tools of others) is another [`measuring::Driver`]; another evaluation is
//! another [`measuring::Evaluation`] and a view of its record. Neither knows of the other.

#[cfg(test)]
mod browser;
pub mod counters;
pub mod cpu;
mod endpoint;
mod environment;
pub mod evaluation;
mod folder;
pub mod lanl;
pub mod measuring;
mod model;
mod mount;
pub mod mounted;
pub mod native;
mod pattern;
pub mod quick;
pub mod report;
mod server_process;
mod statistics;
pub mod view;
pub mod workload;

pub use endpoint::{Endpoint, Finished};
pub use environment::Environment;
pub use folder::folder_name;
pub use model::{Flavor, LeftOut, Measurement, Plan, Report, SCHEMA, Series, Summary, Unit, Workload};
pub use mount::Mount;
pub use pattern::Pattern;
pub use server_process::ServerProcess;
pub use statistics::Spread;
