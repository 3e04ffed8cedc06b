#!/bin/bash
# package.sh [deb|rpm]: packs target/release/orthrus for Debian 12 and newer (the default), or for distributions with rpm
# and a C library as new as this machine's. Prints the file, below target/package. Needs dpkg-dev or rpm, and runs
# without root. Takes seconds; `cargo build --release --locked` comes first.
set -eu
cd "$(dirname "$0")/.."
kind=${1:-deb}
target=${CARGO_TARGET_DIR:-target}
program=${ORTHRUS:-$target/release/orthrus}
[ -x "$program" ] || { echo "package: no $program; run cargo build --release --locked" >&2; exit 1; }
case $kind in
  deb) tools='dpkg-deb dpkg-shlibdeps' from=dpkg-dev ;;
  rpm) tools=rpmbuild from=rpm ;;
  *) echo "package: no $kind; there are deb and rpm" >&2; exit 2 ;;
esac
for tool in $tools; do
  command -v $tool >/dev/null || { echo "package: no $tool; run apt-get install $from" >&2; exit 1; }
done

version=${VERSION:-$("$program" --version | cut -d' ' -f2)}
mkdir -p "$target/package"
target=$(realpath "$target")
work=$(mktemp -d "$target/package/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root

# The files that all packages have.
stage() {
  install -D -m 755 -s "$program" "$root/usr/bin/orthrus"
  install -d "$root"/usr/share/{man/man1,bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
  "$program" man "$root/usr/share/man/man1" >/dev/null
  gzip -9n "$root"/usr/share/man/man1/*
  "$program" completions bash >"$root/usr/share/bash-completion/completions/orthrus"
  "$program" completions zsh >"$root/usr/share/zsh/vendor-completions/_orthrus"
  "$program" completions fish >"$root/usr/share/fish/vendor_completions.d/orthrus.fish"
  install -d "$root"/{etc/orthrus,etc/default,usr/lib/systemd/system,usr/lib/sysusers.d}
  install -m 644 packaging/systemd/*.service "$root/usr/lib/systemd/system/"
  install -m 644 packaging/sysusers.d/orthrus.conf "$root/usr/lib/sysusers.d/"
  install -m 644 packaging/default/* "$root/etc/default/"
  install -d "$root/usr/share/orthrus" "$root/usr/share/doc/orthrus"
  cp -r scripts/batch packaging/monitoring "$root/usr/share/orthrus/"
  cp -r README.md CHANGELOG.md docs "$root/usr/share/doc/orthrus/"
  rm -r "$root/usr/share/doc/orthrus/docs/results"
  install -m 644 LICENSE-* "$root/usr/share/doc/orthrus/"
  "$program" config example >"$root/etc/orthrus/orthrus.toml"
}

pack_deb() {
  local architecture depends file
  architecture=$(dpkg --print-architecture)
  # dpkg-shlibdeps wants a source package around it.
  mkdir -p "$work/debian" "$root/DEBIAN"
  printf 'Source: orthrus\n\nPackage: orthrus\nArchitecture: any\n' >"$work/debian/control"
  depends=$(cd "$work" && dpkg-shlibdeps -O --ignore-missing-info root/usr/bin/orthrus 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
  sed -e "s|@VERSION@|$version|; s|@ARCHITECTURE@|$architecture|; s|@DEPENDS@|$depends|" \
    packaging/deb/control >"$root/DEBIAN/control"
  install -m 755 packaging/deb/{postinst,prerm,postrm} "$root/DEBIAN/"
  (cd "$root" && find etc -type f | sed 's|^|/|') >"$root/DEBIAN/conffiles"
  (cd "$root" && find usr etc -type f -exec md5sum {} +) >"$root/DEBIAN/md5sums"
  file=$target/package/orthrus_${version}_$architecture.deb
  dpkg-deb --root-owner-group --build "$root" "$file" >/dev/null
  echo "$file"
}

pack_rpm() {
  local file
  mv "$root"/usr/share/zsh/{vendor-completions,site-functions}
  (cd "$root" && find . -type f | sed 's|^\.||; s|^/etc|%config(noreplace) &|; s|.*|%attr(-, root, root) &|') >"$work/files"
  sed -e "s|@VERSION@|$version|; s|@STAGED@|$root|; s|@FILES@|$work/files|" packaging/rpm/orthrus.spec >"$work/orthrus.spec"
  rpmbuild -bb --quiet --define "_topdir $work/rpm" "$work/orthrus.spec" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  file=$(find "$work/rpm/RPMS" -name '*.rpm')
  mv "$file" "$target/package/"
  echo "$target/package/${file##*/}"
}

stage
"pack_$kind"
