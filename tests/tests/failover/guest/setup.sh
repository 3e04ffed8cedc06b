# setup.sh: the guest's network, names and Kerberos. Run once by init.sh, with ADDRESS from the kernel's command line.
. /lab/settings
hostname "$HOST"
ip link set lo up
ip link set vec0 up
ip address add "$ADDRESS/24" dev vec0
for file in nsswitch.conf krb5.conf idmapd.conf hosts passwd group; do
  rm -f "/etc/$file"                     # it can be a link to somewhere else
  cp "/lab/etc/$file" "/etc/$file"
done
CLIENT_ID=guest-$(cat /proc/sys/kernel/random/uuid) KEYTABS=/lab GSSD_LOG=/lab/gssd.log
. /lab/kerberos.sh
install -m 644 /lab/lib.pl /lab/job.pl /lab/mount.sh /run/
