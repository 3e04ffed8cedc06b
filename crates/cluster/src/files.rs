//! The files of the lab, as text.

use crate::network::{CLUSTER, DOMAIN, HEAD_OUTSIDE, LabMachine, PREFIX, REALM, full};
use crate::{LabFolder, Nat};

/// The nodes' first process: that of `tests/linux/run.sh`.
pub(crate) const INIT: &str = include_str!("guest/init.sh");
/// The library of scripts for nodes: that of `tests/linux/run.sh`.
pub(crate) const LIBRARY: &str = include_str!("guest/lib.sh");
/// Kerberos of a node: that of `tests/linux/run.sh`.
pub(crate) const KERBEROS: &str = include_str!("guest/kerberos.sh");
/// Network, names and mounts of a node.
pub(crate) const SETUP: &str = include_str!("guest/setup.sh");
/// The agent that takes requests on a node.
pub(crate) const AGENT: &str = include_str!("guest/agent.sh");
/// The paper's tests on a node.
pub(crate) const LANL: &str = include_str!("guest/lanl.sh");

/// The settings that lib.sh needs by default.
pub(crate) const SETTINGS: &str = "SERVER_KIND=orthrus\n";

/// The users of the realm: name and number.
pub(crate) const USERS: [(&str, u32); 2] = [("alice", 5001), ("bob", 5002)];

/// Lines to add to /etc/passwd.
pub(crate) fn passwd() -> String {
    USERS.map(|(name, id)| format!("{name}:x:{id}:{id}::/tmp:/bin/bash\n")).concat()
}

/// Lines to add to /etc/group.
pub(crate) fn group() -> String {
    USERS.map(|(name, id)| format!("{name}:x:{id}:\n")).concat()
}

/// resolv.conf of the image: the name service of the enterprise.
pub(crate) fn resolv_conf() -> String {
    format!("nameserver {}\nsearch {DOMAIN}\noptions timeout:2\n", LabMachine::Names.address())
}

/// nsswitch.conf of the image.
pub(crate) const NSSWITCH_CONF: &str =
    "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\nrpc: files\n";
/// hosts of the image: a node knows itself; all else it asks the name service.
pub(crate) const HOSTS: &str = "127.0.0.1 localhost\n";

/// idmapd.conf of the image.
pub(crate) fn idmapd_conf() -> String {
    format!("[General]\nDomain = {DOMAIN}\nLocal-Realms = {REALM}\n")
}

/// The name service's configuration: the machines of the enterprise and nothing else, no file of
/// this machine.
pub(crate) fn dnsmasq_conf(folder: &LabFolder) -> String {
    let mut text = format!(
        "no-resolv\nno-hosts\nno-poll\nuser=root\ngroup=root\nlisten-address={}\nbind-interfaces\nlocal=/{DOMAIN}/\npid-file={}\nlog-facility={}\n",
        LabMachine::Names.address(),
        folder.file("names.pid").display(),
        folder.log("names").display(),
    );
    for machine in LabMachine::ALL {
        text.push_str(&format!("host-record={},{}\n", full(machine.name()), machine.address()));
    }
    text
}

/// The server's configuration: `/export` with all flavors, `/private` with krb5p only.
pub(crate) fn server_toml(folder: &LabFolder) -> String {
    let path = |name: &str| folder.file(name).display().to_string();
    format!(
        "listen = \"{listen}:2049\"
domain = \"{DOMAIN}\"
keytab = \"{keytab}\"
realms = [\"{REALM}\"]
state_dir = \"{state}\"
lease_time = 30
grace_time = 5

[[export]]
path = \"{export}\"
pseudo = \"/export\"
sec = [\"krb5p\", \"krb5i\", \"krb5\", \"sys\"]

[[export]]
path = \"{private}\"
pseudo = \"/private\"
sec = [\"krb5p\"]
",
        listen = LabMachine::Server.address(),
        keytab = path("realm/server.keytab"),
        state = path("state"),
        export = path("export"),
        private = path("private"),
    )
}

/// The head node's rules: packets of the cluster leave with the head's address, and machines
/// outside cannot connect to a node.
pub(crate) fn nat_rules(nat: Nat) -> String {
    let cluster = format!("{CLUSTER}/{PREFIX}");
    match nat {
        Nat::Nft => format!(
            "table ip lab {{
  chain out {{
    type nat hook postrouting priority 100;
    ip saddr {cluster} oifname \"enterprise\" snat to {HEAD_OUTSIDE}
  }}
  chain through {{
    type filter hook forward priority 0; policy drop;
    iifname \"cluster\" accept
    ct state established,related accept
  }}
}}
"
        ),
        Nat::Iptables => format!(
            "*nat
-A POSTROUTING -s {cluster} -o enterprise -j SNAT --to-source {HEAD_OUTSIDE}
COMMIT
*filter
:FORWARD DROP [0:0]
-A FORWARD -i cluster -j ACCEPT
-A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
COMMIT
"
        ),
    }
}

/// The command that takes the rules from its standard input.
pub(crate) fn nat_command(nat: Nat) -> &'static [&'static str] {
    match nat {
        Nat::Nft => &["nft", "-f", "-"],
        Nat::Iptables => &["iptables-restore"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_name_service_knows_the_enterprise_and_no_node() {
        let text = dnsmasq_conf(&LabFolder::at(Path::new("/l")));
        assert!(text.contains("host-record=server.orthrus.test,10.77.1.3\n"));
        assert!(!text.contains("node"), "nodes are behind the NAT: {text}");
    }

    #[test]
    fn both_rule_sets_hide_the_cluster_behind_the_head_and_drop_incoming_traffic() {
        for nat in [Nat::Nft, Nat::Iptables] {
            let text = nat_rules(nat).to_lowercase();
            assert!(text.contains("10.77.2.0/24") && text.contains("10.77.1.1") && text.contains("drop"));
        }
    }
}
