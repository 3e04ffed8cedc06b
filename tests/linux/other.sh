# other.sh: a second server, other.orthrus.test, in a network namespace behind the first. Sourced by
# inside.sh.

OTHER_ADDRESS=10.78.0.2

# Starts it for the jobs that refer to it: it exports /x/data, with a folder for alice.
other_server() {
  case $JOBS in *referrals.sh*) ;; *) return 0 ;; esac
  ip netns add other
  ip link add to-other type veth peer name eth0 netns other
  ip address add 10.78.0.1/24 dev to-other
  ip link set to-other up
  ip -n other link set lo up
  ip -n other address add $OTHER_ADDRESS/24 dev eth0
  ip -n other link set eth0 up
  ip -n other route add default via 10.78.0.1
  echo 1 >/proc/sys/net/ipv4/ip_forward
  # The first server's second address.
  ip address add 10.77.0.4/24 dev tap0
  mkdir -p "$RUN"/other/{data/alice,state}
  chmod 700 "$RUN/other/state"
  chown 5001:5001 "$RUN/other/data/alice"
  cat >"$RUN/other/orthrus.toml" <<C
listen = "$OTHER_ADDRESS:2049"
domain = "orthrus.test"
keytab = "$LAB_KEYTAB"
realms = ["$REALM"]
state_dir = "$RUN/other/state"
lease_time = 10
grace_time = 0

[[export]]
path = "$RUN/other/data"
pseudo = "/x/data"
sec = ["krb5p", "sys"]
C
  nsenter --net=/run/netns/other "$ORTHRUS" serve --config "$RUN/other/orthrus.toml" \
    >>"$RUN/other.log" 2>&1 </dev/null &
}

# Prints what the first server's configuration has for these jobs, before its exports.
referring_settings() {
  case $JOBS in *referrals.sh*) ;; *) return 0 ;; esac
  # The last address is the other server's, which clients must notice.
  echo "addresses = [\"$SERVER_ADDRESS\", \"10.77.0.4\", \"$OTHER_ADDRESS\"]"
}

# Prints the referrals.
referrals() {
  case $JOBS in *referrals.sh*) ;; *) return 0 ;; esac
  local place
  while read -r place to; do
    printf '[[export]]\npseudo = "%s"\nrefer = [%s]\nsec = ["krb5p", "sys"]\n\n' "$place" "$to"
  done <<P
/site/name "other.orthrus.test:/x/data"
/site/address "$OTHER_ADDRESS:/x/data"
/site/second "10.78.0.99:/x/data", "$OTHER_ADDRESS:/x/data"
/export/moved "$OTHER_ADDRESS:/x/data"
P
}
