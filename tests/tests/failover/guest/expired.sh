# expired.sh: a client that is cut off until its lease is over and another has its lock. CONNECTIONS comes from
# /lab/settings.
. /lab/lib.sh
. /run/mount.sh
check "expired" as alice perl /run/job.pl /n 3>>/lab/notes
check "unmount" umount /n
finish
