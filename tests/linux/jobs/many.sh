# A folder of very many names, made on the server behind everybody's back: listed by one client while another changes it.
. /lab/lib.sh
. /lab/second.sh
default COUNT 50000
default FLAVORS "sys krb5p"

ticket alice
check "many: a folder of $COUNT names" server "names $COUNT" || finish
program() { as alice timeout -s KILL 300 perl /run/many.pl /n/alice/many /tmp/second/alice/many "$COUNT" "$1" || failures=$((failures + 1)); }

for flavor in $FLAVORS; do for connections in $(connections_of "$flavor"); do
  case="$flavor nconnect=$connections" begin=$(seconds)
  check "many: mount $case" mounted "$flavor" "$connections" || continue
  check "many: mount of the second client $case" second_mounted "$flavor" "$connections" || continue
  program "$case"
  second_unmounted
  unmounted
  echo "# many $case took $(since "$begin")"
done; done
finish
