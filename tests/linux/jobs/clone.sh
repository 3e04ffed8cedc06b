# Files that share blocks: the export has to lie on xfs or btrfs (`run.sh --export-on xfs clone`).
. /lab/lib.sh

ticket alice
program() { as alice timeout -s KILL 120 perl /run/clone.pl /n/alice/clones "$1" || failures=$((failures + 1)); }

for flavor in $FLAVORS; do for connections in $(connections_of "$flavor"); do
  case="$flavor nconnect=$connections"
  check "clone: mount $case" mounted "$flavor" "$connections" || continue
  as alice mkdir /n/alice/clones
  program "$case"
  check "clone: nothing is left $case" as alice rmdir /n/alice/clones
  unmounted
done; done
finish
