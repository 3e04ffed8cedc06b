//! The configuration of a cluster.

use crate::MiniCephOptions;
use std::net::SocketAddr;
use std::path::Path;

/// The file of the configuration, which clients use as well.
pub(crate) const CONF: &str = "ceph.conf";
/// The file of all keys.
pub(crate) const KEYRING: &str = "keyring";

/// Settings of a cluster that can lose a daemon: it is found out in seconds. A monitor that looks
/// more rarely than the grace period, or began lately, blames itself for the silence.
const FAILURES: &str = "\
mon_tick_interval = 1
osd_heartbeat_interval = 1
osd_heartbeat_grace = 4
mon_osd_adjust_heartbeat_grace = false
mon_osd_min_down_reporters = 1
mds_beacon_interval = 1
mds_beacon_grace = 5
mds_beacon_mon_down_grace = 1
mds_reconnect_timeout = 10";

/// Returns the configuration: short intervals, and everything in the folder.
///
/// Paths of daemons are given on their command lines, so that the same file serves clients.
pub(crate) fn text(dir: &Path, fsid: &str, monitor: SocketAddr, options: &MiniCephOptions) -> String {
    let (dir, ip) = (dir.display(), monitor.ip());
    let (store_bytes, size) = (options.store_bytes_max, options.osds);
    let min_size = size.saturating_sub(1).max(1);
    // On a busy machine a single daemon may take its time.
    let failures = if size > 1 || options.standby { FAILURES } else { "" };
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
osd_pool_default_size = {size}
osd_pool_default_min_size = {min_size}
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_allow_pool_delete = true
mon_warn_on_pool_no_redundancy = false
mon_data_avail_crit = 1
mon_data_avail_warn = 1
{failures}

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
