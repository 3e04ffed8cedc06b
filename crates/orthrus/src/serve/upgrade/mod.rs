//! Upgrades: the server starts its next program, and hands its clients over to it.

pub(super) mod binary;
mod freeze;
mod predecessor;
mod starter;
mod successor;

pub(super) use predecessor::{UpgradeParts, Upgrades};
pub(super) use starter::Starter;
pub(crate) use starter::{STARTER, obey};
pub(crate) use successor::tell_predecessor;
pub(super) use successor::{Estate, Inherited, Predecessor};

use std::time::Duration;

/// The variable that tells a process that its standard input is a handover.
const VARIABLE: &str = "ORTHRUS_HANDOVER";

/// How often a wait sees whether the server is to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How long the next process may take to read its configuration and to open everything.
const PREPARE_TIME_MAX: Duration = Duration::from_secs(15);
/// How long background copies may take for the pieces that they are copying. Clients are served
/// meanwhile.
const COPIES_TIME_MAX: Duration = Duration::from_secs(5);
/// How long the standstill may take by default: the calls that clients have sent end, or get
/// NFS4ERR_DELAY.
pub(crate) const STANDSTILL_TIME: Duration = Duration::from_millis(600);
/// How long an administrator may let it take.
pub(crate) const STANDSTILL_TIME_MAX: Duration = Duration::from_secs(5);
/// How long the next process may take to restore the image, while clients wait.
const RESTORE_TIME_MAX: Duration = Duration::from_secs(5);
/// How long it may take to answer that it serves.
const GO_TIME_MAX: Duration = Duration::from_secs(3);
