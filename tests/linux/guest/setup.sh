# setup.sh: the guest's network and its Kerberos. Run once by init.sh.
hostname client.orthrus.test
ip link set lo up
ip link set vec0 up
ip address add 10.77.0.2/24 dev vec0
# Each guest is a client of its own, whatever others are called.
CLIENT_ID=lab-$(cat /proc/sys/kernel/random/uuid) KEYTABS=/lab GSSD_LOG=/lab/gssd.log
. /lab/kerberos.sh
install -m 644 /lab/*.pl /run/
