# setup.sh: a compute node finds its place. Run once by init.sh; the same file for all nodes.
#
# The kernel's command line brings NODE, ADDRESS and ROUTER, as a boot server would; all else is in the image.
mkdir -p "/lab/nodes/$NODE"
exec >>"/lab/nodes/$NODE/log" 2>&1

hostname "$NODE.orthrus.test"
ip link set lo up
ip link set vec0 up
ip address add "$ADDRESS" dev vec0
ip route add default via "$ROUTER"
for file in resolv.conf nsswitch.conf krb5.conf idmapd.conf hosts; do
  rm -f "/etc/$file"                     # it can be a link to somewhere else
  cp "/lab/image/$file" "/etc/$file"
done
echo "127.0.1.1 $NODE.orthrus.test $NODE" >>/etc/hosts

# The image is one, the clients are not: each is known by its node's name (RFC 8881 section 2.4).
CLIENT_ID=$NODE KEYTABS=/lab/image GSSD_LOG=/lab/nodes/$NODE/gssd.log
. /lab/kerberos.sh

for flavor in sys krb5 krb5i krb5p; do
  mkdir -p "/nfs/$flavor"
  if timeout 60 mount -t nfs4 -o "vers=4.2,sec=$flavor" server.orthrus.test:/export "/nfs/$flavor"; then
    echo "mounted $flavor"
  else
    echo "FAIL mount $flavor"
  fi
done
