//! The backend on a one-node cluster, which all tests of this program share.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;
mod conformance;
mod containment;
mod delegations;
mod errors;
mod gateways;
mod layouts;
mod quotas;
mod snapshots;
