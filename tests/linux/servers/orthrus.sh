# The project's own server. Sets COMMAND.
listen=$SERVER_ADDRESS:2049
# Clients reach it at two addresses.
case $JOBS in *referrals.sh*) listen=:2049 ;; esac
# lies_on NAME FOLDER: the keys that say where an export lies.
lies_on() {
  if [ "$EXPORT_ON" = ceph ]; then
    printf 'ceph = "/%s"\nceph_user = "admin"\nceph_conf = "%s"\n' "$1" "$CEPH_CONF"
  else
    printf 'path = "%s"\n' "$2"
  fi
}
# The suite works as root, in both exports, with each flavor.
private_flavors='"krb5p"' squash=root device_nodes=false root=
case $JOBS in *xfstests.sh*)
  private_flavors='"krb5p", "krb5i", "krb5", "sys"' squash=none device_nodes=true
  root="[principals]"$'\n'"\"nfs/client.orthrus.test@$REALM\" = \"root\"" ;;
esac
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
device_nodes = $device_nodes

$root

[[export]]
$(lies_on export "$LAB_EXPORT")
pseudo = "/export"
sec = ["krb5p", "krb5i", "krb5", "sys"]
squash = "$squash"
stable_names = $STABLE_NAMES

[[export]]
$(lies_on private "$LAB_PRIVATE")
pseudo = "/private"
sec = [$private_flavors]
squash = "$squash"
stable_names = $STABLE_NAMES

$(referrals)
C
program=$ORTHRUS
# A server starts no next program of another folder.
case $JOBS in *upgrade.sh*|*databases.sh*)
  mkdir -p "$RUN/bin"
  ln -sf "$ORTHRUS" "$RUN/bin/orthrus"
  ln -sf "${ORTHRUS_NEXT:-$ORTHRUS}" "$RUN/bin/orthrus-next"
  program=$RUN/bin/orthrus ;;
esac
COMMAND="'$program' serve --config '$RUN/orthrus.toml'"
