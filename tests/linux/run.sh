#!/bin/bash
# run.sh: mounts a server with the Linux kernel's own NFS client and runs jobs on it. `run.sh --help` says how.
#
# This half runs outside: it looks whether the machine can do it, makes the run's folder, and hands over to
# inside.sh in private namespaces. Those end with it, whatever happens to either, and so does all that is in them.
set -eu
LAB=$(cd "$(dirname "$0")" && pwd)
# The guest's files that `orthrus lab` has as well.
GUEST=$(cd "$LAB/../../crates/cluster/src/guest" && pwd)
PATH=$PATH:/usr/sbin:/sbin
. "$LAB/options.sh"

options "$@"
missing=$(requirements) || true
if [ -n "$missing" ]; then
  echo "lab: cannot run here: $missing" >&2
  exit "$CANNOT_RUN"
fi

RUN=$(mktemp -d "${TMPDIR:-/tmp}/orthrus-lab.XXXXXX")
export CANNOT_RUN LAB GUEST RUN SERVER GANESHA_ROOT ENCTYPES EXPORT_ON STABLE_NAMES KERNEL MODULES MEMORY TIME_LIMIT JOBS SETTINGS ORTHRUS REALM_UP
code=0
# --kill-child and --pid: when `unshare` ends, the first process inside is killed, and with it everything there.
# --pdeathsig: `unshare` ends with this shell, even one that is killed hard.
setpriv --pdeathsig KILL unshare --net --mount --pid --uts --ipc --fork --kill-child=KILL --mount-proc \
  /bin/bash "$LAB/inside.sh" &
inside=$!
end() {
  { kill -KILL $inside && wait $inside; } 2>/dev/null || true
  if [ -n "$KEEP" ]; then echo "lab: kept $RUN" >&2; else rm -rf "$RUN"; fi
}
trap end EXIT
trap 'exit 130' INT TERM HUP
wait $inside || code=$?
exit $code
