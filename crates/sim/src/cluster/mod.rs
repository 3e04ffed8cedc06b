//! Several servers over one storage: real servers and the real decisions of [`grace`], a simulated
//! storage whose messages are late, lost and out of order, and processes that die at every step.
//!
//! Each gateway has clients that hold locks and exclusive opens, count in the file meanwhile, and
//! reclaim after a failover. The checks know only the clients' view: nobody else holds the file, no
//! acknowledged number is lost, a client in time reclaims, and an instance that has lost its name
//! answers no longer than it may.

mod client;
mod driver;
mod fault;
mod gateway;
mod holds;
mod mount;
mod records;
mod run;
mod storage;
mod world;

pub use fault::ClusterFault;
pub use run::{ClusterOutcome, run_cluster};

use grace::NodeId;

/// The directory of all files.
const DIRECTORY: &str = "d";
/// Files that clients of all gateways lock.
const FILES: usize = 2;

/// Returns the name of a member.
#[expect(clippy::expect_used, reason = "the name has letters and digits")]
fn name(node: usize) -> NodeId {
    format!("gw{node}").parse().expect("a name of a member")
}

/// Returns the name of a file by its number.
fn path(file: usize) -> String {
    format!("f{file}")
}
