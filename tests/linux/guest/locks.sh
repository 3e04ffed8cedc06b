# locks.sh: locks of two processes of alice on one file. Sourced by jobs.

lock() { as alice timeout 120 perl /run/lock.pl /n/alice/locked "$@"; }

# said FILE WORD SECONDS: waits until a process has said it.
said() {
  local i
  for i in $(seq $(($3 * 20))); do grep -q "$2" "$1" && return 0; sleep 0.05; done
  cat "$1"; return 1
}

# holding TYPE START LENGTH: another process holds the range until `released`.
holding() {
  rm -f /tmp/stop
  lock hold "$@" /tmp/stop >/tmp/holder 2>&1 &
  said /tmp/holder held 20
}
released() { : >/tmp/stop; said /tmp/holder released 20; }

denied() {
  local code=0
  lock try "$@" || code=$?
  [ $code = 1 ]
}

# A waiter has nothing while the range is held, and has it soon after $RELEASE.
RELEASE=released
waits() {
  lock wait "$@" >/tmp/waiter 2>&1 &
  local waiter=$!
  sleep 1
  kill -0 $waiter 2>/dev/null || { echo "it did not wait"; cat /tmp/waiter; return 1; }
  [ ! -s /tmp/waiter ] || { echo "it has what another holds"; return 1; }
  $RELEASE || return
  said /tmp/waiter had 90 && wait $waiter
}

locks() {
  if check "lock held by one process: $1" holding write 100 100; then
    check "exclusive lock excludes: $1" denied write 100 100
    check "exclusive lock excludes readers: $1" denied read 199 1
    check "lock to the end of the file overlaps: $1" denied write 0 0
    check "range before it is free: $1" lock try write 0 100
    check "range behind it is free: $1" lock try write 200 0
    check "blocked lock is had after the unlock: $1" waits write 150 10
    check "unlocked range is free: $1" lock try write 100 100
  fi
  if check "shared lock held by one process: $1" holding read 0 0; then
    check "shared lock lets readers in: $1" lock try read 10 10
    check "shared lock keeps writers out: $1" denied write 10 10
    check "shared lock released: $1" released
  fi
  as alice rm -f /n/alice/locked
}
