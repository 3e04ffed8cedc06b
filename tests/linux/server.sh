# server.sh: the server under test, started, killed and started again. Sourced by inside.sh.

# Two exports: /export for all flavors and /private for krb5p only; a folder for each user in both.
exports() {
  export LAB_EXPORT=$RUN/export LAB_PRIVATE=$RUN/private LAB_KEYTAB=$RUN/realm/server.keytab
  if [ "$EXPORT_ON" = ceph ]; then ceph_exports; else folder_exports; fi
  # What servers keep in these folders is not the machine's.
  mount -t tmpfs tmpfs /run
  [ ! -d /var/lib/nfs ] || mount -t tmpfs tmpfs /var/lib/nfs
}

folder_exports() {
  for folder in "$LAB_EXPORT" "$LAB_PRIVATE"; do
    export_on "$folder"
    mkdir -p "$folder"/{alice,bob}
    chown 5001:5001 "$folder/alice"; chown 5002:5002 "$folder/bob"
    chmod 755 "$folder" "$folder/alice" "$folder/bob"
  done
}

# Starts a one-node cluster with the directories /export and /private. It ends with these namespaces, and its folder with
# that of the run.
ceph_exports() {
  mkfifo "$RUN/ceph.end"
  : >"$RUN/ceph.conf.name"
  TMPDIR=$RUN "$(dirname "$ORTHRUS")/miniceph" export export/alice:5001 export/bob:5002 private private/alice:5001 private/bob:5002 \
    <>"$RUN/ceph.end" >"$RUN/ceph.conf.name" 2>"$RUN/ceph.log" &
  local i
  for i in $(seq 1200); do
    CEPH_CONF=$(cat "$RUN/ceph.conf.name")
    [ -z "$CEPH_CONF" ] || return 0
    kill -0 $! 2>/dev/null || break
    sleep 0.05
  done
  echo "lab: cannot run here: no cluster: $(cat "$RUN/ceph.log")" >&2
  exit "$CANNOT_RUN"
}

# Mounts the cluster's /export for programs of this machine: a native client beside the server.
ceph_client() {
  mountpoint -q "$LAB_EXPORT" && return
  mkdir -p "$LAB_EXPORT"
  ceph-fuse -c "$CEPH_CONF" -n client.admin -r /export --client_acl_type=posix_acl --client_permissions=true \
    -o allow_other,default_permissions "$LAB_EXPORT" >>"$RUN/ceph.log" 2>&1
}

# Mounts what the exports are to lie on: nothing, tmpfs, or a file system in a file.
export_on() {
  local size=600M
  case $JOBS in *xfstests.sh*) size=6G ;; esac
  case $EXPORT_ON in
    disk) ;;
    tmpfs) mount -t tmpfs tmpfs "$1" ;;
    *) truncate -s $size "$1.image" && "mkfs.$EXPORT_ON" -q "$1.image" >/dev/null && mount -o loop "$1.image" "$1" ||
         { echo "lab: cannot run here: $EXPORT_ON in a file cannot be mounted" >&2; exit "$CANNOT_RUN"; } ;;
  esac
}

server_command() {
  case $SERVER in
    orthrus) . "$LAB/servers/orthrus.sh" ;;
    ganesha) . "$LAB/servers/ganesha.sh" ;;
    *) COMMAND=$SERVER ;;
  esac
}

# Starts the server and waits until it listens. Its process group is its own, for the kill.
server_start() {
  server_command
  setsid /bin/bash -c "exec $COMMAND" >>"$RUN/server.log" 2>&1 </dev/null &
  SERVER_PID=$!
  disown $SERVER_PID                     # its end by SIGKILL is no news
  echo $SERVER_PID >"$RUN/server.pid"
  local i
  for i in $(seq 200); do
    if (: <"/dev/tcp/$SERVER_ADDRESS/2049") 2>/dev/null; then return 0; fi
    kill -0 $SERVER_PID 2>/dev/null || return 1
    sleep 0.05
  done
  return 1
}

# Has the server log its counters, for the guest to read.
counters() {
  kill -USR1 "$(cat "$RUN/server.pid")" && sleep 0.5
  grep -aE "(calls|copies): " "$RUN/server.log" | tail -n 2 >"$RUN/share/server.counters"
  [ -s "$RUN/share/server.counters" ] && echo done || echo "it says nothing"
}

