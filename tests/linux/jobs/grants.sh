# A batch job that outlives its tickets, which live for five seconds: no ticket-granting ticket of its user is on this node.
. /lab/lib.sh
default ROUNDS 60
GRANTS="/lab/orthrus grants"
export ORTHRUS_GRANTS=server.orthrus.test
no_ticket alice
no_ticket bob

submit() { ticket alice; as alice $GRANTS submit --job 7 --for 10m; local code=$?; no_ticket alice; return $code; }
attached() { $GRANTS attach --job 7 --user alice --dir /run/grants --wait 15 | tee /tmp/attached; grep -q krb5cc_5001_orthrus /tmp/attached; }
no_tgt() { ! klist -c /tmp/krb5cc_5001_orthrus | grep -q "krbtgt.*renew" && ! as alice klist; }
# Once a second: append a line, and read all of them back.
works() {
  local round
  for round in $(seq "$ROUNDS"); do
    as alice bash -c "echo $round >>/n/alice/job && [ \$(wc -l </n/alice/job) = $round ]" || { echo "round $round"; return 1; }
    sleep 1
  done
}
refused_soon() { local i; for i in $(seq 30); do as "$1" ls "$2" >/dev/null 2>&1 || return 0; sleep 1; done; return 1; }

refused "grants: without a ticket a submission is refused with the remedy" kinit as alice $GRANTS submit --job 7
check "grants: alice submits with a live ticket" submit
check "grants: the scheduler names the node" $GRANTS assign --keytab /etc/krb5.keytab --principal host/client.orthrus.test \
  --of alice@ORTHRUS.TEST --job 7 --node client.orthrus.test
($GRANTS agent --dir /run/grants >/lab/agent.log 2>&1 &)
check "grants: the prolog attaches the job" attached
check "grants: the node has no ticket-granting ticket" no_tgt
if check "grants: mount krb5p" mounted krb5p 1; then
  check "grants: a job of $ROUNDS s reads and writes with tickets of 5 s" works
  refused "grants: bob without a grant is refused on the same node" "permission denied|key has expired|required key" as bob ls /n/bob
  check "grants: the epilog detaches the job" $GRANTS detach --run 7 --dir /run/grants
  check "grants: its tickets are gone" test ! -e /tmp/krb5cc_5001_orthrus
  check "grants: soon the user is refused" refused_soon alice /n/alice
  unmounted
fi
finish
