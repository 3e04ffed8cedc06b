//! The configuration of a cluster.

use std::net::SocketAddr;
use std::path::Path;

/// The file of the configuration, which clients use as well.
pub(crate) const CONF: &str = "ceph.conf";
/// The file of all keys.
pub(crate) const KEYRING: &str = "keyring";

/// Returns the configuration: one replica, short intervals, and everything in the folder.
///
/// Paths of daemons are given on their command lines, so that the same file serves clients.
pub(crate) fn text(dir: &Path, fsid: &str, monitor: SocketAddr, store_bytes: u64) -> String {
    let (dir, ip) = (dir.display(), monitor.ip());
    let bits = if ip.is_ipv4() { 32 } else { 128 };
    format!(
        "[global]
fsid = {fsid}
mon_host = [v2:{monitor}/0]
keyring = {dir}/{KEYRING}
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
auth_allow_insecure_global_id_reclaim = false
public_network = {ip}/{bits}
ms_bind_ipv4 = {v4}
ms_bind_ipv6 = {v6}
run_dir = {dir}
admin_socket = {dir}/$name.asok
pid_file =
log_file = {dir}/$name.log
log_to_stderr = false
err_to_stderr = false
mon_cluster_log_to_file = false
osd_crush_chooseleaf_type = 0
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_allow_pool_delete = true
mon_warn_on_pool_no_redundancy = false
mon_data_avail_crit = 1
mon_data_avail_warn = 1

[mon]
mon_data = {dir}/$name
# A change of the cluster otherwise waits for others to join it.
paxos_propose_interval = 0.02
paxos_min_wait = 0.01

[osd]
osd_data = {dir}/$name
osd_objectstore = memstore
memstore_device_bytes = {store_bytes}
osd_class_load_list = *
osd_class_default_list = *

[mds]
mds_data = {dir}/$name
# Dead clients are noticed as on a site; a test that waits for it sets the value itself.
mds_session_blocklist_on_timeout = true

[client]
admin_socket =
log_file =
",
        v4 = ip.is_ipv4(),
        v6 = ip.is_ipv6(),
    )
}
