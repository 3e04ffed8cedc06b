# Locks of the client beside those of a program on the server: each keeps the other out, and a
# client that waits has the range once the program has released it.
. /lab/lib.sh
. /lab/locks.sh
RELEASE="server release"

ticket alice
# The errno of a refused F_SETLK is EAGAIN or EACCES; EIO and the like are another exit status.
refused_lock() { denied "$@" || { lock try "$@"; return 1; }; }
kept_out() { ! server try && [ "$(cat /lab/server.answer)" = "it gets no lock" ]; }

for flavor in $FLAVORS; do for connections in $(connections_of "$flavor"); do
  case="$flavor nconnect=$connections" begin=$(seconds)
  check "local locks: mount $case" mounted "$flavor" "$connections" || continue
  as alice touch /n/alice/locked
  check "local locks: a program on the server holds a range $case" server hold || { unmounted; continue; }
  check "local locks: F_SETLK says that it is held $case" refused_lock write 100 100
  check "local locks: for reading, too $case" refused_lock read 199 1
  check "local locks: to the end of the file, too $case" refused_lock write 0 0
  check "local locks: the range before it is free $case" lock try write 0 100
  check "local locks: the range behind it is free $case" lock try write 200 0
  if [ -z "${waited:-}" ]; then
    # The server does not hear of the release, and the client asks again after up to 30 s: one
    # flavor says it for all.
    check "local locks: F_SETLKW waits, and has it after the release $case" waits write 150 10
    waited=1
  else
    check "local locks: the program releases it $case" server release
  fi
  check "local locks: then F_SETLK has it $case" lock try write 100 100
  if check "local locks: the client holds it $case" holding write 100 100; then
    check "local locks: the program is kept out $case" kept_out
    check "local locks: the client releases it $case" released
    check "local locks: the program has it $case" server try
  fi
  as alice rm -f /n/alice/locked
  unmounted
  echo "# local locks $case took $(since "$begin")"
done; done
finish
