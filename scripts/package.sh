#!/bin/bash
# package.sh: packs target/release/orthrus as target/package/orthrus_VERSION_ARCHITECTURE.deb, for Debian 12 and newer.
# Needs dpkg-dev, and runs without root. Takes seconds; `cargo build --release --locked` comes first.
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
program=${ORTHRUS:-$target/release/orthrus}
[ -x "$program" ] || { echo "package: no $program; run cargo build --release --locked" >&2; exit 1; }
for tool in dpkg-deb dpkg-shlibdeps; do
  command -v $tool >/dev/null || { echo "package: no $tool; run apt-get install dpkg-dev" >&2; exit 1; }
done

version=${VERSION:-$("$program" --version | cut -d' ' -f2)}
architecture=$(dpkg --print-architecture)
mkdir -p "$target/package"
work=$(mktemp -d "$target/package/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root

install -D -m 755 -s "$program" "$root/usr/bin/orthrus"
install -d "$root"/usr/share/{man/man1,bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
"$program" man "$root/usr/share/man/man1" >/dev/null
gzip -9n "$root"/usr/share/man/man1/*
"$program" completions bash >"$root/usr/share/bash-completion/completions/orthrus"
"$program" completions zsh >"$root/usr/share/zsh/vendor-completions/_orthrus"
"$program" completions fish >"$root/usr/share/fish/vendor_completions.d/orthrus.fish"
install -d "$root"/{etc/orthrus,etc/default,lib/systemd/system,usr/lib/sysusers.d}
install -m 644 packaging/systemd/*.service "$root/lib/systemd/system/"
install -m 644 packaging/sysusers.d/orthrus.conf "$root/usr/lib/sysusers.d/"
install -m 644 packaging/default/* "$root/etc/default/"
install -d "$root/usr/share/orthrus" "$root/usr/share/doc/orthrus"
cp -r scripts/batch packaging/monitoring "$root/usr/share/orthrus/"
cp -r README.md CHANGELOG.md docs "$root/usr/share/doc/orthrus/"
rm -r "$root/usr/share/doc/orthrus/docs/results"
install -m 644 LICENSE-* "$root/usr/share/doc/orthrus/"
"$program" config example >"$root/etc/orthrus/orthrus.toml"

# dpkg-shlibdeps wants a source package around it.
mkdir -p "$work/debian" "$root/DEBIAN"
printf 'Source: orthrus\n\nPackage: orthrus\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O --ignore-missing-info root/usr/bin/orthrus 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
sed -e "s|@VERSION@|$version|; s|@ARCHITECTURE@|$architecture|; s|@DEPENDS@|$depends|" \
  packaging/deb/control >"$root/DEBIAN/control"
install -m 755 packaging/deb/{postinst,prerm,postrm} "$root/DEBIAN/"
(cd "$root" && find etc -type f | sed 's|^|/|') >"$root/DEBIAN/conffiles"
(cd "$root" && find usr lib etc -type f -exec md5sum {} +) >"$root/DEBIAN/md5sums"
file=$(realpath "$target")/package/orthrus_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$file" >/dev/null
echo "$file"
