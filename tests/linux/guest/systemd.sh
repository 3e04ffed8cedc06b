#!/bin/sh
# systemd.sh: the first process of a machine of site.sh. The root is that of init.sh: the host's own, seen through hostfs,
# with a tmpfs over it. The kernel's command line gives SHARE, MODULES, MACHINE and ADDRESS. Debian's systemd goes on
# from here, and starts one unit: the steps of the page.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
off() { echo o >/proc/sysrq-trigger; sleep 5; }

mount -t proc proc /proc
insmod "$MODULES/kernel/fs/overlayfs/overlay.ko" || off
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root || off
cd /mnt/root || off
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t devtmpfs devtmpfs dev
for folder in run tmp srv; do mount -t tmpfs tmpfs $folder; done
mkdir -p lab "lib/modules/$(uname -r)"
mount --bind "$MODULES" "lib/modules/$(uname -r)"
# From 6.11 on hostfs wants its folder as an option with a name. sync: what the guest writes is seen at once.
mount -t hostfs none -o "sync,hostfs=$SHARE" lab 2>/dev/null || mount -t hostfs none -o "sync,$SHARE" lab || off
ip link set lo up
ip link set vec0 up
ip address add "$ADDRESS/24" dev vec0

# An empty machine: the packages are there, as after `apt-get install`, and nobody has configured any.
rm -rf etc/krb5.keytab etc/krb5kdc/* var/lib/krb5kdc/* etc/slurm/*.conf etc/orthrus etc/default/orthrus* var/lib/orthrus*
echo '127.0.0.1 localhost' >etc/hosts
echo "$MACHINE" >etc/hostname
: >etc/fstab
# Neither is it a container, where systemd would not propagate mounts.
rm -f usr/sbin/policy-rc.d .dockerenv
# dpkg would index all manual pages again, which takes minutes here.
rm -f var/lib/man-db/auto-update
cp lab/*.deb root/
cat >etc/systemd/system/steps.service <<U
[Unit]
Description=The steps of the page
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/bash /lab/steps.sh $MACHINE
ExecStopPost=/bin/systemctl --no-block poweroff --force
U
cat >etc/systemd/system/steps.target <<U
[Unit]
Requires=basic.target
Wants=steps.service
After=basic.target
U
exec chroot . /lib/systemd/systemd --unit=steps.target --log-target=console
