# lib.sh: what jobs are written with. Sourced by each job.
#
# Variables, from `run.sh --set`: FLAVORS, CONNECTIONS (values of nconnect, or `alternate`),
# VERSION, FILES, OPTIONS (more mount options). SERVER_KIND says what serves: orthrus, ganesha or
# another; EXPORT_ON and ENCTYPES are those of run.sh.
set -u
FLAVORS="sys krb5 krb5i krb5p" CONNECTIONS="1 8" VERSION=4.2 FILES=10000 OPTIONS=
. /lab/settings
SERVER=server.orthrus.test
failures=0

# default NAME VALUE: what a job has where `run.sh --set` says nothing.
default() { grep -q "^$1=" /lab/settings || printf -v "$1" %s "$2"; }

# connections_of FLAVOR: the values of nconnect for it. `alternate` gives every other flavor 1, and
# 8 to the rest.
connections_of() {
  local flavor count=8
  [ "$CONNECTIONS" = alternate ] || { echo "$CONNECTIONS"; return; }
  for flavor in $FLAVORS; do
    count=$((9 - count))
    [ "$flavor" != "$1" ] || echo $count
  done
}

ok() { echo "ok $*"; }
fail() { failures=$((failures + 1)); echo "FAIL $*"; }

# check NAME COMMAND...: one line for a command that must succeed; what it printed is the reason if
# it does not.
check() {
  local name=$1 said; shift
  if said=$("$@" 2>&1); then ok "$name"; else fail "$name: $(echo "$said" | tail -n 3 | tr '\n' ' ' | cut -c1-300)"; return 1; fi
}

# refused NAME PATTERN COMMAND...: one line for a command that must fail, and say why.
refused() {
  local name=$1 pattern=$2 said; shift 2
  if said=$("$@" 2>&1); then fail "$name: it succeeded"; return 1; fi
  if echo "$said" | grep -Eqi "$pattern"; then ok "$name"; else fail "$name: another reason: $(echo "$said" | tail -n 2 | tr '\n' ' ')"; fi
}

# as USER COMMAND...: with the user's identity and nothing of root's.
as() { local user=$1; shift; (cd /tmp && exec setpriv --reuid "$user" --regid "$user" --clear-groups env HOME=/tmp "$@"); }

ticket() { as "$1" kinit -k -t /run/users.keytab "$1"; }
no_ticket() { as "$1" kdestroy -q -A 2>/dev/null; true; }

# mounted FLAVOR CONNECTIONS [EXPORT]: on /n. Of one server all mounts share the connections, so
# each begins without any.
mounted() {
  mount -t nfs4 -o "vers=$VERSION,sec=$1,nconnect=$2$OPTIONS" "$SERVER:${3:-/export}" /n
}
unmounted() { umount /n || { umount -f /n; umount -l /n; }; }

# server kill | server start | server counters | server cpu | server "names COUNT": asks the host,
# and waits for its answer.
server() {
  rm -f /lab/server.answer
  echo "$1" >/lab/server.ask.new && mv /lab/server.ask.new /lab/server.ask
  local i answer
  for i in $(seq 600); do
    [ -f /lab/server.answer ] && { answer=$(cat /lab/server.answer); [ "$answer" = done ]; return; }
    sleep 0.05
  done
  return 1
}

# server_cpu: milliseconds of processor time that the server has used.
server_cpu() { server cpu && cat /lab/server.cpu; }

sums() { (cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum); }
seconds() { cut -d' ' -f1 /proc/uptime; }
since() { awk -v now="$(seconds)" -v then="$1" 'BEGIN { printf "%.1f s", now - then }'; }
finish() { [ "$failures" = 0 ]; exit; }
