# What read-ahead gives the server: the Linux client reads one file from end to end, and the server's processor time for each
# GB says how full its lanes were. Messages that wait together are encrypted together, and only read-ahead makes a single
# reader send more than one request.
#
# Prints `figure ROW VALUE UNIT`.
. /lab/lib.sh
default FLAVORS "sys krb5p"
default ROUNDS 3
default READAHEAD "128 1024 4096 16384"  # KiB; 128 is what Linux sets since 5.4

ticket alice
FILE=/n/alice/sequential
BYTES=$((256 << 20))

written() { [ -e $FILE ] || as alice dd if=/dev/zero of=$FILE bs=1M count=$((BYTES >> 20)) oflag=direct status=none; }
readahead() { echo "$1" >"/sys/class/bdi/$(mountpoint -d /n)/read_ahead_kb"; }

for round in $(seq "$ROUNDS"); do for flavor in $FLAVORS; do for kib in $READAHEAD; do
  mounted "$flavor" 1 || { fail "mount $flavor"; continue; }
  check "file $flavor $kib round $round" written
  echo 3 >/proc/sys/vm/drop_caches
  check "read-ahead $flavor $kib round $round" readahead "$kib"
  before=$(server_cpu) begin=$(seconds)
  as alice dd if=$FILE of=/dev/null bs=1M status=none || fail "read $flavor $kib"
  end=$(seconds) after=$(server_cpu)
  awk -v row="$flavor-readahead-$kib" -v ms=$((after - before)) -v n=$BYTES -v s="$begin" -v e="$end" 'BEGIN {
    printf "figure %s %.3f s/GB\nfigure %s-rate %.0f MB/s\n", row, ms / 1000 / (n / 1e9), row, n / 1e6 / (e - s) }'
  unmounted
done; done; done
finish
