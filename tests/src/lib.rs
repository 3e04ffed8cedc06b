//! Program against program: the server, the realm and the clients, end to end.
//!
//! [`program`] finds and builds `orthrus`, [`Serve`] and [`Server`] run it as a server that cannot
//! outlive the test, [`in_world`] gives a test a throw-away realm, a folder to export and users. A
//! test that fails here panics: this crate is for tests alone.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod disk;
mod domain;
mod folders;
pub mod hostile;
mod program;
mod proxy;
mod server;
pub mod soak;
pub mod upgrade;
mod wait;
mod world;

pub use disk::{Disk, Journaling, in_own_mounts};
pub use domain::{TestDomain, in_domain};
pub use folders::{data_folder, empty_folder, is_root, open_folder};
pub use program::{
    Ended, Installation, children, is_installed, next_program, nobody, orthrus, program, run, run_within,
};
pub use proxy::Proxy;
pub use server::{Serve, Server, rss_kib};
pub use wait::{found, until};
pub use world::{World, account, in_world, in_world_with, pattern, status};
