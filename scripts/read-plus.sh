#!/bin/bash
# read-plus.sh ORTHRUS: reads sparse files with a Linux kernel that sends READ_PLUS.
#
# Of Debian's kernels only trixie's cloud kernel has CONFIG_NFS_V4_2_READ_PLUS. It runs under QEMU without KVM, with
# an initramfs of busybox and the modules that NFS needs. Kernel, busybox and QEMU come from scripts/debian.sh;
# nothing is installed. The guest reaches the server on loopback through QEMU's user-mode network, from a high port.
#
# Exit status 0: every checksum is right and the server counted READ_PLUS; 1: not so; 77, with the reason: it cannot
# run here.
set -eu
orthrus=$(readlink -f "${1:?the program}")
here=$(cd "$(dirname "$0")" && pwd)
# Boot and reads take about a minute.
seconds_max=300

cannot() { echo "read-plus: skipped: $*" >&2; exit 77; }
for tool in depmod modprobe xz sha256sum timeout; do
  command -v $tool >/dev/null || cannot "$tool is missing (packages kmod, xz-utils, coreutils)"
done
unpack() {
  local code=0
  "$here/debian.sh" "$1" 2>"$work/unpack" || code=$?
  [ $code != 77 ] || cannot "$(tail -n 1 "$work/unpack")"
  [ $code = 0 ] || { cat "$work/unpack" >&2; exit 1; }
}

