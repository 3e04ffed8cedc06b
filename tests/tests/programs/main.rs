//! The program against the client library, against itself and against bytes that no client sends.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod access;
mod ad;
mod api;
mod audit;
mod bench;
mod bench_errors;
mod client_names;
mod control;
mod crashes;
mod dashboard;
mod delegations;
mod evaluations;
mod faults;
mod flavors;
#[path = "../../../crates/server/tests/compound/fuse.rs"]
#[expect(dead_code, reason = "the rest is for tests of the library")]
mod fuse;
mod hanging;
mod hostile;
mod identities;
mod kdc_loss;
mod keytabs;
mod lanl;
mod lanl_ssh;
mod large;
mod limited_file_systems;
mod limits;
mod link;
mod listings;
mod load;
mod local;
mod many;
mod metrics;
mod minor2;
mod misuse;
mod monitoring;
mod moved_folders;
mod names;
mod notifications;
mod plans;
mod principals;
mod realms;
mod referrals;
mod refusals;
mod restart;
mod sandbox;
mod shortage;
mod submounts;
mod tickets;
mod trial;
mod trust;
mod upgrades;
mod web;
