//! The blocklist of a Ceph cluster: clients from which OSDs and metadata servers accept nothing.

use ceph::CephErrno;
use ceph::rados::RadosCluster;
use serde::Deserialize;
use std::time::Duration;

/// How long an address stays on the blocklist. An evicted machine can wake up long after it was put
/// to sleep, and then writes back what it has in memory.
pub const FENCE_TIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// The reason why an address cannot be put on the blocklist.
#[derive(Debug, thiserror::Error)]
pub enum FenceError {
    /// The user may not run the command.
    #[error(
        "client.{user} may not change the blocklist: add `allow command \"osd blocklist\"` to its `mon` capabilities with `ceph auth caps`"
    )]
    Denied {
        /// The user, without `client.`.
        user: String,
    },
    /// The monitors do not answer, or have another error.
    #[error("the blocklist of the Ceph cluster cannot be used: {0}")]
    Failed(CephErrno),
    /// The monitors have answered something else.
    #[error("the monitors list the blocklist in a form that is unknown")]
    Unknown,
}

/// Puts the address of a client on the blocklist.
///
/// # Errors
/// `Denied`, `Failed`.
pub fn blocklist(cluster: &RadosCluster, user: &str, address: &str) -> Result<(), FenceError> {
    let command = serde_json::json!({
        "prefix": "osd blocklist",
        "blocklistop": "add",
        "addr": address,
        "expire": FENCE_TIME.as_secs_f64(),
    });
    match cluster.command(&command.to_string()) {
        Ok(_) => cluster.wait_for_latest_map().map_err(FenceError::Failed),
        Err(error) if [libc::EACCES, libc::EPERM].contains(&error.number()) => {
            Err(FenceError::Denied { user: user.to_owned() })
        }
        Err(error) => Err(FenceError::Failed(error)),
    }
}

/// An entry of the blocklist, as the monitors list it.
#[derive(Clone, Deserialize)]
struct BlocklistEntry {
    addr: String,
}

/// Returns which of some addresses are on the blocklist.
///
/// # Errors
/// `Failed`, `Unknown`.
pub fn blocklisted(cluster: &RadosCluster, addresses: &[String]) -> Result<Vec<String>, FenceError> {
    let command = r#"{"prefix": "osd blocklist ls", "format": "json"}"#;
    let output = cluster.command(command).map_err(FenceError::Failed)?;
    // One list of addresses, and in some versions another one of ranges.
    let lists = serde_json::Deserializer::from_slice(&output).into_iter::<Vec<BlocklistEntry>>();
    let lists: Vec<Vec<BlocklistEntry>> = lists.collect::<Result<_, _>>().map_err(|_| FenceError::Unknown)?;
    let entries = lists.concat();
    let listed = |address: &&String| entries.iter().any(|entry| same(&entry.addr, address));
    Ok(addresses.iter().filter(listed).cloned().collect())
}

/// Compares addresses, which may have a prefix such as `v2:`.
fn same(one: &str, other: &str) -> bool {
    let bare = |address: &str| {
        let address = address.trim_start_matches('[').trim_end_matches(']');
        ["v1:", "v2:", "any:"].iter().fold(address.to_owned(), |text, kind| text.replacen(kind, "", 1))
    };
    bare(one) == bare(other)
}
