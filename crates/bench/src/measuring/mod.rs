//! The measuring core: cases, their order and repetitions, and the statistics of their samples.
//!
//! An [`Evaluation`] selects the [`Case`]s to measure side by side; a [`CaseDriver`] measures one
//! of them once; [`run`] interleaves repetitions, keeps every [`Sample`] in a [`Record`], and
//! calibrates the machine's noise in between. A record is plain data: the crate `report` makes
//! tables, charts and pages from it.

mod axes;
mod case;
mod copies;
mod depths;
mod histogram;
mod interval;
mod machine_limit;
mod noise;
mod record;
mod sample;
mod schedule;
mod skipped;
mod stages;
mod summary;
#[cfg(test)]
mod tests;

pub use axes::{
    Axes, CacheState, ConnectionAxes, CopyAxes, CurveAxes, LoadLevel, Part, Workload, WorkloadAxes,
};
pub use case::{Case, ClientLayout, GIT, Load, Transfer, Unit};
pub use copies::{CopyLoad, Fetch};
pub use histogram::Histogram;
pub use interval::Interval;
pub use machine_limit::{LINK, LOOPBACK, MachineLimit};
pub use noise::{Calibration, Noise, calibrate};
pub use record::{CaseRecord, Record, SCHEMA, Settings};
pub use sample::{Latencies, Sample};
pub use schedule::{CaseDriver, CaseTurn, Evaluation, FAILURES_MAX, RunPhase, RunStep, RunWatch, run};
pub use skipped::{Missing, NoAnswer};
pub use stages::{STAGES, StageTimes, Stages};
pub use summary::{Comparison, Figures, Verdict, compare};
