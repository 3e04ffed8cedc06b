# The server is killed in the middle of a copy and started again; the copy completes and nothing is
# lost. When it is killed is left to chance: SEED repeats a run.
. /lab/lib.sh
default SEED 1
default CONNECTIONS alternate
RANDOM=$SEED

ticket alice
cp -r /lab/repository.git /tmp/repository.git
chown -R alice:alice /tmp/repository.git
as alice git clone -q /tmp/repository.git /tmp/tree
# Beside the many files a large one, so that data is under way that the server has not made stable.
as alice bash -c 'head -c 100000000 /dev/urandom >/tmp/tree/large'
sums /tmp/tree >/tmp/tree.sums

compared() { as alice bash -c '. /lab/lib.sh; sums /n/alice/copy' >/tmp/copy.sums && cmp /tmp/tree.sums /tmp/copy.sums; }

# A MKDIR whose reply dies with the server is answered NFS4ERR_EXIST when it is sent again: sessions
# do not outlive the server (RFC 8881 section 2.10.6.5). So the folders are there before.
folders() { as alice sh -c 'cd /tmp/tree && find . -type d -exec sh -c "cd /n/alice/copy && mkdir -p \"\$@\"" sh {} +'; }

# crashed WHEN: kills the server once WHEN files are there; a copy that ended before proves nothing.
crashed() {
  as alice mkdir /n/alice/copy && folders || { echo "the folders cannot be made"; return 1; }
  # A copy that hangs is a failure, not a lab that does not end.
  as alice timeout -s KILL 120 cp -rT /tmp/tree /n/alice/copy &
  local copy=$! i
  for i in $(seq 1000); do
    [ "$(find /n/alice/copy -name '*.txt' 2>/dev/null | wc -l)" -ge "$1" ] && break
    sleep 0.05
  done
  kill -0 $copy 2>/dev/null || { echo "the copy ended too early"; return 1; }
  server kill || { echo "the server did not die"; return 1; }
  sleep 1
  kill -0 $copy 2>/dev/null || { echo "the copy ended without its server"; return 1; }
  server start || { echo "the server did not start again"; return 1; }
  wait $copy || { echo "the copy failed or hung"; return 1; }
}

for flavor in $FLAVORS; do for connections in $(connections_of "$flavor"); do
  begin=$(seconds) case="$flavor nconnect=$connections" files=$((100 + RANDOM % 600))
  check "crash: mount $case" mounted "$flavor" "$connections" || continue
  if check "crash: the copy outlives the server, killed after $files files $case" crashed $files; then
    unmounted
    check "crash: mount again $case" mounted "$flavor" "$connections" || continue
    echo 3 >/proc/sys/vm/drop_caches
    check "crash: nothing is lost $case" compared
  fi
  as alice rm -rf /n/alice/copy
  unmounted
  echo "# crash $case took $(since "$begin")"
done; done
finish
