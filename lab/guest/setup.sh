# setup.sh: the guest's network and its Kerberos. Run once by init.sh.
hostname client.orthrus.test
ip link set lo up
ip link set vec0 up
ip address add 10.77.0.2/24 dev vec0
modprobe nfsv4
modprobe rpcsec_gss_krb5
# Each guest is a client of its own, whatever others are called (RFC 8881 section 2.4).
echo "lab-$(cat /proc/sys/kernel/random/uuid)" >/sys/module/nfs/parameters/nfs4_unique_id 2>/dev/null
mkdir -p /run/rpc_pipefs                 # where Debian's nfs.conf makes rpc.gssd look
mount -t rpc_pipefs sunrpc /run/rpc_pipefs
install -m 600 /lab/client.keytab /etc/krb5.keytab
install -m 644 /lab/users.keytab /lab/*.pl /run/
(rpc.gssd -f -v >/lab/gssd.log 2>&1 &)
for i in 1 2 3 4 5 6 7 8 9 10; do pidof rpc.gssd >/dev/null && break; sleep 0.05; done
