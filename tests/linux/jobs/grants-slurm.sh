# Slurm of Debian in the guest: munge, slurmctld as the user slurm, slurmd. Its jobs use a krb5p mount with tickets of five
# seconds, from the hooks of scripts/batch/slurm.
. /lab/lib.sh
default ROUNDS 52
export ORTHRUS_GRANTS=server.orthrus.test SLURM_CONF=/run/slurm/slurm.conf PATH=$PATH:/run/bin
no_ticket alice
no_ticket bob

slurm_up() {
  local user folder
  for folder in /run/slurm /run/slurm/state /run/slurm/spool /run/munge /run/bin /run/out; do install -d -m 755 "$folder"; done
  chown slurm: /run/slurm /run/slurm/state
  mkdir -p /run/login && chmod 1777 /run/out /run/login
  cp /lab/orthrus /run/bin/orthrus
  chown munge: /run/munge
  as munge mungekey --create --keyfile /run/munge/key
  as munge munged --force --key-file /run/munge/key --socket /run/munge/socket --pid-file /run/munge/pid \
    --log-file /run/munge/log --seed-file /run/munge/seed || return
  cat >$SLURM_CONF <<C
ClusterName=lab
SlurmctldHost=client(127.0.0.1)
AuthInfo=socket=/run/munge/socket,cred_expire=15
SlurmUser=slurm
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/run/slurm/slurmctld.log
SlurmdLogFile=/run/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2
ReturnToService=2
KillWait=1
MpiDefault=none
NodeName=client NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=client Default=YES
C
  # slurmd wants control groups to be there, although nothing here uses them.
  mount -t tmpfs tmpfs /sys/fs/cgroup
  echo CgroupPlugin=cgroup/v1 >/run/slurm/cgroup.conf
  sh /lab/slurm/install.sh /run/slurm >/dev/null || return
  install -o slurm -m 600 /etc/krb5.keytab /run/slurm/grants.keytab
  cat >/run/slurm/grants.conf <<C
ORTHRUS_GRANTS=server.orthrus.test
GRANTS_REALM=ORTHRUS.TEST
GRANTS_DOMAIN=.orthrus.test
GRANTS_KEYTAB=/run/slurm/grants.keytab
GRANTS_PRINCIPAL=host/client.orthrus.test@ORTHRUS.TEST
GRANTS_FOR=10m
ORTHRUS=/run/bin/orthrus
C
  (as slurm slurmctld -D >/run/slurm/ctld.out 2>&1 &)
  (slurmd -D -N client >/run/slurmd.out 2>&1 &)
  until_true 40 eval "sinfo -h -o %T | grep -qx idle" || { sinfo; tail -n 5 /run/slurm/slurmctld.log /run/slurmd.log; return 1; }
}
until_true() { local i end=$1; shift; for i in $(seq $((end * 2))); do "$@" >/dev/null 2>&1 && return 0; sleep 0.5; done; return 1; }

