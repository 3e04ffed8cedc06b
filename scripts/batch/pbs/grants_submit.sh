#!/bin/sh
# grants_submit.sh: `qsub` with a grant. Put it before qsub in the PATH of login nodes, as qsub, with QSUB naming the real
# one. A submission without a live ticket is refused, and a job without a grant is deleted.
klist -s || { echo "qsub: no live Kerberos ticket: run kinit, then submit again" >&2; exit 1; }
job=$("${QSUB:-/opt/pbs/bin/qsub}" "$@") || exit
"${ORTHRUS:-orthrus}" grants submit --job "$job" --for "${GRANTS_FOR:-7d}" >&2 || {
  "${QDEL:-qdel}" "$job"
  echo "qsub: job $job has no grant and is deleted" >&2
  exit 1
}
echo "$job"
