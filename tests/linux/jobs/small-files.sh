# Many small files for each flavor: 10,000 of 5 kB written, read back with cold caches, counted and removed.
. /lab/lib.sh

ticket alice
# Each file differs: its number over and over. One process makes them all, because starting one is slow in this guest.
as alice perl -e '
  mkdir "/tmp/source";
  mkdir "/tmp/source/d$_" for 0 .. 99;
  for my $n (0 .. $ARGV[0] - 1) {
    open(my $file, ">", "/tmp/source/d" . $n % 100 . "/f$n") or die;
    print $file substr(sprintf("%08d,", $n) x 556, 0, 5000);
    close($file) or die;
  }' "$FILES"
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
