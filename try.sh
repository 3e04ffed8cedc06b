#!/bin/bash
# try.sh [FOLDER] — the main job in one command: a throw-away Kerberos realm, an NFSv4.1 server on FOLDER with all four
# flavors, the flavors compared on this machine, a table here and a report to look at. `./try.sh --ceph` does it on CephFS
# of a throw-away one-node cluster; `./try.sh --help` says more.
set -eu
here=$(dirname "$(readlink -f "$0")")
purpose=run
case "$#${1-}" in
  1-*) ;;
  # Not after the build.
  1*) [ -d "$1" ] || { echo "try: there is no folder $1: make it with mkdir, or name none" >&2; exit 2; } ;;
esac
case " $* " in *" --ceph "*) purpose=ceph ;; esac
"$here/scripts/setup.sh" "$purpose"
echo "try: building orthrus; the first build takes about 5 minutes on two free cores" >&2
cargo build --release --locked --manifest-path "$here/Cargo.toml" --package orthrus
exec "${CARGO_TARGET_DIR:-$here/target}/release/orthrus" try "$@"
