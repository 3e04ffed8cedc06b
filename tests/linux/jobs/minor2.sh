# What NFSv4.2 adds, as programs on Linux use it: holes, allocation, copies, extended attributes; and access control lists.
. /lab/lib.sh

ticket alice
ticket bob

# A file of 8 MiB with data from 4 MiB on, and a hole in that.
sparse() { as alice xfs_io -f -c 'truncate 8m' -c 'pwrite -q -S 7 4m 128k' -c 'fpunch 4160k 32k' "$1"; }
same() { as alice cmp "$1" "$2" && [ "$(as alice stat -c %s "$1")" = "$(as alice stat -c %s "$2")" ]; }
data_at() { as alice xfs_io -r -c 'seek -d 0' "$1" | grep -q "^DATA[[:space:]]*4194304"; }
hole_at() { as alice xfs_io -r -c 'seek -h 4194304' "$1" | grep -q "^HOLE[[:space:]]*4259840"; }
all_data() {
  as alice xfs_io -r -c 'seek -d 65536' "$1" | grep -q "^DATA[[:space:]]*65536" &&
    as alice xfs_io -r -c 'seek -h 0' "$1" | grep -q "^HOLE[[:space:]]*8388608"
}
# Linux sends SEEK and READ with the stateid of the open, and repeats those that are refused for the kind of open. A
# file that was never open for reading has no delegation, which would allow them.
written_only() {
  as alice timeout -s KILL 20 perl -MFcntl -e '
    sysopen(my $file, $ARGV[0], O_WRONLY | O_CREAT) or die "open: $!";
    syswrite($file, "x" x 100_000) == 100_000 or die "write: $!";
    sysseek($file, 0, 3) or die "SEEK_DATA: $!";
    my ($FADVISE, $WILL_NEED) = (221, 3);
    syscall($FADVISE, fileno $file, 0, 0, $WILL_NEED) == 0 or die "fadvise: $!"' "$1"
}
takes_no_space() { [ "$(as alice stat -c %b "$1")" -le 512 ]; }
reread() { echo 3 >/proc/sys/vm/drop_caches; same "$1" "$2"; }
allocated() { as alice xfs_io -f -c 'falloc 0 1m' "$1" && [ "$(as alice stat -c %s "$1")" = 1048576 ] && [ "$(as alice stat -c %b "$1")" -ge 2048 ]; }
copied() { as alice xfs_io -f -c "copy_range $1" "$2" && same "$1" "$2"; }

holes() {
  local flavor=$1
  sparse /tmp/local && sparse /n/alice/sparse
  check "minor2: a sparse file is what it is on a disk $flavor" same /n/alice/sparse /tmp/local
  if [ "$EXPORT_ON" = ceph ]; then
    check "minor2: SEEK finds data alone on CephFS $flavor" all_data /n/alice/sparse
    refused "minor2: ALLOCATE is refused on CephFS $flavor" "not supported" allocated /n/alice/full
  else
    check "minor2: SEEK finds its data $flavor" data_at /n/alice/sparse
    check "minor2: SEEK finds the hole in it $flavor" hole_at /n/alice/sparse
    check "minor2: SEEK works in a file that is open for writing alone $flavor" written_only /n/alice/written
    check "minor2: its holes take no space $flavor" takes_no_space /n/alice/sparse
    check "minor2: ALLOCATE takes space $flavor" allocated /n/alice/full
  fi
  check "minor2: it is read back from the server $flavor" reread /n/alice/sparse /tmp/local
  check "minor2: COPY makes the same file $flavor" copied /n/alice/sparse /n/alice/copy
  rm -f /tmp/local
  as alice rm -f /n/alice/sparse /n/alice/full /n/alice/copy /n/alice/written
}

offloads() { server counters && sed -n 's/.*offloads_answered=\([0-9]*\).*/\1/p' /lab/server.counters; }

# Linux lets the server answer before a copy is done if it is of more than two READs; the server does so above 16 MiB.
long() {
  local flavor=$1 before
  before=$(offloads | tail -n 1)
  as alice dd if=/dev/urandom of=/n/alice/long bs=1M count=40 status=none
  check "minor2: a long COPY makes the same file $flavor" copied /n/alice/long /n/alice/copy
  check "minor2: the server has it from its disk $flavor" reread /n/alice/long /n/alice/copy
  [ -z "$before" ] || check "minor2: its end was told by CB_OFFLOAD $flavor" test "$(offloads | tail -n 1)" -gt "$before"
  as alice rm -f /n/alice/long /n/alice/copy
}

