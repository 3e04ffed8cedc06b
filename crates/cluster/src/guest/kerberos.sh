# kerberos.sh: the guest's NFS client and its Kerberos. Sourced by set-ups, with CLIENT_ID (what tells this client from
# others, RFC 8881 section 2.4), KEYTABS (the folder with client.keytab and users.keytab) and GSSD_LOG.
modprobe nfsv4
modprobe rpcsec_gss_krb5
echo "$CLIENT_ID" >/sys/module/nfs/parameters/nfs4_unique_id 2>/dev/null
mkdir -p /run/rpc_pipefs                 # where Debian's nfs.conf makes rpc.gssd look
mount -t rpc_pipefs sunrpc /run/rpc_pipefs
install -m 600 "$KEYTABS/client.keytab" /etc/krb5.keytab
install -m 644 "$KEYTABS/users.keytab" /run/users.keytab
(rpc.gssd -f -v >"$GSSD_LOG" 2>&1 &)
for i in 1 2 3 4 5 6 7 8 9 10; do pidof rpc.gssd >/dev/null && break; sleep 0.05; done
