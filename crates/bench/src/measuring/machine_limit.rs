//! The limits of the machine, as a record keeps them. `machine_limits` measures them.

use serde::{Deserialize, Serialize};

/// Name of the limit between client and server: one TCP connection.
pub const LOOPBACK: &str = "loopback";
/// The same where it is a link.
pub const LINK: &str = "link";

/// A limit of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineLimit {
    /// The limited resource, in a few words.
    pub name: String,
    /// The figure: the median of short pieces, or as `how` describes.
    pub value: f64,
    /// `MB/s` (10^6 bytes) or `us`.
    pub unit: String,
    /// The method of measurement.
    pub how: String,
}
