# The project's own server. Sets COMMAND.
listen=$SERVER_ADDRESS:2049
# Clients reach it at two addresses.
case $JOBS in *referrals.sh*) listen=:2049 ;; esac
cat >"$RUN/orthrus.toml" <<C
listen = "$listen"
$(referring_settings)
domain = "orthrus.test"
keytab = "$LAB_KEYTAB"
realms = ["$REALM"]
state_dir = "$RUN/state"
lease_time = 10
grace_time = 10
delegations = "all"

[[export]]
path = "$LAB_EXPORT"
pseudo = "/export"
sec = ["krb5p", "krb5i", "krb5", "sys"]
stable_names = $STABLE_NAMES

[[export]]
path = "$LAB_PRIVATE"
pseudo = "/private"
sec = ["krb5p"]
stable_names = $STABLE_NAMES

$(referrals)
C
program=$ORTHRUS
# A server starts no next program of another folder.
case $JOBS in *upgrade.sh*)
  mkdir -p "$RUN/bin"
  ln -sf "$ORTHRUS" "$RUN/bin/orthrus"
  ln -sf "${ORTHRUS_NEXT:-$ORTHRUS}" "$RUN/bin/orthrus-next"
  program=$RUN/bin/orthrus ;;
esac
COMMAND="'$program' serve --config '$RUN/orthrus.toml'"
