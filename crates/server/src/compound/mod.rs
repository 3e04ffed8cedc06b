//! Runs COMPOUNDs: finds the row of each operation, checks its columns, and calls it.

mod check;
mod run;
pub mod table;

pub use run::CompoundStatus;
