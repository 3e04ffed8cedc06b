//! Workloads, measurements and the report on what each security flavor costs.
//!
//! A [`Plan`] says what to run; repetitions are interleaved (sys, krb5, krb5i, krb5p, sys, …) so that a machine whose
//! speed drifts does not favour one flavor. The outcome is a [`Report`]: plain data that becomes JSON, a table for the
//! terminal and one self-contained HTML page.

pub mod cpu;
mod endpoint;
mod environment;
mod model;
mod mount;
mod pattern;
pub mod quick;
pub mod report;
mod server_process;
mod statistics;
pub mod workload;

pub use endpoint::{Endpoint, Finished};
pub use environment::Environment;
pub use model::{Flavor, LeftOut, Measurement, Plan, Report, SCHEMA, Series, Summary, Unit, Workload};
pub use mount::Mount;
pub use pattern::Pattern;
pub use server_process::ServerProcess;
pub use statistics::Spread;
