#!/bin/bash
# Tries the recipe for keepalived of docs/cluster.md in two network namespaces, in about 20 seconds:
#
#   sudo tests/keepalived.sh
#
# The address must be on one machine, move with the gateway when the gateway fails its health check
# and when the machine is lost, and never be on both. A web server that answers /readyz stands in for
# the gateway: the clients' state is the subject of `cargo xtask cluster`. Needs root, keepalived, ip,
# curl and python3.
set -eu
for tool in keepalived ip curl python3; do
    command -v "$tool" >/dev/null || { echo "skipped: there is no $tool"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: network namespaces need root"; exit 0; }

dir=$(mktemp -d)
scope=fo$$
address=192.0.2.101
finish() {
    for file in "$dir"/*.pid; do
        [ -e "$file" ] && kill -9 "$(cat "$file")" 2>/dev/null || true
    done
    for name in a b c; do ip netns del "$scope$name" 2>/dev/null || true; done
    rm -rf "$dir"
}
trap finish EXIT
fail() {
    echo "FAILED: $1"
    tail -n 20 "$dir"/*.log
    exit 1
}

# c has the bridge and the client.
ip netns add "${scope}c"
ip -n "${scope}c" link add br0 type bridge
ip -n "${scope}c" address add 192.0.2.1/24 dev br0
ip -n "${scope}c" link set br0 up
ip -n "${scope}c" link set lo up
number=10
for name in a b; do
    number=$((number + 1))
    ip netns add "$scope$name"
    ip -n "$scope$name" link add eth0 type veth peer name "port$name" netns "${scope}c"
    ip -n "${scope}c" link set "port$name" master br0 up
    ip -n "$scope$name" address add "192.0.2.$number/24" dev eth0
    ip -n "$scope$name" link set eth0 up
    ip -n "$scope$name" link set lo up
    mkdir "$dir/$name"
    echo "$name" >"$dir/$name/readyz"
    # Stands in for `systemctl start|stop orthrus@gw1`.
    cat >"$dir/$name.sh" <<SCRIPT
#!/bin/bash
echo "\$(date +%s.%N) $name \$1" >>"$dir/events.log"
[ -e "$dir/gateway-$name.pid" ] && kill -9 "\$(cat "$dir/gateway-$name.pid")" 2>/dev/null
rm -f "$dir/gateway-$name.pid"
[ "\$1" = start ] || exit 0
(cd "$dir/$name" && exec python3 -m http.server 9100 >/dev/null 2>&1) &
echo \$! >"$dir/gateway-$name.pid"
SCRIPT
    # Without the address there is nothing to check.
    cat >"$dir/check-$name.sh" <<SCRIPT
#!/bin/bash
ip -brief address | grep -q ' $address/' || exit 0
exec curl -sf -m 1 -o /dev/null http://127.0.0.1:9100/readyz
SCRIPT
    chmod +x "$dir/$name.sh" "$dir/check-$name.sh"
    cat >"$dir/$name.conf" <<CONFIG
global_defs {
    script_user root
    enable_script_security
}
vrrp_script ready {
    script "$dir/check-$name.sh"
    interval 1
    timeout 2
    fall 4
}
vrrp_instance gw1 {
    state BACKUP
    nopreempt
    interface eth0
    virtual_router_id 51
    priority $((90 + number))
    advert_int 1
    virtual_ipaddress { $address/24 }
    track_script { ready }
    notify_master "$dir/$name.sh start"
    notify_backup "$dir/$name.sh stop"
    notify_fault "$dir/$name.sh stop"
}
CONFIG
    ip netns exec "$scope$name" keepalived -n -l -f "$dir/$name.conf" -p "$dir/$name.pid" \
        -r "$dir/vrrp-$name.pid" >"$dir/$name.log" 2>&1 &
    echo $! >"$dir/keepalived-$name.pid"
done

holders() {
    for name in a b; do
        ip -n "$scope$name" -o address show dev eth0 | grep -q "inet $address/" && printf %s "$name"
    done
    return 0
}
# Waits until a machine has the address and its gateway answers on it.
moves_to() {
    local began=$(date +%s%N)
    for _ in $(seq 150); do
        [ "$(holders)" != ab ] || fail "both machines have the address"
        if [ "$(holders)" = "$1" ] &&
            [ "$(ip netns exec "${scope}c" curl -sf -m 1 "http://$address:9100/readyz")" = "$1" ]; then
            echo "$2: $1 serves on $address after $((($(date +%s%N) - began) / 100000000)) tenths of a second"
            return 0
        fi
        sleep 0.1
    done
    fail "$2: $1 does not serve on $address"
}

sleep 1
first=
for _ in $(seq 100); do
    first=$(holders)
    [ -z "$first" ] || break
    sleep 0.1
done
case $first in
a) second=b ;;
b) second=a ;;
*) fail "the address is on: ${first:-no machine}" ;;
esac
moves_to "$first" "start"
kill -9 "$(cat "$dir/gateway-$first.pid")"
moves_to "$second" "a gateway that dies"
ip -n "${scope}c" link set "port$second" down
began=$(date +%s)
until [ "$(ip netns exec "${scope}c" curl -sf -m 1 "http://$address:9100/readyz")" = "$first" ]; do
    [ $(($(date +%s) - began)) -lt 20 ] || fail "a machine that is lost: $first does not serve"
    sleep 0.1
done
echo "a machine that is lost: $first serves on $address"
