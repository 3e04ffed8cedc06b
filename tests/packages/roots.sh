#!/bin/bash
# roots.sh [SUITE]...: installs, runs, upgrades and purges the packages in a bare root of each Debian release, bookworm
# and trixie unless others are named: first the one for Debian, then that for rpm, with Debian's rpm and without its
# dependencies. The server runs in a network of its own. Needs root, debootstrap, rpm and a mirror, and a release build.
# Takes about 90 seconds for a release; prints `ok` or `FAIL` for each step.
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
for version in 0.1.0 0.1.1; do
  for kind in deb rpm; do
    file=$(VERSION=$version CARGO_TARGET_DIR="$WORK/$version" "$HERE/scripts/package.sh" $kind)
    mv "$file" "$WORK/"
  done
done
mirror=$(apt-cache policy 2>/dev/null | grep -om1 'https\?://[^ ]*/debian ' || echo http://deb.debian.org/debian)

# inside COMMAND: runs it in the root, with mounts, processes and a network that end with it. apt has the machine's network.
inside() {
  unshare ${NETWORK-} --mount --pid --fork --kill-child=KILL chroot "$root" /bin/sh -c \
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

install_package() { inside "apt-get install -y -q=2 --no-install-recommends /$1"; }

serves() {
  NETWORK=--net inside '
    mkdir -p /srv/data
    orthrus serve --sec sys --listen 127.0.0.1:2049 --state-dir /var/lib/orthrus /srv/data >/tmp/line 2>/tmp/log &
    for i in $(seq 100); do grep -q serves /tmp/line && break; sleep 0.1; done
    orthrus clients --state-dir /var/lib/orthrus || { cat /tmp/log; exit 1; }
    kill $! && wait $!'
}

# Names that belong to the package in the root, apart from the caches and logs of apt and dpkg.
leftovers() {
  (cd "$root" && find . -xdev \( -path ./var/cache -o -path ./var/log -o -path ./proc -o -path ./tmp \) -prune -o \
    -name '*orthrus*' -print | grep -v '^\./orthrus[_-]0' | sort)
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
  step "rpm: erase" inside 'rpm --erase orthrus; test ! -e /usr/bin/orthrus -a -d /var/lib/orthrus'
  rm -rf "$root"
done
exit $code
