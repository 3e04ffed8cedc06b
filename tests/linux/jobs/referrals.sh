# Referrals to another server by name, by address, behind a dead server and on the root of an export, with sys and krb5p
# and with NFSv4.0; then trunking over two addresses of one server, of which a third entry is another server.
. /lab/lib.sh
default FLAVORS "sys krb5p"

ticket alice
ip route add 10.78.0.0/24 via 10.77.0.1

# The kernel's mount on a folder: server and flavor.
mounted_on() { grep -q "^$1 $2 nfs4 .*sec=$3," /proc/mounts; }
write_read() { as alice sh -c "echo from-$2 >'$1/alice/$2' && grep -q from-$2 '$1/alice/$2'"; }
# The folder of the referral is not another name of the first server's.
at_the_other() { [ -e "/tmp/other/alice/$1" ] && [ ! -e "/n/export/alice/$1" ]; }

mkdir -p /tmp/other
# A client waits for a dead server for seconds, so that one turn does.
places="site/second site/name site/address export/moved"
for case in $(printf '4.2:%s ' $FLAVORS) 4.0:krb5p; do
  VERSION=${case%:*} flavor=${case#*:}
  check "mount of the root $case" mounted "$flavor" 1 / || continue
  mount -t nfs4 -o "vers=$VERSION,sec=$flavor" other.orthrus.test:/x/data /tmp/other
  check "the referrals are listed $case" [ "$(as alice ls /n/site | tr '\n' ' ')" = "address name second " ]
  check "and have attributes $case" as alice ls -l /n/site
  for place in $places; do
    file=$VERSION-$flavor-${place##*/}
    check "alice writes through $place $case" write_read "/n/$place" "$file" || continue
    check "it is at the other server $case $place" at_the_other "$file"
    check "the kernel has mounted it with the flavor $case $place" mounted_on "[^ ]*:/x/data" "/n/$place" "$flavor"
  done
  check "the way up leads back $case" [ "$(as alice sh -c 'cd /n/site/name && cd .. && ls -a' | tr '\n' ' ')" = ". .. address name second " ]
  check "the export beside it is the first server's $case" as alice touch /n/export/alice/here
  places="site/name site/address export/moved"
  umount /tmp/other
  umount /n/site/name /n/site/address /n/site/second /n/export/moved /n/export 2>/dev/null
  unmounted
  check "mount of the referral itself $case" mounted "$flavor" 1 /site/name || continue
  check "alice writes there $case" write_read /n "$VERSION-$flavor-itself"
  umount -R /n || unmounted
done

# The addresses to which the mount's connections go.
addresses() { cat /sys/kernel/sunrpc/xprt-switches/switch-*/xprt-*-tcp/dstaddr | sort -u | tr '\n' ' '; }
connections() { grep -c xprt: /proc/self/mountstats; }
VERSION=4.2
for flavor in $FLAVORS; do
  OPTIONS=
  check "mount without trunking $flavor" mounted "$flavor" 1 || continue
  check "one connection $flavor" [ "$(connections)" = 1 ]
  unmounted
  OPTIONS=,trunkdiscovery,max_connect=4
  check "mount with trunking $flavor" mounted "$flavor" 1 || continue
  check "two connections $flavor" [ "$(connections)" = 2 ] || connections
  check "to the two addresses of the server $flavor" [ "$(addresses)" = "10.77.0.1 10.77.0.4 " ] || echo "# $(addresses)"
  check "alice writes over both $flavor" as alice sh -c 'dd if=/dev/urandom of=/n/alice/both bs=64k count=64 status=none && sha256sum /n/alice/both >/tmp/both.sum'
  echo 3 >/proc/sys/vm/drop_caches
  check "and reads it back $flavor" as alice sha256sum --quiet -c /tmp/both.sum
  # Each connection has carried requests: the eighth field counts what was sent.
  check "both connections were used $flavor" [ "$(awk '/xprt:/ && $8 > 20' /proc/self/mountstats | wc -l)" = 2 ]
  as alice rm -f /n/alice/both
  unmounted
done
finish