# Tells the processor time that the server has used, in milliseconds.
spent() {
  local stat; stat=$(cat "/proc/$(cat "$RUN/server.pid")/stat") || return
  set -- ${stat##*) }                    # utime and stime, in ticks of 1/100 s
  echo $(((${12} + ${13}) * 10)) >"$RUN/share/server.cpu"
}

# Makes so many names of empty files in alice's folder `many` of the export, or takes them away
# again.
many_names() {
  local folder=$LAB_EXPORT/alice/many
  [ "$EXPORT_ON" != ceph ] || ceph_client || return
  perl -e '
    my ($folder, $count) = @ARGV;
    mkdir $folder or die "mkdir: $!";
    chown 5001, 5001, $folder;
    for my $number (0 .. $count - 1) {
      my $group = $number - $number % 1000;
      if ($number == $group) { open(my $file, ">", "$folder/stay-$number") or die "open: $!" }
      else { link("$folder/stay-$group", "$folder/stay-$number") or die "link: $!" }
    }' "$folder" "$1"
}

# A program of this machine holds bytes 100 to 199 of alice's file `locked`, as tests/linux/guest/lock.pl
# does in the guest. It runs as alice, who cannot enter $RUN: what it needs is in /run of these
# namespaces.
local_lock() { setpriv --reuid 5001 --regid 5001 --clear-groups perl /run/lock.pl /run/alice/locked "$@"; }
local_program() {
  [ ! -d /run/alice ] || return 0
  [ "$EXPORT_ON" != ceph ] || ceph_client || return
  cp "$LAB/guest/lock.pl" /run/lock.pl
  mkdir /run/alice && mount --bind "$LAB_EXPORT/alice" /run/alice
}
hold() {
  local_program
  rm -f /run/release "$RUN/holder"
  local_lock hold write 100 100 /run/release >"$RUN/holder" 2>&1 &
  says_soon held
}
release() { : >/run/release; says_soon released; }
try_lock() {
  local status=0
  local_program || return
  local_lock try write 100 100 >"$RUN/holder" 2>&1 || status=$?
  case $status in 0) echo done ;; 1) echo "it gets no lock" ;; *) echo "it cannot try: $(cat "$RUN/holder")" ;; esac
}
says_soon() {
  local i
  for i in $(seq 400); do grep -qs "$1" "$RUN/holder" && return; sleep 0.05; done
  return 1
}

# Upgrades the server to the next version, or back; the guest finds the pauses in milliseconds.
UPGRADES=0
upgrade() {
  local program=orthrus-next
  [ $((UPGRADES % 2)) = 0 ] || program=orthrus
  UPGRADES=$((UPGRADES + 1))
  "$ORTHRUS" upgrade --json --state-dir "$RUN/state" --binary "$RUN/bin/$program" >"$RUN/upgrade.json" 2>"$RUN/upgrade.error" || return
  value process >"$RUN/server.pid"
  value pause_ms >>"$RUN/share/server.pauses"
}
value() { grep -oE "\"$1\": *[0-9.]+" "$RUN/upgrade.json" | grep -oE '[0-9.]+$'; }

# Tells the client IDs and sessions that the server has.
identity() {
  "$ORTHRUS" sessions --json --state-dir "$RUN/state" | grep -oE '"(client|session)": *"[^"]*"' | sort -u >"$RUN/share/server.identity"
}

# Kills the server with its children; after an upgrade it leads no group of processes.
server_kill() {
  local process; process=$(cat "$RUN/server.pid")
  kill -KILL -- "-$process" 2>/dev/null || kill -KILL "$process" 2>/dev/null
}

# Does what the guest asks for in the shared folder: `kill` ends the server as a crash would,
# `start` starts it again, `counters` has it tell what it counted, `cpu` tells what it has cost,
# `names COUNT` fills a folder behind its back, `upgrade` lets
# another process go on, `identity` lists its sessions, `sum FILE` reads a file of the export; `hold`, `release` and `try` are a local program that
# locks a file.
server_control() {
  while sleep 0.02; do
    [ -f "$RUN/share/server.ask" ] || continue
    local ask; ask=$(cat "$RUN/share/server.ask"); rm -f "$RUN/share/server.ask"
    case $ask in
      kill) server_kill && echo done || echo "it had ended already" ;;
      counters) counters ;;
      "names "*) many_names "${ask#names }" && echo done || echo "they cannot be made" ;;
      upgrade) upgrade && echo done || tail -n 1 "$RUN/upgrade.error" ;;
      identity) identity && echo done || echo "it does not answer" ;;
      "sum "*) { [ "$EXPORT_ON" != ceph ] || ceph_client; } && sha256sum <"$LAB_EXPORT/${ask#sum }" >"$RUN/share/server.sum" && echo done || echo "it cannot be read" ;;
      hold) hold && echo done || echo "it gets no lock: $(cat "$RUN/holder")" ;;
      release) release && echo done || echo "it keeps its lock" ;;
      try) try_lock ;;
      cpu) spent && echo done || echo "it is not there" ;;
      start) if server_start; then echo done; else echo "it does not start"; fi ;;
      *) echo "unknown: $ask" ;;
    esac >"$RUN/share/server.answer.new"
    mv "$RUN/share/server.answer.new" "$RUN/share/server.answer"
  done
}

# The grant service of batch jobs, with tickets of seconds. The client is a node, and its scheduler.
grant_service() {
  case $JOBS in *grants*.sh*) ;; *) return 0 ;; esac
  "$ORTHRUS" grants serve --keytab "$RUN/realm/grants.keytab" --store "$RUN/grants" --listen "$SERVER_ADDRESS:7049" \
    --service nfs/server.orthrus.test --scheduler "host/client.orthrus.test@$REALM" --ticket-life 5s \
    >>"$RUN/grants.log" 2>&1 </dev/null &
}

server_log() { tail -n 20 "$RUN"/server.log "$RUN"/ganesha.log "$RUN"/grants.log 2>/dev/null >&2 || true; }
