#!/bin/sh
# install.sh [FOLDER]: installs the hooks beside slurm.conf (default: /etc/slurm) and names them in it. Run it on
# login nodes, the controller and compute nodes, edit grants.conf, then restart slurmctld and slurmd.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-/etc/slurm}
conf=$folder/slurm.conf
[ -f "$conf" ] || { echo "install: no $conf" >&2; exit 1; }
if ! grep -q "^# orthrus grants" "$conf"; then
  for setting in Prolog Epilog PrologSlurmctld EpilogSlurmctld CliFilterPlugins; do
    if grep -qi "^ *$setting *=" "$conf"; then
      echo "install: $conf has a $setting already: call $folder/grants.sh from it, and remove it from this list" >&2
      exit 1
    fi
  done
  # Slurm uses the last line alone, so that another one would switch off Contain. Contain and X11 imply Alloc.
  flags=PrologFlags=Alloc
  if grep -qi "^ *PrologFlags *=" "$conf"; then
    flags=
    if ! grep -qiE "^ *PrologFlags *=.*(Alloc|Contain|X11)" "$conf"; then
      echo "install: add Alloc to PrologFlags in $conf" >&2
      exit 1
    fi
  fi
fi
install -m 755 "$here/grants.sh" "$folder/grants.sh"
install -m 644 "$here/cli_filter.lua" "$folder/cli_filter.lua"
[ -f "$folder/grants.conf" ] || install -m 644 "$here/grants.conf" "$folder/grants.conf"
grep -q "^# orthrus grants" "$conf" || cat >>"$conf" <<C
# orthrus grants
Prolog=$folder/grants.sh
Epilog=$folder/grants.sh
PrologSlurmctld=$folder/grants.sh
EpilogSlurmctld=$folder/grants.sh
CliFilterPlugins=lua
$flags
C
