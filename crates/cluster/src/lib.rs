//! A cluster on one machine, as in the evaluation of LANL: an enterprise network with KDC, NFS
//! server and name service, a cluster network of compute nodes, and between them a head node that
//! does NAT.
//!
//! The machines of the enterprise and the head node are network namespaces. The compute nodes are
//! user-mode Linux kernels with the kernel's own NFS client, all booted from one image with one
//! keytab.
//!
//! The steps of the start are plain data ([`plan`]), made without a look at the machine. One
//! process, the first of its process namespace ([`hold`]), carries them out. When it ends, the
//! kernel ends everything below it, and network namespaces, links, rules and mounts vanish with the
//! last process that sees them. So [`down`] kills one process and removes one folder.

mod commands;
mod down;
mod files;
mod folder;
mod job;
pub mod lanl;
mod needs;
mod network;
mod node;
mod options;
mod plan;
mod processes;
mod status;
mod supervisor;
mod up;

pub use down::down;
pub use folder::{DIR, LabFolder, LabRecord};
pub use job::{JobEnd, NodeScript, set};
pub use needs::{Need, Needs, check};
pub use network::{LabMachine, node_address, node_name};
pub use options::{FLAVORS, LabOptions, LabStorage, Nat};
pub use plan::{LabAction, LabStep, plan};
pub use processes::Process;
pub use status::{LabStatus, status};
pub use supervisor::hold;
pub use up::{FolderOnFailure, Progress, up};
