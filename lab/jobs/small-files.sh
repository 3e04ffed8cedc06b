# Many small files for each flavor: 10,000 of 5 kB written, read back with cold caches, counted and removed.
. /lab/lib.sh

ticket alice
head -c 5000 /dev/urandom >/tmp/part
# Each file differs: its number, then the same bytes.
as alice bash -c '
  mkdir -p /tmp/source && cd /tmp/source && mkdir $(seq -f d%.0f 0 99)
  for ((i = 0; i < '"$FILES"'; i++)); do { printf "%08d" $i; tail -c 4992 /tmp/part; } >d$((i % 100))/f$i; done'
sums /tmp/source >/tmp/source.sums

compared() { as alice bash -c '. /lab/lib.sh; sums /n/alice/small' >/tmp/small.sums && cmp /tmp/source.sums /tmp/small.sums; }
counted() { [ "$(as alice find /n/alice/small -type f -size 5000c | wc -l)" = "$FILES" ]; }

for flavor in $FLAVORS; do
  begin=$(seconds)
  check "small files: mount $flavor" mounted "$flavor" 1 || continue
  check "small files: $FILES of 5 kB written $flavor" as alice cp -r /tmp/source /n/alice/small
  unmounted
  check "small files: mount again $flavor" mounted "$flavor" 1 || continue
  check "small files: all there with their size $flavor" counted
  check "small files: compared $flavor" compared
  check "small files: removed $flavor" as alice rm -rf /n/alice/small
  unmounted
  echo "# small files $flavor took $(since "$begin")"
done
finish
