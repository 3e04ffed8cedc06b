# The bench on mounts of its own. It runs as root, whom the server squashes: the folder is writable for everybody.
. /lab/lib.sh
default SCALE 0.001

ticket alice
mkdir -p /n/sys
check "mount" mount -t nfs4 -o "vers=$VERSION,sec=sys" "$SERVER:/export" /n/sys || finish
says() { grep -q -- "$2" "/tmp/$1" || { echo "no $2 in $1"; return 1; }; }
check "a folder for everybody" as alice mkdir -m 777 /n/sys/alice/open
umount /n/sys
own() {
  timeout 400 /lab/orthrus --log error bench lanl --scale "$SCALE" --repetitions 1 --parts small,caches --no-scp --flavors sys,krb5p \
    --output /tmp/own --mount "$SERVER:/export/alice/open" --mount-options vers=4.2,nconnect=2
}
check "lanl on mounts of its own" own
check "own mounts: with their options" says own.json '"nconnect=2"'
check "own mounts: with each flavor" says own.json '"sec=krb5p"'
# Each number of connections needs the mounts of the one before to be gone.
connections() {
  timeout 400 /lab/orthrus --log error bench nconnect --time 15s --repetitions 1 --file-size 2 --flavors sys,krb5p \
    --output /tmp/nconnect --mount "$1:/export/alice/open" --mount-options vers=4.2,nconnect=3
}
check "nconnect on mounts of its own" connections "$SERVER"
check "nconnect: it is complete" says nconnect.json '"complete": true'
for count in 1 2 4 8 16; do check "nconnect: $count connections" says nconnect.md "^| $count connection"; done
check "nconnect: the last mounts had 16" says nconnect.json '"nconnect=16"'
check "nconnect: calls are counted" says nconnect.json '"client_calls"'
check "nconnect: nothing was lost" says nconnect.md 'Nothing was dropped, reconnected or sent again'
mount -t nfs4 -o "vers=4.2,nconnect=2" "$SERVER:/export" /n/sys
refused "nconnect: connections that are those of another mount" 'the kernel uses 2: it shares' connections "$SERVER"
umount /n/sys
none_mounted() { ! grep -q ' nfs4 ' /proc/mounts && [ -z "$(ls -d /tmp/orthrus-mounts-* 2>/dev/null)" ]; }
check "own mounts: none is left" none_mounted
finish
