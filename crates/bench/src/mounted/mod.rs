//! Mounted folders, driven by the programs of the published evaluations, fio, git, cp and scp, and
//! by threads of our own for loads on a fixed schedule, which fio cannot make.
//!
//! A [`MountPlace`] is a fresh folder on a mount. [`OwnMounts`] makes the mounts itself, as root,
//! in a private namespace.

mod driver;
pub mod fio;
mod git;
mod kerberos;
mod mountinfo;
mod mountstats;
mod notes;
mod own_mounts;
mod place;
mod scheduled;
mod ssh;
mod sshd;

pub use driver::{MountPlaces, OnMounts};
pub use mounts::Mount;
pub use mountstats::MountStats;
pub use notes::{missing_enctypes, notes};
pub use own_mounts::{MountPlan, OwnMounts};
pub use place::{MountPlace, ensure_room, free, remove};
pub use ssh::{CopyProgram, Ssh, SshFolder};
pub use sshd::Sshd;
