#!/bin/sh
# torque_ended.sh: announces jobs of Torque that have ended, so that their nodes get no more tickets and their grants
# make room for others. Torque's server runs nothing at the end of a job, but writes a line with "E" to the accounting
# file of the day. A cron job of the server reads that of yesterday:
#
#     10 0 * * * root sh torque_ended.sh </var/spool/torque/server_priv/accounting/$(date -d yesterday +\%Y\%m\%d)
#
# grants.conf has ORTHRUS_GRANTS, GRANTS_REALM, GRANTS_KEYTAB and GRANTS_PRINCIPAL, as for Slurm. Tasks of an array are
# left out, since others of them may still run.
. "${GRANTS_CONF:-/var/spool/torque/server_priv/grants.conf}"
export ORTHRUS_GRANTS
while IFS=';' read -r _ event job text; do
  case $job in
    *\[*) continue ;;
  esac
  [ "$event" = E ] || continue
  user=${text#user=}
  "${ORTHRUS:-orthrus}" grants assign --keytab "$GRANTS_KEYTAB" --principal "$GRANTS_PRINCIPAL" \
    --of "${user%% *}@$GRANTS_REALM" --job "$job" --run "$job" --over </dev/null ||
    logger -t orthrus-grants "job $job: its end is not announced"
done
