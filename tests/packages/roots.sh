#!/bin/bash
# roots.sh [SUITE]...: installs, runs, upgrades and purges the packages in a bare root of each Debian release, bookworm
# and trixie unless others are named: first the one for Debian, then that for rpm, with Debian's rpm and without its
# dependencies. The server runs in a network of its own. Then the root boots with systemd, and boot.sh tries the units.
# Needs root, debootstrap, rpm and a mirror, and a release build; for the boot systemd-nspawn (package
# systemd-container). Takes about two minutes for a release; prints `ok` or `FAIL` for each step.
#
# Exit status: 0 all ok, 1 a step failed, 77 this machine cannot run it (with the reason).
set -eu
HERE=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -gt 0 ] || set -- bookworm trixie

cannot() { echo "roots: cannot run here: $*" >&2; exit 77; }
[ "$(id -u)" = 0 ] || cannot "only root can enter a root"
for tool in debootstrap dpkg-deb rpmbuild unshare; do
  command -v $tool >/dev/null || [ -x /usr/sbin/$tool ] || cannot "no $tool (apt install debootstrap dpkg-dev rpm util-linux)"
done

WORK=$(mktemp -d "${TMPDIR:-/tmp}/orthrus-roots.XXXXXX")
trap 'rm -rf "$WORK"' EXIT
trap 'exit 130' INT TERM HUP
export ORTHRUS=${ORTHRUS:-$HERE/target/release/orthrus}
# The packages do not depend on the mask of the builder.
mask=$(umask)
umask 077
for version in 0.1.0 0.1.1; do
  for kind in deb rpm; do
    file=$(VERSION=$version CARGO_TARGET_DIR="$WORK/$version" "$HERE/scripts/package.sh" $kind)
    mv "$file" "$WORK/"
  done
