# One client gets a delegation, and gives it back when another wants to write: two clients in one guest, the second in a
# network namespace, where the kernel keeps a client of its own. A lock that one waits for is told of when the other unlocks.
. /lab/lib.sh
. /lab/second.sh

ticket alice
# sent OPERATION MOUNT: how many the client has sent.
sent() { awk -v operation="$1:" -v mount="$2" '$1 == "device" { here = $5 == mount } here && $1 == operation { print $2 }' /proc/self/mountstats; }
opens() { echo $(($(sent OPEN /n) + $(sent OPEN_NOATTR /n))); }
reads() { as alice sh -c "for i in 1 2 3 4 5; do cat /n/alice/$1 >/dev/null || exit 1; done"; }

# Left to itself, the second client asks for a lock again after 1, 2 and 4 seconds.
lock_waited() {
  local begin holder
  as alice flock /n/alice/held sleep 4 & holder=$!
  sleep 0.3
  begin=$(seconds)
  check "the second client gets the lock $case" as alice flock /tmp/second/alice/held true
  check "as soon as it is free $case" awk -v now="$(seconds)" -v then="$begin" 'BEGIN { exit !(now - then < 5.5) }'
  wait $holder
}

for flavor in $FLAVORS; do for connections in $(connections_of "$flavor"); do
  case="$flavor nconnect=$connections"
  check "mount $case" mounted "$flavor" "$connections" || continue
  check "mount of the second client $case" second_mounted "$flavor" "$connections" || continue
  as alice sh -c "echo one >/n/alice/delegated"
  as alice cat /n/alice/delegated >/dev/null
  before=$(opens)
  [ "$before" -ge 1 ] || fail "opens are not counted"
  check "five opens $case" reads delegated
  check "the delegation saves opens $case" [ "$(($(opens) - before))" -le 1 ]
  begin=$(seconds)
  check "the second client writes $case" as alice sh -c "echo two >>/tmp/second/alice/delegated"
  check "within seconds $case" [ "$(seconds | cut -d. -f1)" -le $((${begin%.*} + 10)) ]
  check "the delegation was given back $case" [ "$(sent DELEGRETURN /n)" -ge 1 ]
  check "the first client sees it $case" [ "$(as alice cat /n/alice/delegated | tr '\n' ' ')" = "one two " ]
  rm -f /tmp/held
  as alice sh -c "exec 3<>/n/alice/held; printf hello >&3; touch /tmp/held; while [ -e /tmp/held ]; do sleep 0.05; done" & holder=$!
  for i in $(seq 100); do [ -e /tmp/held ] && break; sleep 0.05; done
  before=$(sent DELEGRETURN /n)
  check "the second client sees what is not written yet $case" [ "$(as alice stat -c %s /tmp/second/alice/held)" = 5 ]
  check "and the first keeps its delegation $case" [ "$(sent DELEGRETURN /n)" = "$before" ]
  rm -f /tmp/held
  wait $holder
  # One flavor says it for all.
  [ -n "${waited:-}" ] || { lock_waited; waited=1; }
  as alice rm -f /n/alice/delegated /n/alice/held
  second_unmounted
  unmounted
done; done
finish
