# Random operations on a file of the server's and on one of the guest's own, which have to stay equal: writes, cuts, holes,
# allocation, copies from another file; the file is closed and opened, and caches are dropped, in between.
# SEEDS names the runs, OPERATIONS says how long each is; a failing one is repeated by `--set SEEDS=...`.
. /lab/lib.sh
default SEEDS "1 2"
default OPERATIONS 400

ticket alice

cp /lab/random.pl /run/random.pl

# What is read comes from the server, not from what was written.
(while sleep 1; do echo 3 >/proc/sys/vm/drop_caches; done) & dropper=$!
for flavor in $FLAVORS; do for connections in $(connections_of "$flavor"); do
  case="$flavor nconnect=$connections"
  check "random: mount $case" mounted "$flavor" "$connections" || continue
  for seed in $SEEDS; do
    check "random: seed $seed $case" as alice perl /run/random.pl /n/alice/random /tmp/random "$seed" "$OPERATIONS"
    check "random: what the server has is the same $case" as alice cmp /n/alice/random /tmp/random
    as alice rm -f /n/alice/random /n/alice/random.source /tmp/random /tmp/random.source
  done
  unmounted
done; done
kill $dropper
finish
