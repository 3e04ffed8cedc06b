#!/bin/sh
# torque.sh: Torque's prologue and epilogue on the first node of a job. Install it as mom_priv/prologue and
# mom_priv/epilogue; Torque gives the job as the first argument and the user as the second. The grant must name the
# node (`--node`), since Torque's server announces none.
. "${GRANTS_CONF:-/var/spool/torque/mom_priv/grants.conf}"
export ORTHRUS_GRANTS
case $(basename "$0") in
  prologue*) "${ORTHRUS:-orthrus}" grants attach --job "$1" --user "$2" --realm "$GRANTS_REALM" ;;
  epilogue*) "${ORTHRUS:-orthrus}" grants detach --run "$1" ;;
esac || logger -t orthrus-grants "job $1: $(basename "$0") failed"
exit 0
