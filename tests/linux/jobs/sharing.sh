# Two clients and one file, or one folder: mappings, O_DIRECT, appending with locks; open files that lose their names to a
# rename or an unlink; names that both make, move, remove and list.
. /lab/lib.sh
. /lab/second.sh

ticket alice
# Of folders nothing is believed that the server has not just said; of files it is left to opens, as ever.
OPTIONS="$OPTIONS,acdirmin=0,acdirmax=0"

# An open that a client could not close stays with the server. The last column is that of errors.
all_closed() { awk '$1 == "CLOSE:" || $1 == "DELEGRETURN:" { failed += $NF } END { exit failed }' /proc/self/mountstats; }

# Its lines are the checks.
program() { as alice timeout -s KILL 120 perl "/run/$1.pl" /n/alice/sharing /tmp/second/alice/sharing "$2" || failures=$((failures + 1)); }

for flavor in $FLAVORS; do for connections in $(connections_of "$flavor"); do
  case="$flavor nconnect=$connections" begin=$(seconds)
  check "sharing: mount $case" mounted "$flavor" "$connections" || continue
  check "sharing: mount of the second client $case" second_mounted "$flavor" "$connections" || continue
  as alice mkdir /n/alice/sharing
  program data "$case"
  program names "$case"
  check "sharing: all is closed and given back $case" all_closed
  check "sharing: nothing is left $case" as alice rmdir /n/alice/sharing
  second_unmounted
  unmounted
  echo "# sharing $case took $(since "$begin")"
done; done
finish
