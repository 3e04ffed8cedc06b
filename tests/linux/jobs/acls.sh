# Long access control lists by nfs4_setfacl and nfs4_getfacl: what was set is told, what was told can be set, and nothing of it
# changes on the way. The figures are numbers of users: ext4 has room for about 500 in the block of an extended attribute.
. /lab/lib.sh
default FLAVORS "krb5i krb5p"
default LENGTHS "100 150 400"
default TOO_LONG 600

ticket alice
FILE=/n/alice/listed FOLDER=/n/alice/passes-on

# simple USERS: every third may read, write, or read and execute; the one in the middle is bob's colleague 5999.
simple() {
  awk -v users="$1" 'BEGIN {
    split("R W RX", rights, " "); print "A::OWNER@:RW"
    for (n = 1; n <= users; n++) print "A::" (n == int(users / 2) ? 5999 : 6000 + n) ":" rights[n % 3 + 1]
    print "A:g:7001:RX"; print "A:g:GROUP@:"; print "A::EVERYONE@:" }'
}
set_from() { as alice nfs4_setfacl -S "$1" "$2"; }
told() { as alice nfs4_getfacl "$1" | grep -v '^#' | grep .; }
# What a list allows each user, in the words of `simple`.
allowed() {
  awk -F: '$1 == "A" && $3 ~ /^[0-9]+$/ { print "A:" $2 ":" $3 ":" ($4 ~ /r/ ? "R" : "") ($4 ~ /w/ ? "W" : "") ($4 ~ /x/ ? "X" : "") }' "$1" | sort
}
as_was_set() { told $FILE >/tmp/told && allowed /tmp/told >/tmp/allowed && grep -E ':[0-9]+:' /tmp/simple | sort | cmp /tmp/allowed -; }
exactly() { told "$2" >/tmp/again && cmp "$1" /tmp/again; }
without_one() { grep -v '::5999:' /tmp/told >/tmp/rest && set_from /tmp/rest $FILE; }
inherited() { told "$FOLDER/new" >/tmp/told && [ "$(allowed /tmp/told | wc -l)" = "$1" ]; }

for flavor in $FLAVORS; do for connections in $(connections_of "$flavor"); do
  case="$flavor nconnect=$connections"
  check "acls: mount $case" mounted "$flavor" "$connections" || continue
  for length in $LENGTHS; do
    as alice touch $FILE
    simple "$length" >/tmp/simple
    check "acls: a list of $length users is set $case" set_from /tmp/simple $FILE || continue
    check "acls: each user has what was set $case" as_was_set
    check "acls: what was told can be set $case" set_from /tmp/told $FILE
    check "acls: and is told again, every byte of it $case" exactly /tmp/told $FILE
    check "acls: one is taken out of the middle $case" without_one
    check "acls: and nothing else changes $case" exactly /tmp/rest $FILE
    as alice rm -f $FILE
  done
  as alice touch $FILE
  simple 3 >/tmp/simple
  set_from /tmp/simple $FILE && told $FILE >/tmp/before
  simple "$TOO_LONG" >/tmp/simple
  if [ "$EXPORT_ON" = ceph ]; then
    # 64 KiB of extended attributes are more than a client can send as one list.
    check "acls: a list of $TOO_LONG users has room on CephFS $case" set_from /tmp/simple $FILE
    check "acls: each user has what was set $case" as_was_set
  else
    refused "acls: a list that the file system has no room for is refused $case" "no space" set_from /tmp/simple $FILE
    check "acls: and the one before stays $case" exactly /tmp/before $FILE
  fi
  as alice mkdir $FOLDER
  simple 120 | sed 's/^A:g:/A:fdg:/; s/^A::/A:fd:/; s/OWNER@:RW/OWNER@:RWX/' >/tmp/simple
  check "acls: a folder passes on a list of 120 users $case" set_from /tmp/simple $FOLDER
  as alice touch $FOLDER/new
  check "acls: a new file in it has all of them $case" inherited 121
  as alice rm -rf $FOLDER $FILE
  unmounted
done; done
finish
