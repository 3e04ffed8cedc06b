# mount.sh: alice's ticket, and EXPORT on /n with krb5p and CONNECTIONS. Sourced by jobs.
check "ticket" ticket alice || finish
check "mount" mount -t nfs4 -o "vers=4.2,sec=krb5p,nconnect=$CONNECTIONS" "gateway.orthrus.test:$EXPORT" /n || finish
check "privacy" grep -q " /n nfs4 .*nconnect=$CONNECTIONS,.*sec=krb5p" /proc/mounts
