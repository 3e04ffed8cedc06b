# append.sh: mounts the gateway, and appends to a file under a lock until the host asks for the end. FILE and CONNECTIONS
# come from /lab/settings.
. /lab/lib.sh
check "ticket" ticket alice || finish
check "mount" mount -t nfs4 -o "vers=4.2,sec=krb5p,nconnect=$CONNECTIONS" gateway.orthrus.test:/data /n || finish
check "privacy" grep -q " /n nfs4 .*nconnect=$CONNECTIONS,.*sec=krb5p" /proc/mounts
check "append" as alice perl /run/append.pl "/n/$FILE" /lab/stop 3>>/lab/acknowledged
check "unmount" umount /n
finish
