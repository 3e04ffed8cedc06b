# Databases on the mount: PostgreSQL, and SQLite of two clients. The server is killed and upgraded under both, and the
# processes of PostgreSQL are killed as well. Each transaction that was committed is there once, and all checks of the
# databases pass. TRANSACTIONS says how many each of four clients of pgbench makes at a time.
. /lab/lib.sh
. /lab/second.sh
default FLAVORS krb5p
default CONNECTIONS 4
default TRANSACTIONS 100
PROGRAMS=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
DATA=/n/alice/postgres

equal() { [ "$1" = "$2" ] || { echo "$2, not $1"; return 1; }; }
# program NAME ARGUMENT...: one of PostgreSQL, as alice, at her server.
program() { local name=$1; shift; as alice env PGHOST=/tmp "$PROGRAMS/$name" "$@"; }
postgres() { program pg_ctl -D $DATA -l /tmp/postgres.log -w -t 120 "$@" >/tmp/ctl 2>&1 || { cat /tmp/ctl; tail /tmp/postgres.log; return 1; }; }
made() {
  program initdb -D $DATA --data-checksums --auth trust --locale C >/tmp/initdb 2>&1 || { cat /tmp/initdb; return 1; }
  as alice sh -c "printf '%s\n' \"listen_addresses = ''\" \"unix_socket_directories = '/tmp'\" 'shared_buffers = 16MB' \
    'max_wal_size = 64MB' 'checkpoint_timeout = 30s' >>$DATA/postgresql.conf"
}
filled() { program createdb bench && program pgbench --initialize --quiet --scale 2 bench; }
transactions() { program pgbench --no-vacuum --client 4 --transactions "$1" bench; }
# pgbench adds the same amount to one row of each table, and a row with it to the history.
consistent() {
  local sums
  sums=$(program psql -XAt -d bench -c "select (select sum(abalance) from pgbench_accounts) = sum(delta),
    (select sum(tbalance) from pgbench_tellers) = sum(delta), (select sum(bbalance) from pgbench_branches) = sum(delta),
    count(*) >= $1 from pgbench_history") && equal 't|t|t|t' "$sums"
}
# during COMMAND...: the command, while pgbench makes ten times as many transactions; none may fail.
during() {
  local bench
  transactions $((TRANSACTIONS * 10)) >/tmp/pgbench 2>&1 & bench=$!
  sleep 2
  kill -0 $bench || { echo "pgbench ended too early"; cat /tmp/pgbench; return 1; }
  "$@" || { kill $bench; return 1; }
  wait $bench && grep -q 'failed transactions: 0 ' /tmp/pgbench || { cat /tmp/pgbench; return 1; }
}
restarted() { server kill && sleep 1 && server start || { cat /lab/server.answer; return 1; }; }
upgraded() { local i; for i in 1 2 3; do server upgrade || { cat /lab/server.answer; return 1; }; sleep 0.5; done; }
killed() {
  local bench
  transactions 100000 >/tmp/pgbench 2>&1 & bench=$!
  sleep 3
  as alice pkill -KILL -x postgres
  ! wait $bench && postgres start
}
copied() {
  program pg_basebackup -D /n/alice/backup --wal-method stream --checkpoint fast && program pg_verifybackup -q /n/alice/backup
}

postgresql() {
  check "databases: PostgreSQL makes its folder $1" made || return
  check "databases: it starts $1" postgres start || return
  check "databases: tables are filled $1" filled || return
  check "databases: transactions $1" transactions $TRANSACTIONS
  check "databases: none fails while the server is killed $1" during restarted
  check "databases: none fails while the server is upgraded $1" during upgraded
  check "databases: each is there once $1" consistent $((TRANSACTIONS * 84))
  check "databases: PostgreSQL recovers after SIGKILL $1" killed
  check "databases: the sums agree $1" consistent $((TRANSACTIONS * 84))
  check "databases: tables and indexes are sound $1" program pg_amcheck --install-missing --all --heapallindexed --parent-check
  check "databases: tables are written anew $1" program vacuumdb --full --quiet --all
  check "databases: a copy of all files is sound $1" copied
  check "databases: it stops $1" postgres stop
  check "databases: the checksums of all pages are right $1" program pg_checksums -D $DATA --check
}

new_counter() {
  as alice sqlite3 "$1" "pragma journal_mode = $2; create table counter (n int); insert into counter values (0);
    create table work (process int, number int, pad text); create index place on work (process, number)" >/dev/null
}
sound() { equal "ok $2" "$(as alice sqlite3 "$1" 'pragma integrity_check; select n from counter' | tr '\n' ' ' | sed 's/ $//')"; }
# counted COUNT COMMAND...: the command, while two processes of each client add to the counter.
counted() {
  local count=$1 place workers= worker; shift
  for place in /n /n /tmp/second /tmp/second; do
    as alice python3 /run/counter.py $place/alice/counter "$count" >>/tmp/counted 2>&1 & workers="$workers $!"
  done
  sleep 1
  "$@" || { kill $workers; return 1; }
  for worker in $workers; do wait "$worker" || { cat /tmp/counted; return 1; }; done
}
sqlite() {
  local journal
  for journal in delete truncate persist; do
    check "databases: SQLite makes a database, journal $journal $1" new_counter /n/alice/counter $journal || continue
    check "databases: two clients count while the server is killed, journal $journal $1" counted 60 restarted
    check "databases: and while it is upgraded, journal $journal $1" counted 60 upgraded
    check "databases: nothing is lost for the one, journal $journal $1" sound /n/alice/counter 480
    check "databases: nor for the other, journal $journal $1" sound /tmp/second/alice/counter 480
    as alice rm -f /n/alice/counter*
  done
}

ticket alice
cp /lab/counter.py /run/
for flavor in $FLAVORS; do for connections in $(connections_of "$flavor"); do
  begin=$(seconds) case="$flavor nconnect=$connections"
  check "databases: mount $case" mounted "$flavor" "$connections" || continue
  check "databases: mount of the second client $case" second_mounted "$flavor" "$connections" || continue
  postgresql "$case"
  sqlite "$case"
  as alice rm -rf $DATA /n/alice/backup
  second_unmounted
  unmounted
  echo "# databases $case took $(since "$begin")"
done; done
finish
