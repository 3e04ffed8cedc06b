//! Grants, tickets and agents with a real KDC.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod attacks;
mod jobs;
mod site;
