# Requests of one Kerberos context over 1 to 16 connections, 64 of them in flight: all are answered, none is sent twice, no
# connection is made anew, and the server drops none for its sequence window (RFC 2203 section 5.3.3.1).
. /lab/lib.sh
default CONNECTIONS "1 2 4 8 16"
default FLAVORS "krb5 krb5p"
default ROUNDS 1
default LENGTH 3                         # seconds of each round

ticket alice
FILE=/n/alice/random

# Direct I/O: every read is a request.
laid_out() { [ -e $FILE ] || as alice dd if=/dev/zero of=$FILE bs=1M count=64 oflag=direct status=none; }
random_reads() {
  as alice timeout -s KILL $((LENGTH * 2 + 30)) fio --thread --name=random --filename=$FILE --size=64M --direct=1 --ioengine=libaio \
    --rw=randread --bs=4k --iodepth=64 --time_based --runtime="$LENGTH" --minimal >/tmp/fio.out 2>&1
}
rate() { cut -d';' -f8 /tmp/fio.out | tail -n 1; }

# transport: of the mount's connections, what was sent and not answered, what was sent once more than there were
# operations, how often all of them were connected, and the most times that one was.
transport() {
  awk '/xprt:/ { sent += $8; answered += $9; connects += $5; if ($5 > most) most = $5 }
    /per-op/ { operations = 1 }
    operations && $1 ~ /^[A-Z_]+:$/ { again += $3 - $2 }
    END { print sent - answered, again + 0, connects, most }' /proc/self/mountstats
}
# Since the mount: what the client has answered to the server's own calls counts as sent, too. A busy machine also makes
# the client connect once more while it mounts (2 on a connection are usual, 3 were seen), before it has sent a request.
nothing_lost() {
  set -- $(transport) $before
  echo "$(($1 - $5)) unanswered, $2 sent again, $(($3 - $7)) reconnects, $4 connects on a connection with the mount's"
  [ "$1" = "$5" ] && [ "$2" = 0 ] && [ "$3" = "$7" ]
}
no_drops() { server counters || return; cat /lab/server.counters; grep -q "window_drops=0 " /lab/server.counters; }

for flavor in $FLAVORS; do for connections in $(connections_of "$flavor"); do for round in $(seq "$ROUNDS"); do
  case="$flavor nconnect=$connections round $round"
  check "mount $case" mounted "$flavor" "$connections" || continue
  check "file $case" laid_out
  before=$(transport)
  check "random reads, 64 in flight: $case" random_reads
  check "nothing lost: $case" nothing_lost
  echo "# $case: $(rate) reads a second, $(nothing_lost)"
  unmounted
done; done; done
[ "$SERVER_KIND" != orthrus ] || check "no call was dropped for the window" no_drops
finish
