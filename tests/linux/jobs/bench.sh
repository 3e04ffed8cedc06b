# The bench on folders that are mounted: copies by cp, loads by fio and git. The figures are those of a slow guest; the job
# checks that the bench measures, tells how the folders are mounted, and cleans up.
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

# A schedule that climbs, on the same folders.
ontap() { bench ontap --time 15s --repetitions 1 --file-size 2 --clients 2 --output /tmp/ontap --mount $mounts; }
check "ontap on folders" ontap
check "ontap: it is complete" says ontap.json '"complete": true'
check "ontap: requests were due" says ontap.json '"offered":'
check "ontap: what latencies count is told" says ontap.md 'A latency counts from when its request was due'
check "ontap: clients are what they are" says ontap.md 'share its session'
refused "nconnect on folders" 'name SERVER:/EXPORT' bench nconnect --output /tmp/other --mount $mounts
for flavor in $FLAVORS; do check "nothing is left of ontap $flavor" nothing_left "$flavor"; done
finish
