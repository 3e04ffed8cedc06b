# How long users wait for many files to be made and removed, and what the server spends on each: git clone and checkout,
# tar, rm, and FILES files of 5 kB.
#
# Prints `figure ROW SECONDS s` and `figure ROW-cpu SECONDS s`, the second for the server's processor time.
. /lab/lib.sh
default FLAVORS sys

ticket alice
cp -r /lab/repository.git /tmp/repository.git
chown -R alice:alice /tmp/repository.git
as alice git clone -q /tmp/repository.git /tmp/tree
as alice tar -cf /tmp/tree.tar --exclude .git -C /tmp tree
as alice perl -e '
  mkdir "/tmp/source";
  mkdir "/tmp/source/d$_" for 0 .. 99;
  for my $n (0 .. $ARGV[0] - 1) {
    open(my $file, ">", "/tmp/source/d" . $n % 100 . "/f$n") or die;
    print $file "x" x 5000;
    close($file) or die;
  }' "$FILES"

# timed ROW COMMAND...: one line with the seconds of a command, one with the server's.
timed() {
  local row=$1 before begin end after; shift
  before=$(server_cpu)
  begin=$(seconds)
  as alice timeout -s KILL 300 "$@" >/tmp/said 2>&1 || { fail "$row: $(tail -n 1 /tmp/said)"; return 1; }
  end=$(seconds)
  after=$(server_cpu)
  awk -v row="$row" -v begin="$begin" -v end="$end" -v ms=$((after - before)) \
    'BEGIN { printf "figure %s %.2f s\nfigure %s-cpu %.2f s\n", row, end - begin, row, ms / 1000 }'
}

for flavor in $FLAVORS; do
  check "mount $flavor" mounted "$flavor" 1 || continue
  timed "$flavor-clone" git clone -q --no-local /tmp/repository.git /n/alice/clone &&
    timed "$flavor-checkout" git -C /n/alice/clone checkout -q main~23
  timed "$flavor-extract" tar -xf /tmp/tree.tar -C /n/alice
  timed "$flavor-remove" rm -rf /n/alice/tree
  timed "$flavor-small" cp -r /tmp/source /n/alice/small
  timed "$flavor-small-remove" rm -rf /n/alice/small
  as alice rm -rf /n/alice/clone
  unmounted
done
finish
