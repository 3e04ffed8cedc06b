# The bench on mounts of this client: copies by cp, loads by fio and git, on folders that somebody mounted and on mounts of
# its own. What it measures here is the guest's slowness; that it measures, says how it was mounted and cleans up is what counts.
. /lab/lib.sh
FLAVORS="sys krb5p"
default SCALE 0.001

ticket alice
bench() { as alice timeout 400 /lab/orthrus --log error bench "$@"; }
nothing_left() { [ -z "$(ls -A "/n/$1/alice" | grep -v ^open$)" ]; }
mounts=
for flavor in $FLAVORS; do
  mkdir -p "/n/$flavor"
  check "mount $flavor" mount -t nfs4 -o "vers=$VERSION,sec=$flavor" "$SERVER:/export" "/n/$flavor" || finish
  mounts="$mounts $flavor=/n/$flavor/alice"
done

check "lanl on folders" bench lanl --scale "$SCALE" --repetitions 1 --no-scp --output /tmp/lanl --mount $mounts
says() { grep -q -- "$2" "/tmp/$1" || { echo "no $2 in $1"; return 1; }; }
check "lanl: it is complete" says lanl.json '"complete": true'
check "lanl: the mount options are told" says lanl.json '"sec=krb5p"'
check "lanl: the read-ahead is told" says lanl.md 'read-ahead [0-9]'
check "lanl: the encryption type is that of the ticket" says lanl.json '"enctype": "aes256-cts-hmac-sha1-96"'
check "lanl: both flavors have copied" says lanl.md 'krb5p'
refused "lanl: a mount with another flavor" 'mounted with sec=sys, not with sec=krb5p' \
  bench lanl --scale "$SCALE" --no-scp --output /tmp/other --mount krb5p=/n/sys/alice

printf '%s\n' 'title = "Loads"' 'flavors = ["sys", "krb5p"]' 'repetitions = 1' 'seconds = 1.0' 'file_size_mib = 4' \
  '[[case]]' 'name = "Random"' 'kind = "random"' 'size = 4096' 'writes = 25' 'depth = 8' \
  '[[case]]' 'name = "As git does it"' 'kind = "git"' >/tmp/plan.toml
check "loads by fio and git on folders" bench run /tmp/plan.toml --output /tmp/plan --mount $mounts
check "loads: all are there" says plan.json '"complete": true'
for flavor in $FLAVORS; do check "nothing is left $flavor" nothing_left "$flavor"; done

# Mounts of its own, as root: who is nobody at the server, and may write where everybody may.
check "a folder for everybody" as alice mkdir -m 777 /n/sys/alice/open
for flavor in $FLAVORS; do umount "/n/$flavor"; done
own() {
  timeout 400 /lab/orthrus --log error bench lanl --scale "$SCALE" --repetitions 1 --parts small,caches --no-scp --flavors sys,krb5p \
    --output /tmp/own --mount "$SERVER:/export/alice/open" --mount-options vers=4.2,nconnect=2
}
check "lanl on mounts of its own" own
check "own mounts: with their options" says own.json '"nconnect=2"'
check "own mounts: with each flavor" says own.json '"sec=krb5p"'
none_mounted() { ! grep -q ' nfs4 ' /proc/mounts && [ -z "$(ls -d /tmp/orthrus-mounts-* 2>/dev/null)" ]; }
check "own mounts: none is left" none_mounted
finish
