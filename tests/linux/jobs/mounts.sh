# Each flavor with each number of connections, as alice with a ticket: a git clone with fsck, a tree
# copied and compared, locks of two processes.
. /lab/lib.sh
. /lab/locks.sh

ticket alice
cp -r /lab/repository.git /tmp/repository.git
chown -R alice:alice /tmp/repository.git
as alice git clone -q /tmp/repository.git /tmp/tree
sums /tmp/tree >/tmp/tree.sums

clone() {
  as alice git clone -q --no-local /tmp/repository.git /n/alice/clone &&
    [ "$(as alice git -C /n/alice/clone rev-parse HEAD)" = "$(as alice git -C /tmp/repository.git rev-parse HEAD)" ]
}
clean() { [ -z "$(as alice git -C /n/alice/clone status --porcelain 2>&1)" ]; }
copy() { as alice cp -r /tmp/tree /n/alice/copy; }
# With the client's cache emptied, so that the bytes come from the server.
compared() { as alice bash -c '. /lab/lib.sh; sums /n/alice/copy' >/tmp/copy.sums && cmp /tmp/tree.sums /tmp/copy.sums; }

# The ticket for the server and its session key are of the types that the realm has, and no others.
encrypted() {
  local types
  case $ENCTYPES in
    17) types=aes128-cts-hmac-sha1-96 ;; 18) types=aes256-cts-hmac-sha1-96 ;;
    19) types=aes128-cts-hmac-sha256-128 ;; 20) types=aes256-cts-hmac-sha384-192 ;;
    sha1) types="aes(128|256)-cts-hmac-sha1-96" ;; *) types="aes(128-cts-hmac-sha256-128|256-cts-hmac-sha384-192)" ;;
  esac
  as alice klist -e | grep -A 1 " nfs/$SERVER" | grep -Eq "\(skey, tkt\): $types, $types *$"
}

for flavor in $FLAVORS; do for connections in $(connections_of "$flavor"); do
  case="$flavor nconnect=$connections"
  begin=$(seconds)
  check "mount $case" mounted "$flavor" "$connections" || continue
  check "$connections connection(s) $case" [ "$(grep -c xprt: /proc/self/mountstats)" = "$connections" ]
  grep -q "/n nfs4 .*vers=$VERSION.*sec=$flavor," /proc/mounts || fail "mount $case: not what was asked for"
  if check "git clone $case" clone; then
    check "git status $case" clean
    check "git fsck $case" as alice git -C /n/alice/clone fsck --full --strict
  fi
  check "tree copy $case" copy
  unmounted
  check "mount again $case" mounted "$flavor" "$connections" || continue
  echo 3 >/proc/sys/vm/drop_caches
  check "tree compared $case" compared
  locks "$case"
  [ "$flavor" = sys ] || check "encrypted as the realm has it $case" encrypted
  check "remove $case" as alice rm -rf /n/alice/clone /n/alice/copy
  unmounted
  echo "# $case took $(since "$begin")"
done; done
finish
