# One client gets a delegation, and gives it back when another wants to write: two clients in one guest, the second in a
# network namespace, where the kernel keeps a client of its own. A lock that one waits for is told of when the other unlocks.
. /lab/lib.sh
. /lab/second.sh
default FLAVORS "sys krb5p"

ticket alice
# sent OPERATION MOUNT: how many the client has sent.
sent() { awk -v operation="$1:" -v mount="$2" '$1 == "device" { here = $5 == mount } here && $1 == operation { print $2 }' /proc/self/mountstats; }
opens() { echo $(($(sent OPEN /n) + $(sent OPEN_NOATTR /n))); }
reads() { as alice sh -c "for i in 1 2 3 4 5; do cat /n/alice/$1 >/dev/null || exit 1; done"; }

# Left to itself, the second client asks for a lock again after 1, 2 and 4 seconds.
lock_waited() {
  local begin holder
  as alice flock "/n/alice/held-$flavor" sleep 4 & holder=$!
  sleep 0.3
  begin=$(seconds)
  check "the second client gets the lock $flavor" as alice flock "/tmp/second/alice/held-$flavor" true
  check "as soon as it is free $flavor" awk -v now="$(seconds)" -v then="$begin" 'BEGIN { exit !(now - then < 5.5) }'
  wait $holder
}

for flavor in $FLAVORS; do
  check "mount $flavor" mounted "$flavor" 1 || continue
  check "mount of the second client $flavor" second mount -t nfs4 -o "vers=$VERSION,sec=$flavor$OPTIONS" "$SERVER:/export" /tmp/second || continue
  as alice sh -c "echo one >/n/alice/delegated-$flavor"
  as alice cat "/n/alice/delegated-$flavor" >/dev/null
  before=$(opens)
  [ "$before" -ge 1 ] || fail "opens are not counted"
  check "five opens $flavor" reads "delegated-$flavor"
  check "the delegation saves opens $flavor" [ "$(($(opens) - before))" -le 1 ]
  begin=$(seconds)
  check "the second client writes $flavor" as alice sh -c "echo two >>/tmp/second/alice/delegated-$flavor"
  check "within seconds $flavor" [ "$(seconds | cut -d. -f1)" -le $((${begin%.*} + 10)) ]
  check "the delegation was given back $flavor" [ "$(sent DELEGRETURN /n)" -ge 1 ]
  check "the first client sees it $flavor" [ "$(as alice cat "/n/alice/delegated-$flavor" | tr '\n' ' ')" = "one two " ]
  rm -f /tmp/held
  as alice sh -c "exec 3<>/n/alice/held-$flavor; printf hello >&3; touch /tmp/held; sleep 3" & holder=$!
  for i in $(seq 100); do [ -e /tmp/held ] && break; sleep 0.05; done
  before=$(sent DELEGRETURN /n)
  check "the second client sees what is not written yet $flavor" [ "$(as alice stat -c %s "/tmp/second/alice/held-$flavor")" = 5 ]
  check "and the first keeps its delegation $flavor" [ "$(sent DELEGRETURN /n)" = "$before" ]
  wait $holder
  # One flavor says it for all.
  [ "$flavor" != "${FLAVORS%% *}" ] || lock_waited
  as alice rm -f "/n/alice/delegated-$flavor" "/n/alice/held-$flavor"
  umount /tmp/second
  unmounted
done
finish
