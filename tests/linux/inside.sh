# inside.sh: the first process of the namespaces. Sets up network, names, realm, server and client; ends with the jobs.
#
# Nothing here is undone at the end: the tap device and its address exist only in this network namespace (from which
# no route leads out), mounts only in this mount namespace, and the kernel kills every process here with this one.
set -eu
. "$LAB/realm.sh"
. "$LAB/server.sh"
. "$LAB/other.sh"
. "$LAB/client.sh"

say() { echo "lab: $*" >&2; }

mount --make-rprivate /
mkdir -p "$RUN"/{etc,share,export,private,state,uml}
chmod 700 "$RUN/state"                    # the server refuses one that others can enter

SERVER_ADDRESS=10.77.0.1 CLIENT_ADDRESS=10.77.0.2 REALM=ORTHRUS.TEST
hostname server.orthrus.test
ip link set lo up
ip tuntap add dev tap0 mode tap
ip address add $SERVER_ADDRESS/24 dev tap0
ip link set tap0 up
# The guest's network driver misses the interrupt of a packet that comes right behind its request, so that the guest
# sees the packet once the sender repeats it. Linux waits 200 ms for that; a server that replies fast would look slow.
ip route change "${SERVER_ADDRESS%.*}.0/24" dev tap0 rto_min 4ms

names
realm
exports
other_server
server_start || { say "no server on $SERVER_ADDRESS:2049"; server_log; exit 98; }
server_control &
grant_service

code=0
guest || code=$?
if [ $code = 98 ] || [ $code = 99 ]; then guest_log; server_log; fi
exit $code
