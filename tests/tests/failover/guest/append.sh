# append.sh: mounts the gateway, and appends to a file under a lock until the host asks for the end. FILE and CONNECTIONS
# come from /lab/settings.
. /lab/lib.sh
. /run/mount.sh
check "append" as alice perl /run/job.pl "/n/$FILE" /lab/stop 3>>/lab/notes
check "unmount" umount /n
finish
