# xfstests against the mounted exports. `run.sh --set` takes XFSTESTS (the folder of a built
# checkout), TESTS (what its `check` takes), and LIMIT (seconds for a test). docs/interop.md says
# how to get the suite, and how to read the results.
. /lab/lib.sh
default FLAVORS sys
default XFSTESTS /opt/xfstests
default TESTS "-g quick"
default LIMIT 300

PATH=$PATH:/usr/sbin:/sbin
# The suite writes into its own folder, and its many processes start faster from memory.
cp -a "$XFSTESTS" /run/xfstests && cd /run/xfstests || exit 1
mkdir -p /mnt/test /mnt/scratch
ln -s /proc/self/fd /dev/fd            # for <( )
for user in fsgqa fsgqa2 123456-fsgqa; do echo "$user:*:20000:0:99999:7:::" >>/etc/shadow; done

# The suite's local.config for a flavor.
configuration() {
  local options="-o vers=$VERSION,sec=$1$OPTIONS"
  cat <<C
FSTYP=nfs
TEST_DEV=$SERVER:/export
TEST_DIR=/mnt/test
SCRATCH_DEV=$SERVER:/private
SCRATCH_MNT=/mnt/scratch
NFS_MOUNT_OPTIONS="$options"
TEST_FS_MOUNT_OPTS="$options"
RESULT_BASE=/lab/results/$1
C
}

# The suite knows no limit for a test. A test that is killed has failed.
sed -i "s|exec \./\$seq|exec timeout --signal KILL $LIMIT ./\$seq|" check

for flavor in $FLAVORS; do
  if [ "$flavor" != sys ]; then for user in fsgqa fsgqa2 123456-fsgqa; do ticket "$user"; done; fi
  mkdir -p "/lab/results/$flavor"
  configuration "$flavor" >local.config
  ./check -E /lab/xfstests.txt $TESTS || failures=$((failures + 1))
done
finish
