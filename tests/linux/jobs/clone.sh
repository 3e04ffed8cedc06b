# Files that share blocks: the export has to lie on xfs or btrfs (`run.sh --export-on xfs clone`). On CephFS, which has no
# such files, CLONE is refused, and cp copies.
. /lab/lib.sh

ticket alice
no_clones() {
  as alice dd if=/dev/urandom of=/n/alice/clones/file bs=4k count=300 status=none
  refused "clone: it is not supported $1" "not supported" as alice cp --reflink=always /n/alice/clones/file /n/alice/clones/clone
  as alice rm -f /n/alice/clones/clone
  check "clone: cp copies instead $1" as alice cp --reflink=auto /n/alice/clones/file /n/alice/clones/copy
  check "clone: the copy is the same $1" as alice cmp /n/alice/clones/file /n/alice/clones/copy
  as alice rm -f /n/alice/clones/file /n/alice/clones/copy
}
program() { as alice timeout -s KILL 120 perl /run/clone.pl /n/alice/clones "$1" || failures=$((failures + 1)); }

for flavor in $FLAVORS; do for connections in $(connections_of "$flavor"); do
  case="$flavor nconnect=$connections"
  check "clone: mount $case" mounted "$flavor" "$connections" || continue
  as alice mkdir /n/alice/clones
  if [ "$EXPORT_ON" = ceph ]; then no_clones "$case"; else program "$case"; fi
  check "clone: nothing is left $case" as alice rmdir /n/alice/clones
  unmounted
done; done
finish