# submitted USER ARGUMENTS...: submits with a ticket that is then destroyed; `job` is its number.
submitted() {
  local user=$1; shift
  # Where rpc.gssd does not look, as on a login node: only the job's tickets can open files here.
  as "$user" env KRB5CCNAME=/run/login/$user kinit -k -t /run/users.keytab "$user" || return
  as "$user" env KRB5CCNAME=/run/login/$user SLURM_CONF=$SLURM_CONF PATH="$PATH" \
    sbatch --parsable -D /tmp "$@" >/run/job || return
  as "$user" kdestroy -q -c /run/login/$user
}
job() { cat /run/job; }
state() { scontrol show job "$1" 2>/dev/null | grep -o 'JobState=[A-Z]*' | sort | uniq -c | tr '\n' ' '; }
is_state() { [ "$(state "$1")" = "$(printf '%7d JobState=%s ' "$3" "$2")" ]; }
completes() { until_true "$2" is_state "$1" COMPLETED "${3:-1}" || { state "$1"; tail -n 3 /run/out/*; tail -n 3 /run/slurm/slurmctld.log; return 1; }; }
script() { printf '#!/bin/bash\n%s\n' "$2" >"/run/$1.sh"; chmod 755 "/run/$1.sh"; }
tickets_gone() { until_true 15 test ! -e /tmp/krb5cc_5001_orthrus; }

script work 'n=/n/alice/work-$SLURM_JOB_ID; for i in $(seq '"$ROUNDS"'); do
  echo $i >>$n && [ $(wc -l <$n) = $i ] || { echo "round $i"; exit 1; }; sleep 1; done; klist 2>&1 | grep -q krbtgt && exit 2; exit 0'
script task 'echo $SLURM_ARRAY_TASK_ID >/n/alice/task-$SLURM_ARRAY_TASK_ID && sleep 7 && cat /n/alice/task-$SLURM_ARRAY_TASK_ID'
script again 'echo run-$SLURM_RESTART_COUNT >>/n/alice/again && echo >/run/out/started; if [ -z "$SLURM_RESTART_COUNT" ]; then sleep 100; fi; sleep 6; grep -c run /n/alice/again'
script long 'touch /n/alice/long; sleep 100'
script intrude 'ls /n/bob && exit 1; touch /n/bob/x && exit 1; exit 0'

check "slurm: munge, slurmctld and slurmd with the hooks" slurm_up || finish
(orthrus grants agent >/lab/agent.log 2>&1 &)
check "slurm: mount krb5p" mounted krb5p 1 || finish
refused "slurm: alice without a ticket is refused" "permission denied|key has expired|required key" as alice ls /n/alice
sleep 6                                  # the client remembers for some seconds that she had no context
refused "slurm: without a ticket a submission is refused with the remedy" kinit \
  as alice env SLURM_CONF=$SLURM_CONF PATH="$PATH" sbatch -D /tmp -o /run/out/%j /run/work.sh

if check "slurm: alice submits a job" submitted alice -o /run/out/%j /run/work.sh; then
  first=$(job)
  check "slurm: bob submits one without a grant" eval \
    'as bob env SLURM_CONF=$SLURM_CONF PATH="$PATH" ORTHRUS_GRANT=0 sbatch --parsable -D /tmp -o /run/out/%j /run/intrude.sh >/run/job'
  intruder=$(job)
  check "slurm: alice submits an array" submitted alice -a 1-3 -o /run/out/%A_%a /run/task.sh; array=$(job)
  check "slurm: alice submits a job to requeue" submitted alice --requeue -o /run/out/%j /run/again.sh; again=$(job)
  check "slurm: bob is refused on the same node" completes "$intruder" 30
  check "slurm: the tasks of the array read and write" completes "$array" 60 3
  check "slurm: the job to requeue runs" until_true 30 test -s /run/out/started
  check "slurm: it is requeued" scontrol requeue "$again"
  check "slurm: the requeued job reads and writes" completes "$again" 150
  check "slurm: a job of $ROUNDS s reads and writes with tickets of 5 s" completes "$first" $((ROUNDS + 30))
  check "slurm: after the last job no tickets are left" tickets_gone
fi
# As in the shell of salloc, or in a job: another job needs a grant of its own.
refused "slurm: within a job a submission without a ticket is refused" ORTHRUS_GRANT=0 \
  as alice env SLURM_JOB_ID=1 SLURM_CONF=$SLURM_CONF PATH="$PATH" sbatch -D /tmp -o /run/out/%j /run/work.sh
export SLURM_JOB_ID=1
if check "slurm: alice submits a job within a job" submitted alice -o /run/out/%j /run/long.sh; then
  unset SLURM_JOB_ID
  check "slurm: it has a grant of its own" until_true 20 test -e /tmp/krb5cc_5001_orthrus
  check "slurm: it is cancelled" scancel "$(job)"
  check "slurm: its tickets are gone" tickets_gone
fi
unset SLURM_JOB_ID
if check "slurm: alice submits a long job" submitted alice -o /run/out/%j /run/long.sh; then
  check "slurm: it has tickets" until_true 20 test -e /tmp/krb5cc_5001_orthrus
  check "slurm: it is cancelled" scancel "$(job)"
  check "slurm: the tickets of the cancelled job are gone" tickets_gone
fi
unmounted
finish