work=$(mktemp -d "${TMPDIR:-/tmp}/orthrus-read-plus-XXXXXX")
server='' guest=''
end() {
  for process in $guest $server; do kill "$process" 2>/dev/null && wait "$process" 2>/dev/null; done
  rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

kernel=$(unpack linux-cloud) || exit
qemu=$(unpack qemu) || exit
version=$(ls "$kernel/usr/lib/modules")
grep -q '^CONFIG_NFS_V4_2_READ_PLUS=y' "$kernel/boot/config-$version" || cannot "Linux $version has no READ_PLUS"

# Holes and data that begin and end on and beside the edges of blocks and requests.
mkdir -m 755 "$work/export"
make() { # NAME SIZE [OFFSET:LENGTH...]
  local file=$work/export/$1 size=$2 part
  shift 2
  truncate -s "$size" "$file"
  for part; do
    head -c "${part#*:}" /dev/urandom | dd of="$file" bs=64K seek="${part%:*}" oflag=seek_bytes conv=notrunc status=none
  done
}
make empty 0
make byte 1 0:1
make small 100 40:60
make hole 8M
make data 3M 0:3145728
make head 4M 0:65536
make tail 4M 4128768:65536
make odd 4194305 1:1 70001:4097 1048575:2 2097151:131073 4194304:1
make comb 8M $(seq 0 131072 8388607 | sed 's/$/:65536/')
make dust 1M $(seq 0 8192 1048575 | sed 's/$/:1/')
make large 256M 134217728:1048576
chmod 644 "$work"/export/*
(cd "$work/export" && sha256sum -- * | sort -k 2) >"$work/expected"

coproc SERVER { exec "$orthrus" serve --end-with-input --same-user --listen 127.0.0.1:0 --metrics 127.0.0.1:0 \
  --state-dir "$work/state" --sec sys --secure false --read-only "$work/export" 2>"$work/server.log"; }
server=$SERVER_PID
read -r -t 20 line <&"${SERVER[0]}" || { cat "$work/server.log" >&2; exit 1; }
port=${line##*:}
read -r -t 20 line <&"${SERVER[0]}" || { cat "$work/server.log" >&2; exit 1; }
metrics=${line#*http://}; metrics=${metrics%/metrics}; metrics=${metrics##*:}
operations() { # OPERATION: how often the server has run it
  exec 3<>"/dev/tcp/127.0.0.1/$metrics"
  printf 'GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' >&3
  awk -v name="orthrus_operations_total{operation=\"$1\"" 'index($0, name) == 1 {sum += $NF} END {print sum + 0}' <&3
  exec 3<&-
}

root=$work/root
mkdir -p "$root"/{bin,proc,sys,dev,mnt,modules,lib}
cp "$kernel/usr/bin/busybox" "$root/bin/"
# modprobe wants lib/modules, and Debian's packages have usr/lib/modules.
tree=$work/modules
mkdir -p "$tree/lib/modules"
cp -r "$kernel/usr/lib/modules/$version" "$tree/lib/modules/"
depmod -b "$tree" "$version"
: >"$root/modules/order"
for module in virtio_net nfsv4; do
  modprobe -d "$tree" -S "$version" --show-depends "$module" | awk '$1 == "insmod" {print $2}'
done | awk '!seen[$0]++' | while read -r file; do
  name=$(basename "${file%.xz}")
  case $file in *.xz) xz -dc "$file" >"$root/modules/$name" ;; *) cp "$file" "$root/modules/$name" ;; esac
  echo "$name" >>"$root/modules/order"
done
cat >"$root/init" <<INIT
#!/bin/busybox sh
b=/bin/busybox
\$b mount -t proc proc /proc; \$b mount -t sysfs sysfs /sys; \$b mount -t devtmpfs dev /dev 2>/dev/null
while read -r module; do \$b insmod /modules/\$module || \$b echo "TROUBLE \$module"; done </modules/order
\$b ifconfig lo 127.0.0.1; \$b ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up; \$b route add default gw 10.0.2.2
\$b echo "KERNEL \$(\$b uname -r)"
for rsize in 1048576 65536 4096; do
  \$b mount -i -t nfs4 -o vers=4.2,proto=tcp,sec=sys,port=$port,rsize=\$rsize,addr=10.0.2.2,clientaddr=10.0.2.15,ro,hard 10.0.2.2:/export /mnt ||
    \$b echo "TROUBLE mount"
  cd /mnt
  for file in *; do
    [ \$rsize = 4096 ] && [ \$file = large ] && continue
    \$b echo "SUM \$rsize \$(\$b sha256sum \$file)"
  done
  cd /; \$b umount /mnt
done
\$b echo "END"
\$b poweroff -f
INIT
chmod 755 "$root/init"
(cd "$root" && find . | "$root/bin/busybox" cpio -o -H newc 2>/dev/null) >"$work/initramfs"

lib=$qemu/usr/lib/x86_64-linux-gnu
before=$(operations READ_PLUS)
# TCG of QEMU 7.2 leaves garbage in the flags behind CMPXCHG16B, and the guest's allocator crashes on it: no cx16.
begin=$SECONDS
QEMU_MODULE_DIR=$lib/qemu timeout "$seconds_max" "$qemu/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" --library-path "$qemu/lib/x86_64-linux-gnu:$lib:$lib/pulseaudio" "$qemu/usr/bin/qemu-system-x86_64" \
  -L "$qemu/usr/share/seabios" -L "$qemu/usr/share/qemu" -L "$qemu/usr/lib/ipxe/qemu" -machine pc,accel=tcg -cpu qemu64,-cx16 -smp 1 -m 512 -nodefaults -no-reboot \
  -display none -serial stdio -monitor none -netdev user,id=net -device virtio-net-pci,netdev=net,romfile= \
  -kernel "$kernel/boot/vmlinuz-$version" -initrd "$work/initramfs" \
  -append 'console=ttyS0 loglevel=1 panic=-1' </dev/null >"$work/console" 2>"$work/qemu.log" &
guest=$!
code=0
wait $guest || code=$?
guest=''
tr -d '\r' <"$work/console" >"$work/said"
if [ $code != 0 ] || ! grep -qx END "$work/said" || grep -q ^TROUBLE "$work/said"; then
  tail -n 40 "$work/said" "$work/qemu.log" >&2
  echo "read-plus: the guest did not finish (QEMU's exit status $code)" >&2
  exit 1
fi
after=$(operations READ_PLUS) reads=$(operations READ)
wrong=0 checked=0
while read -r _ rsize sum file; do
  checked=$((checked + 1))
  grep -qx "$sum  $file" "$work/expected" || { echo "read-plus: $file with rsize=$rsize is wrong" >&2; wrong=1; }
done < <(grep '^SUM ' "$work/said")
files=$(wc -l <"$work/expected")
echo "read-plus: $(sed -n 's/^KERNEL /Linux /p' "$work/said"), $checked checksums of $files files in $((SECONDS - begin)) s," \
  "$((after - before)) READ_PLUS and $reads READ"
[ $wrong = 0 ] || exit 1
[ $checked = $((3 * files - 1)) ] || { echo "read-plus: $checked checksums are not all" >&2; exit 1; }
[ $((after - before)) -ge "$files" ] || { echo "read-plus: the guest has not used READ_PLUS" >&2; exit 1; }
