#!/bin/sh
# grants.sh: Slurm's prologs and epilogs, and the commands of cli_filter.lua.
#
# Slurm says in SLURM_SCRIPT_CONTEXT which of them it runs. A prolog that fails would drain its node, so these
# always succeed: a job without tickets is refused by the file server, not by Slurm. Their errors go to syslog.
PATH=$PATH:/usr/local/bin:/usr/bin:/bin
. "$(dirname "$0")/grants.conf"
# Slurm's own programs find the cluster by it.
SLURM_CONF=${SLURM_CONF:-$(dirname "$0")/slurm.conf}
export ORTHRUS_GRANTS SLURM_CONF

# The name of this job in grants is that of the array or of the heterogeneous job, if it is a part of one.
job=${SLURM_ARRAY_JOB_ID:-${SLURM_HET_JOB_ID:-$SLURM_JOB_ID}}

assign() {
  "$ORTHRUS" grants assign --keytab "$GRANTS_KEYTAB" --principal "$GRANTS_PRINCIPAL" \
    --of "$SLURM_JOB_USER@$GRANTS_REALM" --job "$job" --run "$SLURM_JOB_ID" "$@"
}

nodes() {
  for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    printf '%s%s%s' "$comma" "$node" "$GRANTS_DOMAIN"
    comma=,
  done
}

run() {
  case $1 in
    prolog_slurmctld) assign --node "$(nodes)" ;;
    epilog_slurmctld) assign --over ;;
    # A node knows only the name of the run; the service knows its array.
    prolog_slurmd) "$ORTHRUS" grants attach --job "$SLURM_JOB_ID" --user "$SLURM_JOB_USER" --realm "$GRANTS_REALM" ;;
    epilog_slurmd) "$ORTHRUS" grants detach --run "$SLURM_JOB_ID" ;;
    submit) exec "$ORTHRUS" grants submit --job "$2" --for "$GRANTS_FOR" ;;
    *) echo "grants.sh: unknown context $1" >&2; return 2 ;;
  esac
}

if [ $# -gt 0 ]; then
  run "$@"
else
  said=$(run "$SLURM_SCRIPT_CONTEXT" 2>&1) || logger -t orthrus-grants "job $SLURM_JOB_ID: $SLURM_SCRIPT_CONTEXT: $said"
  exit 0
fi
