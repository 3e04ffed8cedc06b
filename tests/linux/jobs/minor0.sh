# NFSv4.0 with each flavor, beside a client of NFSv4.2 on the same files: a git clone with fsck, locks of two processes, locks
# between the two versions, and a lock that is reclaimed from a server that was killed.
. /lab/lib.sh
. /lab/locks.sh
. /lab/second.sh

ticket alice
cp -r /lab/repository.git /tmp/repository.git
chown -R alice:alice /tmp/repository.git

clone() {
  as alice git clone -q --no-local /tmp/repository.git /n/alice/clone &&
    [ "$(as alice git -C /n/alice/clone rev-parse HEAD)" = "$(as alice git -C /tmp/repository.git rev-parse HEAD)" ]
}
same() { [ "$(as alice sh -c 'cd /n/alice/clone && git ls-files -s | sha256sum')" = "$(as alice sh -c 'cd /tmp/second/alice/clone && git ls-files -s | sha256sum')" ]; }

# The other client's lock.pl, in whose way the first one's locks are.
second_lock() { as alice timeout 60 perl /run/lock.pl /tmp/second/alice/locked "$@"; }
second_denied() {
  local code=0
  second_lock try "$@" || code=$?
  [ $code = 1 ]
}

restarted() { server kill && sleep 1 && server start; }

for flavor in $FLAVORS; do
  begin=$(seconds) case="4.0 $flavor"
  VERSION=4.0; check "mount $case" mounted "$flavor" 1 || continue
  check "as asked for $case" grep -q "/n nfs4 .*vers=4.0.*sec=$flavor," /proc/mounts
  VERSION=4.2; check "mount of 4.2 beside it $case" second_mounted "$flavor" 1 || continue
  if check "git clone $case" clone; then
    check "git fsck $case" as alice git -C /n/alice/clone fsck --full --strict
    check "the client of 4.2 sees the same $case" same
  fi
  locks "$case"
  as alice touch /n/alice/locked
  if check "lock held by 4.0 $case" holding write 100 100; then
    check "4.2 is kept out of it $case" second_denied write 150 1
    check "and not of what is beside it $case" second_lock try write 0 100
    check "the server is killed and started again $case" restarted
    # What a new lock would conflict with has to be reclaimed first: 4.2 waits for the end of the grace period.
    check "writes go on $case" as alice sh -c 'echo more >>/n/alice/more && cat /n/alice/more'
    check "4.2 is still kept out $case" second_denied write 150 1
    check "lock released $case" released
    check "4.2 gets it $case" second_lock try write 100 100
  fi
  second_unmounted
  check "remove $case" as alice rm -rf /n/alice/clone /n/alice/locked /n/alice/more
  unmounted
  echo "# $case took $(since "$begin")"
done
finish
