#!/bin/bash
# site.sh: runs every block of docs/site.md and docs/operations.md, word for word, on the machines that they name: two
# user-mode Linux kernels with Debian's systemd and a network of their own. Takes six minutes; prints `ok` or `FAIL`
# for each block.
#
# Exit status: 0 all ok, 1 a block failed, 77 this machine cannot run it (with the reason).
set -eu
LAB=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$LAB/../.." && pwd)
PATH=$PATH:/usr/sbin:/sbin

if [ "${1:-}" != inside ]; then
  . "$LAB/options.sh"
  options "$@" grants-slurm
  missing=$(requirements) || true
  [ -n "$missing" ] || [ -x /lib/systemd/systemd ] || missing="missing packages: apt install systemd"
  [ -z "$missing" ] || { echo "lab: cannot run here: $missing" >&2; exit $CANNOT_RUN; }
  RUN=$(mktemp -d "${TMPDIR:-/tmp}/orthrus-site.XXXXXX")
  trap '[ -z "$KEEP" ] || { echo "lab: kept $RUN" >&2; exit; }; rm -rf "$RUN"' EXIT
  trap 'exit 130' INT TERM HUP
  export RUN KERNEL MODULES MEMORY ORTHRUS TIME_LIMIT
  # All that runs inside ends with it, as in run.sh.
  setpriv --pdeathsig KILL unshare --net --mount --pid --uts --ipc --fork --kill-child=KILL --mount-proc "$0" inside
  exit
fi

# Turns each indented block after a line such as `**As alice on the node:**` into a file NUMBER.MACHINE.USER.
steps() {
  awk -v folder="$1" '
    function finish(   i, file) {
      for (i = 1; block != "" && i <= machines; i++) {
        file = sprintf("%s/%02d.%s.%s", folder, ++number, machine[i], user)
        printf "%s", block >file
        close(file)
      }
      block = ""
    }
    /^\*\*/ {
      finish()
      user = match($0, /As [a-z]+ on/) ? substr($0, RSTART + 3, RLENGTH - 6) : "root"
      machines = /both machines/ ? 2 : 1
      machine[1] = /node/ ? "node" : "server"
      machine[2] = "node"
      next
    }
    /^    / { if (!machines) { print "a block without a machine: " $0; exit 1 } block = block substr($0, 5) "\n"; next }
    /^$/ { if (block != "") block = block "\n"; next }
    { finish(); machines = 0 }
    END { finish() }' "$ROOT/docs/site.md" "$ROOT/docs/operations.md"
}

# machine NAME ADDRESS TAP: boots one in the background.
machine() {
  timeout -k 5 "$TIME_LIMIT" "$KERNEL" mem="$MEMORY" rootfstype=hostfs rootflags=/ rw init="$LAB/guest/systemd.sh" \
    SHARE="$RUN/share" MODULES="$MODULES" MACHINE="$1" ADDRESS="$2" vec0:transport=tap,ifname="$3",depth=128,gro=1 \
    umid="$1" uml_dir="$RUN/uml" con=null con0=null,fd:1 panic=-1 </dev/null >"$RUN/$1.log" 2>&1 &
}

mount --make-rprivate /
mkdir -p "$RUN"/{uml,share/steps,package}
for version in 0.1.0 0.1.1; do
  file=$(VERSION=$version CARGO_TARGET_DIR="$RUN" "$ROOT/scripts/package.sh") && mv "$file" "$RUN/share/"
done
cp "$LAB/guest/steps.sh" "$RUN/share/"
steps "$RUN/share/steps"
ip link add site0 type bridge && ip link set site0 up
for tap in tap1 tap2; do ip tuntap add dev $tap mode tap && ip link set $tap master site0 up; done
machine server 10.78.0.1 tap1
machine node 10.78.0.2 tap2
wait

code=0
for step in "$RUN"/share/steps/*.*.*; do
  name=${step##*/} number=${step##*/}
  number=$RUN/share/steps/${number%%.*}
  if [ "$(cat "$number.done" 2>/dev/null)" = 0 ]; then
    echo "ok site: ${name} ($(cat "$number.time"))"
  else
    code=1
    echo "FAIL site: ${name}: $(tail -n 3 "$number.out" 2>/dev/null | tr '\n' ' ' || echo "it did not run")"
    cat "$step" "$number.out" "$number.journal" >&2 2>/dev/null || tail -n 30 "$RUN"/*.log >&2
    break
  fi
done
exit $code
