//! The parts and limits of a cluster.

use std::net::{IpAddr, Ipv4Addr};

/// The parts and limits of a cluster.
#[derive(Clone, Debug)]
pub struct MiniCephOptions {
    /// The address of all daemons; ports are free ones.
    pub address: IpAddr,
    /// Bytes that an OSD holds at most, in memory as they are written.
    pub store_bytes_max: u64,
    /// OSDs, each with a copy of every object. One of several can be lost.
    pub osds: u32,
    /// Further file systems, each with a metadata server of its own.
    pub file_systems: Vec<String>,
    /// Whether a further metadata server, `standby`, takes the place of one that is lost.
    pub standby: bool,
}

impl Default for MiniCephOptions {
    /// Loopback, one OSD of 4 GiB, one file system, no standby.
    fn default() -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
            store_bytes_max: 4 << 30,
            osds: 1,
            file_systems: Vec::new(),
            standby: false,
        }
    }
}
