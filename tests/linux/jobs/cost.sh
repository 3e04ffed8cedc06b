# What a server spends on the Linux client's load, by flavor: its own processor time for each 4 KiB operation and each GB.
# The client is slow here, so rates say little; the server's cost does not depend on it.
#
# Prints `figure ROW VALUE UNIT`. DEPTH is how many requests are in flight, GSS_DEPTH the same with Kerberos: servers that
# lose RPCSEC_GSS calls need 1.
. /lab/lib.sh
default DEPTH 16
default GSS_DEPTH 16
default LENGTH 5                         # seconds of each random row
default ROUNDS 3

ticket alice
FILE=/n/alice/cost
BYTES=$((256 << 20))

random() {
  as alice timeout -s KILL $((LENGTH * 2 + 30)) fio --thread --name=random --filename=$FILE --size=$BYTES --direct=1 --ioengine=libaio \
    --rw="$1" --bs=4k --iodepth="$depth" --time_based --runtime="$LENGTH" --minimal >/tmp/fio.out 2>&1
}
# Field 6 and 47 of fio's terse output: KiB read and written.
operations() { awk -F';' 'END { print ($6 + $47) / 4 }' /tmp/fio.out; }
sequential() {
  as alice timeout -s KILL 120 fio --thread --name=sequential --filename=$FILE --size=$BYTES --direct=1 --ioengine=libaio \
    --rw="$1" --bs=1M --iodepth="$depth" --minimal >/tmp/fio.out 2>&1
}

# cost ROW UNIT COMMAND...: one line with the server's time for each operation (us) or GB (s).
cost() {
  local row=$1 unit=$2 before after; shift 2
  before=$(server_cpu)
  "$@" || { fail "$row: not finished"; return 1; }
  after=$(server_cpu)
  case $unit in
    us) awk -v row="$row" -v ms=$((after - before)) -v n="$(operations)" 'BEGIN { printf "figure %s %.2f us\n", row, ms * 1000 / n }' ;;
    s) awk -v row="$row" -v ms=$((after - before)) -v n=$BYTES 'BEGIN { printf "figure %s %.3f s/GB\n", row, ms / 1000 / (n / 1e9) }' ;;
  esac
}

for round in $(seq "$ROUNDS"); do for flavor in $FLAVORS; do
  check "mount $flavor round $round" mounted "$flavor" 1 || continue
  if [ "$flavor" = sys ]; then depth=$DEPTH; else depth=$GSS_DEPTH; fi
  cost "$flavor-seqwrite" s sequential write &&
    cost "$flavor-seqread" s sequential read &&
    cost "$flavor-randread" us random randread &&
    cost "$flavor-randwrite" us random randwrite
  unmounted
done; done
finish
