# second.sh: a second client in the same guest, in a network namespace, where the kernel keeps a client of its own. Sourced
# by jobs; its mount is on /tmp/second.

ip netns add second
ip link add link vec0 name second0 netns second type macvlan mode bridge
second() { nsenter --net=/run/netns/second "$@"; }
second ip link set lo up
second ip address add 10.77.0.3/24 dev second0
second ip link set second0 up
# What goes by the namespace in /sys and by the mount in rpc_pipefs needs a look of its own at both.
ip netns exec second sh -c 'echo second >/sys/fs/nfs/net/nfs_client/identifier'
(ip netns exec second sh -c 'mount -t rpc_pipefs sunrpc /run/rpc_pipefs && exec rpc.gssd -f' >/lab/gssd-second.log 2>&1 &)
mkdir -p /tmp/second

# second_mounted FLAVOR CONNECTIONS: on /tmp/second.
second_mounted() { second mount -t nfs4 -o "vers=$VERSION,sec=$1,nconnect=$2$OPTIONS" "$SERVER:/export" /tmp/second; }
second_unmounted() { umount /tmp/second; }
