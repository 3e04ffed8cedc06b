# lanl.sh: the tests of the paper on this node, by `orthrus bench lanl`, as alice. LANL_PARTS, LANL_FLAVORS, LANL_SCALE and
# LANL_REPETITIONS come before it; the report is left beside it as NODE.html and so on.
. /lab/lib.sh
ticket alice || exit
# What is copied lies in the node's own memory, apart from all else; the bench leaves 64 MiB of it free.
mkdir -p /tmp/lanl
mount -t tmpfs -o size=75%,mode=755,uid=5001 tmpfs /tmp/lanl || exit
mounts=
for flavor in $LANL_FLAVORS; do
  # A folder for each node: process numbers, which the bench tells its folders apart by, are the same on several.
  as alice mkdir -p "/nfs/$flavor/alice/$NODE" || exit
  mounts="$mounts $flavor=/nfs/$flavor/alice/$NODE"
done
code=0
as alice env TMPDIR=/tmp/lanl /lab/orthrus bench lanl --no-scp --scale "$LANL_SCALE" --repetitions "$LANL_REPETITIONS" \
  --parts "$LANL_PARTS" --output /tmp/lanl/report --mount $mounts || code=$?
for file in /tmp/lanl/report.*; do
  [ ! -f "$file" ] || cp "$file" "${BASH_SOURCE[0]%/*}/$NODE.${file##*.}"
done
umount /tmp/lanl
exit $code