done
umask "$mask"
# The next version explains another key in its example.
dpkg-deb -R "$WORK"/orthrus_0.1.1_*.deb "$WORK/next"
echo '# another key' >>"$WORK/next/usr/share/orthrus/orthrus.toml"
dpkg-deb --root-owner-group --build "$WORK/next" "$WORK"/orthrus_0.1.1_*.deb >/dev/null
mirror=$(apt-cache policy 2>/dev/null | grep -om1 'https\?://[^ ]*/debian ' || echo http://deb.debian.org/debian)

# inside COMMAND: runs it in the root, with mounts, processes and a network that end with it. apt has the machine's network.
inside() {
  # rpm wants a mount at the root.
  unshare ${NETWORK-} --mount --pid --fork --kill-child=KILL sh -c 'mount --bind "$1" "$1" && exec chroot "$1" /bin/sh -c "$2"' sh "$root" \
    "set -e; mount -t proc proc /proc; ${NETWORK:+ip link set lo up || true;} export DEBIAN_FRONTEND=noninteractive; $1"
}

code=0
# step NAME COMMAND...: runs the command, and prints the end of its output if it fails.
step() {
  local name=$1
  shift
  if "$@" >"$WORK/output" 2>&1; then
    echo "ok $suite: $name"
  else
    echo "FAIL $suite: $name: $(tail -n 5 "$WORK/output" | tr '\n' ' ')"
    code=1
  fi
}

# There is no terminal for questions.
install_package() { inside "apt-get install -y -q=2 --no-install-recommends /$1 </dev/null"; }

serves() {
  NETWORK=--net inside '
    mkdir -p /srv/data; rm -f /tmp/line
    orthrus serve --sec sys --listen 127.0.0.1:2049 --state-dir /var/lib/orthrus /srv/data >/tmp/line 2>/tmp/log &
    for i in $(seq 300); do grep -qs serves /tmp/line && break; sleep 0.1; done
    orthrus clients --state-dir /var/lib/orthrus || { cat /tmp/log; exit 1; }
    kill $! && wait $!'
}

# Names that belong to the package in the root, apart from the caches of apt and dpkg.
leftovers() {
  (cd "$root" && find . -xdev \( -path ./var/cache -o -path ./proc -o -path ./tmp \) -prune -o \
    -name '*orthrus*' -print | grep -v '^\./orthrus[_-]0' | sort)
}

# Boots the root, with a network of its own, and prints the lines of boot.sh.
boot() {
  cp "$HERE/tests/packages/boot.sh" "$root/boot.sh"
  mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
  cat >"$root/etc/systemd/system/steps.service" <<U
[Unit]
After=basic.target dbus.socket
[Service]
Type=oneshot
ExecStart=/bin/sh /boot.sh
StandardOutput=file:/steps
StandardError=file:/steps
U
  ln -sf ../steps.service "$root/etc/systemd/system/multi-user.target.wants/steps.service"
  # systemd wants the unified hierarchy, whatever the machine has.
  timeout 180 unshare --mount sh -ec "mount --make-rprivate /; umount --recursive /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup
    exec systemd-nspawn --quiet --directory='$root' --boot --register=no --keep-unit --private-network --console=pipe" \
    </dev/null >"$WORK/boot" 2>&1 || true
  rm -f "$root/boot.sh" "$root"/etc/systemd/system/{,multi-user.target.wants/}steps.service
  if ! grep -q '^end$' "$root/steps" 2>/dev/null; then
    echo "FAIL $suite: boot: $(tail -n 3 "$WORK/boot" | tr '\n' ' ')"
    code=1
  fi
  [ -e "$root/steps" ] || return 0
  sed -n "s/^ok /ok $suite: systemd: /p;  s/^FAIL /FAIL $suite: systemd: /p; s/^skipped: /skipped: $suite: systemd: /p" "$root/steps"
  ! grep -q '^FAIL' "$root/steps" || code=1
  rm "$root/steps"
}

clean() {
  local left
  left=$(leftovers)
  [ -z "$left" ] || { echo "left: $left"; return 1; }
}

for suite; do
  root=$WORK/$suite
  step "a bare root" debootstrap --variant=minbase "$suite" "$root" "$mirror"
  cp "$WORK"/*.deb "$WORK"/*.rpm "$root/"
  step "install" install_package orthrus_0.1.0_*.deb
  step "version" inside 'orthrus --version | grep -q 0.1'
  step "manual pages and the example" inside 'test -e /usr/share/man/man1/orthrus-serve.1.gz -a -s /etc/orthrus/orthrus.toml'
  step "the user of the grants" inside 'getent passwd orthrus-grants'
  step "serve" serves
  step "a changed configuration" inside 'echo "# ours" >>/etc/orthrus/orthrus.toml'
  step "upgrade" install_package orthrus_0.1.1_*.deb
  step "the upgrade keeps the configuration and the state" inside \
    'dpkg -s orthrus | grep -q "Version: 0.1.1"; grep -q "# ours" /etc/orthrus/orthrus.toml; test -d /var/lib/orthrus'
  step "the example of the new version" inside \
    'grep -q "# another key" /usr/share/orthrus/orthrus.toml && ! grep -q "# another key" /etc/orthrus/orthrus.toml'
  step "serve after the upgrade" serves
  step "remove" inside 'apt-get remove -y -q=2 orthrus; test ! -e /usr/bin/orthrus -a -e /etc/orthrus/orthrus.toml -a -d /var/lib/orthrus'
  step "purge" inside 'apt-get purge -y -q=2 orthrus'
  step "nothing is left" clean

  step "the tool rpm" inside 'apt-get install -y -q=2 --no-install-recommends rpm && userdel orthrus-grants'
  step "rpm: install" inside 'rpm --install --nodeps /orthrus-0.1.0-*.rpm'
  step "rpm: the user of the grants" inside 'getent passwd orthrus-grants'
  step "rpm: serve" serves
  step "rpm: a changed configuration" inside 'echo "# ours" >>/etc/orthrus/orthrus.toml'
  step "rpm: upgrade" inside 'rpm --upgrade --nodeps /orthrus-0.1.1-*.rpm; rpm --query orthrus | grep -q 0.1.1'
  step "rpm: the upgrade keeps the configuration" inside 'grep -q "# ours" /etc/orthrus/orthrus.toml'
  step "rpm: serve after the upgrade" serves
  step "rpm: erase" inside 'rpm --erase orthrus; test ! -e /usr/bin/orthrus -a -d /var/lib/orthrus; userdel orthrus-grants; rm -rf /etc/orthrus'

  if command -v systemd-nspawn >/dev/null; then
    step "systemd" inside 'apt-get install -y -q=2 --no-install-recommends systemd systemd-sysv dbus; rm -rf /var/lib/orthrus'
    step "systemd: install" install_package orthrus_0.1.0_*.deb
    boot
    step "systemd: nothing is left" clean
  else
    echo "skipped: $suite: systemd-nspawn is missing (apt install systemd-container)"
  fi
  rm -rf "$root"
done
exit $code
