#!/bin/bash
# image.sh: builds the image with scripts/package.sh and runs it with podman and crun: as root with the rights that the
# server needs, without them, and as a user with none, on a read-only root. Containers have no network. Needs root,
# podman, crun and a release build; takes half a minute and prints `ok` or `FAIL` for each step.
#
# Exit status: 0 all ok, 1 a step failed, 77 this machine cannot run it (with the reason).
set -eu
HERE=$(cd "$(dirname "$0")/../.." && pwd)
cannot() { echo "image: cannot run here: $*" >&2; exit 77; }
[ "$(id -u)" = 0 ] || cannot "only root can mount cgroups"
for tool in podman crun unshare ktutil; do
  command -v $tool >/dev/null || cannot "no $tool (apt install podman crun util-linux krb5-user)"
done
if [ "${1-}" != inside ]; then
  # crun wants the unified hierarchy of cgroups, whatever the machine has.
  exec unshare --mount --propagation private "$0" inside
fi
umount --recursive /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup

WORK=$(mktemp -d "${TMPDIR:-/tmp}/orthrus-image.XXXXXX")
pod() { podman --root "$WORK/root" --runroot "$WORK/run" --tmpdir "$WORK/tmp" "$@"; }
end() { pod rm --all --force >/dev/null 2>&1 || true; umount "$WORK/root/overlay" 2>/dev/null || true; rm -rf "$WORK"; }
trap end EXIT
trap 'exit 130' INT TERM HUP
export ORTHRUS=${ORTHRUS:-$HERE/target/release/orthrus}
image=$(CARGO_TARGET_DIR="$WORK/target" "$HERE/scripts/package.sh" oci)
mkdir -m 777 "$WORK/data"

# run ARGUMENT...: runs a container of its own. A machine may allow no more files and processes than it has itself.
run() {
  pod run --cgroups=disabled --network=none \
    --ulimit nofile=20000:20000 --ulimit nproc=32768:32768 --volume "$WORK/data:/srv/data" "$@"
}
code=0
# step NAME COMMAND...: runs the command, and prints the end of its output if it fails.
step() {
  local name=$1
  shift
  if "$@" >"$WORK/output" 2>&1; then
    echo "ok image: $name"
  else
    echo "FAIL image: $name: $(tail -n 5 "$WORK/output" | tr '\n' ' ')"
    code=1
  fi
}
says() { # WORDS COMMAND...: the command's output has the words, whatever its status is.
  local words=$1
  shift
  "$@" 2>&1 | tee "$WORK/said" | grep -F -- "$words" || { cat "$WORK/said"; return 1; }
}
serving() { # CONTAINER OPTION...: waits until the command in the container lists the export.
  local container=$1
  shift
  for _ in $(seq 100); do pod exec "$container" orthrus exports "$@" | grep /data && return; sleep 0.1; done
  pod logs "$container"
  return 1
}
# ended CONTAINER: checks that it has ended with success.
ended() { [ "$(pod inspect --format '{{.State.ExitCode}}' "$1")" = 0 ]; }
rights='--cap-add=DAC_READ_SEARCH,LEASE'
keytab() { printf 'addent -password -p nfs/server@EXAMPLE.ORG -k 1 -e aes256-cts-hmac-sha1-96\nsecret\nwkt %s\n' "$WORK/data/keytab" | ktutil; }

step "load" pod load --quiet --input "$image"
name=$(pod images --format '{{.Repository}}:{{.Tag}}' | head -n 1)
step "version" says "orthrus 0" run --rm "$name" --version
step "no configuration, no start" says "nothing is exported" run --rm "$name"
step "root without its rights serves nobody" says "CAP_DAC_READ_SEARCH" run --rm "$name" serve --sec sys /srv/data
step "serve" run $rights --detach --name root "$name" serve --sec sys /srv/data
step "the commands inside" serving root
step "it acts as its callers, in its sandbox" says "with the caller's own identity" pod logs root
step "it ends with success" pod stop --time 20 root
step "its status" ended root
step "a keytab" keytab
step "Kerberos" says "the configuration is right" run --rm $rights "$name" serve --check --keytab /srv/data/keytab /srv/data
step "as a user without rights, on a read-only root" run --detach --name user --user 1000:1000 --cap-drop=all --read-only \
  --tmpfs /var/lib/orthrus:mode=1777 "$name" serve --sec sys --state-dir /var/lib/orthrus/state /srv/data
step "its commands" serving user --state-dir /var/lib/orthrus/state
step "it has no shell" says "not found" run --rm --entrypoint sh "$name"
exit $code
