# rival.sh: mounts another gateway than the guest that appends (append.sh), and wants its lock. FILE and WITNESS, the folder
# that the other guest shares with the host, come from /lab/settings.
. /lab/lib.sh
. /run/mount.sh
mkdir /witness
witness() { mount -t hostfs none -o "ro,hostfs=$WITNESS" /witness || mount -t hostfs none -o "ro,$WITNESS" /witness; }
check "witness" witness || finish
check "rival" as alice perl /run/job.pl "/n/$FILE" /witness/notes 3>>/lab/notes
check "unmount" umount /n
finish
