# The server is upgraded again and again while programs work, to a next version and back. They notice pauses: no operation
# fails, is lost or runs twice, no lock is lost, and the client keeps its connections, its session and its client ID.
# ROUNDS says how often, SEED when; `ORTHRUS_NEXT=FILE run.sh` names the program of the next version.
. /lab/lib.sh
default FLAVORS krb5p
default CONNECTIONS 8
default ROUNDS 4
default SEED 1
RANDOM=$SEED

ticket alice
cp /lab/{changes,lock,random}.pl /run/
as alice sh -c 'head -c 20000000 /dev/urandom >/tmp/large'

# What the client counted of its connections: ports, and how often each connected.
connections() { awk '$1 == "xprt:" { print $2, $3, $5 }' /proc/self/mountstats; }
identity() { server identity && cat /lab/server.identity; }

# work NAME COMMAND...: a program in the background, which ends by itself once /tmp/stop is there. `check` runs in a
# subshell, so programs begin and are waited for outside of it.
work() {
  local name=$1; shift
  as alice timeout -s KILL $((ROUNDS * 20 + 120)) "$@" >"/tmp/work.$name" 2>&1 &
  WORK="$WORK $name:$!"
}
copies() {
  . /lab/lib.sh
  local count=0
  until [ -e /tmp/stop ]; do
    cp /tmp/large /n/alice/large && cmp /tmp/large /n/alice/large && rm /n/alice/large || exit 1
    count=$((count + 1))
  done
  echo "$count copies"
}
export -f copies
start_work() {
  rm -f /tmp/stop /tmp/random /tmp/random.source
  as alice sh -c "rm -f /n/alice/random*"
  WORK=
  work names perl /run/changes.pl /n/alice /tmp/stop
  work random perl /run/random.pl /n/alice/random /tmp/random "$SEED" 0 /tmp/stop
  work copies bash -c copies
  work lock perl /run/lock.pl /n/alice/locked hold write 100 100 /tmp/stop
}
lock_held() {
  local i
  for i in $(seq 200); do grep -q held /tmp/work.lock && return; sleep 0.05; done
  echo "the lock is not granted"; return 1
}
# ended_well NAME STATUS
ended_well() { [ "$2" = 0 ] || { echo "status $2"; cat "/tmp/work.$1"; return 1; }; }

kept_out() { ! server try && same "it gets no lock" "$(cat /lab/server.answer)"; }
upgrades() {
  local round
  for round in $(seq "$ROUNDS"); do
    server upgrade || { echo "round $round: $(cat /lab/server.answer)"; return 1; }
    sleep "0.$((RANDOM % 900 + 100))"
    kept_out || { echo "round $round: the range that alice has locked: $(cat /lab/server.answer)"; return 1; }
    for work in $WORK; do
      kill -0 "${work#*:}" 2>/dev/null || { echo "round $round: ${work%%:*} ended: $(cat "/tmp/work.${work%%:*}")"; return 1; }
    done
  done
}
same() { [ "$1" = "$2" ] || { echo "before: $1; after: $2"; return 1; }; }
on_the_disk() { server "sum alice/random" && same "$(cat /lab/server.sum)" "$(sha256sum </tmp/random)"; }
pauses() {
  sort -n /lab/server.pauses | awk '{ p[NR] = $1 }
    END { printf "# %d upgrades, pause %.0f ms at the median and %.0f ms at most\n", NR, p[int((NR + 1) / 2)], p[NR] }'
}

# What is read comes from the server, not from what was written.
(while sleep 1; do echo 3 >/proc/sys/vm/drop_caches; done) & dropper=$!
for flavor in $FLAVORS; do for connections in $(connections_of "$flavor"); do
  case="$flavor nconnect=$connections"
  check "upgrade: mount $case" mounted "$flavor" "$connections" || continue
  rm -f /lab/server.pauses
  start_work
  check "upgrade: programs work $case" lock_held || continue
  connected=$(connections) known=$(identity)
  check "upgrade: $ROUNDS upgrades while they work $case" upgrades
  check "upgrade: the same connections $case" same "$connected" "$(connections)"
  check "upgrade: the same client and session $case" same "$known" "$(identity)"
  : >/tmp/stop
  for work in $WORK; do
    name=${work%%:*} status=0
    wait "${work#*:}" || status=$?
    check "upgrade: $name went through $case" ended_well "$name" "$status" && sed -n "\$s/^/# $name: /p" "/tmp/work.$name"
  done
  unmounted
  check "upgrade: what is on the server's disk is what alice wrote $case" on_the_disk
  pauses
done; done
kill $dropper
finish
