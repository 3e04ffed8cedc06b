# realm.sh: names, users and Kerberos of the lab. Sourced by inside.sh.

# The users that xfstests wants.
SUITE_USERS="fsgqa fsgqa2 123456-fsgqa"

# Puts files of our own over some of /etc, which server and guest then share: the guest's root is this mount
# namespace seen through hostfs.
names() {
  cat >"$RUN/etc/hosts" <<H
127.0.0.1 localhost
$SERVER_ADDRESS server.orthrus.test server
$CLIENT_ADDRESS client.orthrus.test client
10.78.0.2 other.orthrus.test other
H
  { cat /etc/passwd; echo 'alice:x:5001:5001::/tmp:/bin/bash'; echo 'bob:x:5002:5002::/tmp:/bin/bash'; } >"$RUN/etc/passwd"
  { cat /etc/group; echo 'alice:x:5001:'; echo 'bob:x:5002:'; } >"$RUN/etc/group"
  case $JOBS in *xfstests.sh*)
    local user id=7000
    for user in $SUITE_USERS; do
      id=$((id + 1))
      echo "$user:x:$id:$id::/tmp:/bin/bash" >>"$RUN/etc/passwd"
      echo "$user:x:$id:" >>"$RUN/etc/group"
    done ;;
  esac
  printf '[General]\nDomain = orthrus.test\nLocal-Realms = %s\n' "$REALM" >"$RUN/etc/idmapd.conf"
  for file in hosts passwd group idmapd.conf; do over_etc "$file"; done
}

over_etc() { mount --bind "$RUN/etc/$1" "/etc/$1"; }

realm() {
  local more=
  case $JOBS in *grants*.sh*) more=--delegation ;; esac
  case $JOBS in *xfstests.sh*) more="$more $(printf -- ' --user %s' $SUITE_USERS)" ;; esac
  $REALM_UP "$RUN/realm" $more --listen "$SERVER_ADDRESS:88" --enctypes "$ENCTYPES" \
    --host server.orthrus.test --host other.orthrus.test --client client.orthrus.test >"$RUN/realm.out" 2>&1 ||
    { cat "$RUN/realm.out" >&2; say "the realm could not be made"; exit 98; }
  cp "$RUN/realm/krb5.conf" "$RUN/etc/krb5.conf"
  over_etc krb5.conf
}
