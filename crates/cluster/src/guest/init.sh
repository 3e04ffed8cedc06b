#!/bin/sh
# init.sh: the guest's first process. The root is the host's own, seen through hostfs; a tmpfs laid over it takes all
# that the guest writes, so nothing of the host changes. The kernel's command line gives SHARE, the one folder that the
# guest may write to, and MODULES.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH

off() { echo o >/proc/sysrq-trigger; sleep 5; }

if [ "${1:-}" != overlaid ]; then
  mount -t proc proc /proc
  insmod "$MODULES/kernel/fs/overlayfs/overlay.ko" || off
  # /mnt is on every Debian; a tmpfs over it carries the upper layer and the new root.
  mount -t tmpfs tmpfs /mnt
  mkdir /mnt/upper /mnt/work /mnt/root
  mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root || off
  cd /mnt/root || off
  mount -t proc proc proc
  mount -t sysfs sysfs sys
  mount -t devtmpfs devtmpfs dev
  mkdir -p dev/pts dev/shm
  mount -t devpts devpts dev/pts
  for folder in dev/shm run tmp; do mount -t tmpfs tmpfs $folder; done
  mkdir -p lab n "lib/modules/$(uname -r)"
  mount --bind "$MODULES" "lib/modules/$(uname -r)"
  # From 6.11 on hostfs wants its folder as an option with a name. sync: what the guest writes is seen at once.
  mount -t hostfs none -o "sync,hostfs=$SHARE" lab 2>/dev/null || mount -t hostfs none -o "sync,$SHARE" lab || off
  cp "$0" run/init.sh
  exec chroot . /bin/sh /run/init.sh overlaid
fi

/bin/bash /lab/setup.sh >>/lab/out 2>&1
code=0
for job in /lab/jobs/*.sh; do
  rm -rf /tmp/*                          # each job begins with nothing of the last one's
  /bin/bash "$job" </dev/null >>/lab/out 2>&1 || code=1
done
echo $code >/lab/code
sync
off
