//! A disposable Ceph cluster of one node, made without root and without kernel modules in a few
//! seconds.
//!
//! [`MiniCeph::start`] makes a private temporary folder and starts a monitor, an OSD that keeps its
//! objects in memory, and a metadata server on free ports of loopback. There is no manager. The
//! cluster ends when the value is dropped or the process ends in any way.
//!
//! The cluster is for trials and tests. It exposes nothing to other users of the machine: every
//! connection needs a key, and all keys are in the folder, which only its owner can enter.

mod cluster;
mod configuration;
mod error;
mod options;
mod programs;
mod watch;

pub use cluster::{CephDaemon, FILE_SIZE_MAX, MiniCeph};
pub use error::MiniCephError;
pub use options::MiniCephOptions;
