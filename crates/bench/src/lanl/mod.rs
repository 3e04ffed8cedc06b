//! The evaluation of "Kerberized Network File System for Clusters" (LANL): NFSv4 with each flavor
//! and scp, side by side.

mod carrier;
mod driver;
mod evaluation;
mod native;
mod on_mount;
mod sources;
mod ssh_carrier;
mod transfer;

pub use carrier::{Carried, Carrier};
pub use driver::{Copier, CopyWay, CopyWays, ServerCache};
pub use evaluation::{Caches, LANL, LanlScope, SCALE_MIN, SCP, bytes, lanl, large, room, small};
pub use native::NativeCarrier;
pub use on_mount::{OnMount, drop_cache};
pub use sources::{Contents, Sources};
pub use ssh_carrier::SshCarrier;