value() { [ "$(as alice getfattr --only-values -n user.colour /n/alice/file)" = "$1" ]; }
listed() { as alice getfattr /n/alice/file | grep -q "^user.$1$"; }
big() { as alice setfattr -n user.big -v "$(head -c 3000 /dev/zero | tr '\0' x)" /n/alice/file; }

attributes() {
  local flavor=$1
  as alice touch /n/alice/file
  check "minor2: an extended attribute is set $flavor" as alice setfattr -n user.colour -v green /n/alice/file
  check "minor2: it is read $flavor" value green
  check "minor2: it is listed $flavor" listed colour
  check "minor2: one of 3,000 bytes is set $flavor" big
  refused "minor2: bob sets none on alice's file $flavor" "permission denied|not permitted" as bob setfattr -n user.colour -v red /n/alice/file
  check "minor2: it is removed $flavor" as alice setfattr -x user.colour /n/alice/file
  refused "minor2: then it is gone $flavor" "no such attribute" as alice getfattr --only-values -n user.colour /n/alice/file
  as alice rm -f /n/alice/file
}

# His name as the server knows it: by Kerberos the number of an account with a name is no owner.
BOB=bob@orthrus.test
lists_bob() { as alice nfs4_getfacl "$1" | grep -Eq '^A:[fdi]*:(bob@|5002)'; }
hundred() { as alice nfs4_setfacl -s "$(echo A::OWNER@:RW; for n in $(seq 6001 6150); do echo "A::$n:R"; done; echo A:g:GROUP@:; echo A::EVERYONE@:)" "$1"; }
counts() { [ "$(as alice nfs4_getfacl "$1" | grep -c '^A::6')" = 150 ]; }
# As docs/acls.md says.
list_copied() { as alice bash -c 'cp -p "$1/file" "$1/copy" && nfs4_getfacl "$1/file" | nfs4_setfacl -S - "$1/copy"' sh "$1" && lists_bob "$1/copy"; }
list_in_archive() {
  as alice bash -c 'mkdir "$1/copies" && cd "$1" &&
    tar --xattrs --xattrs-include="*" -cf - file | tar --xattrs --xattrs-include="*" -C copies -xf -' sh "$1" && lists_bob "$1/copies/file"
}
soon() { for i in 1 2 3 4 5; do "$@" && return; sleep 1; done; return 1; }

lists() {
  local flavor=$1
  as alice bash -c 'umask 077; mkdir /n/alice/shared; chmod 711 /n/alice /n/alice/shared; echo secret >/n/alice/shared/file'
  refused "minor2: bob cannot read what alice keeps to herself $flavor" "permission denied" as bob cat /n/alice/shared/file
  check "minor2: nfs4_setfacl lets bob read $flavor" as alice nfs4_setfacl -a "A::$BOB:R" /n/alice/shared/file
  check "minor2: nfs4_getfacl shows it $flavor" lists_bob /n/alice/shared/file
  check "minor2: bob reads $flavor" soon as bob cat /n/alice/shared/file
  refused "minor2: bob does not write $flavor" "permission denied" as bob bash -c 'echo x >>/n/alice/shared/file'
  check "minor2: nfs4_setfacl copies a list $flavor" list_copied /n/alice/shared
  check "minor2: tar copies a list $flavor" list_in_archive /n/alice/shared
  check "minor2: a list of 150 names is set $flavor" hundred /n/alice/shared/file
  check "minor2: and shown whole $flavor" counts /n/alice/shared/file
  check "minor2: a folder passes a list on $flavor" as alice nfs4_setfacl -a "A:fd:$BOB:RWX" /n/alice/shared
  as alice bash -c 'umask 077; echo new >/n/alice/shared/new'
  check "minor2: whatever the umask, bob writes in a new file $flavor" soon as bob bash -c 'echo x >>/n/alice/shared/new'
  # Linux knows no word of its own for NFS4ERR_ATTRNOTSUPP.
  refused "minor2: what POSIX lists cannot say is refused $flavor" "not supported|input/output error" as alice nfs4_setfacl -a "A:f:$BOB:R" /n/alice/shared
  as alice rm -rf /n/alice/shared
}

for flavor in $FLAVORS; do for connections in $(connections_of "$flavor"); do
  case="$flavor nconnect=$connections"
  check "minor2: mount $case" mounted "$flavor" "$connections" || continue
  holes "$case"
  long "$case"
  attributes "$case"
  lists "$case"
  unmounted
done; done
finish
