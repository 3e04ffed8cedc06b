#!/bin/bash
# package.sh [deb|rpm|oci]: packs target/release/orthrus for Debian 12 and newer (the default), for distributions with rpm
# and a C library as new as this machine's, or as an image of a container, which has the libraries of this machine.
# Prints the file, below target/package. Needs dpkg-dev or rpm, nothing for an image, and runs without root. Takes
# seconds; `cargo build --release --locked` comes first.
set -eu
# Users of the packages read their files, whatever the builder hides.
umask 022
cd "$(dirname "$0")/.."
kind=${1:-deb}
target=${CARGO_TARGET_DIR:-target}
program=${ORTHRUS:-$target/release/orthrus}
[ -x "$program" ] || { echo "package: no $program; run cargo build --release --locked" >&2; exit 1; }
case $kind in
  deb) tools='dpkg-deb dpkg-shlibdeps' from=dpkg-dev ;;
  rpm) tools=rpmbuild from=rpm ;;
  oci) tools='ldd sha256sum' from='libc-bin coreutils' ;;
  *) echo "package: no $kind; there are deb, rpm and oci" >&2; exit 2 ;;
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
  install -m 644 packaging/systemd/*.{service,socket} "$root/usr/lib/systemd/system/"
  install -m 644 packaging/sysusers.d/orthrus.conf "$root/usr/lib/sysusers.d/"
  install -m 644 packaging/default/* "$root/etc/default/"
  install -d "$root/usr/share/orthrus" "$root/usr/share/doc/orthrus"
  cp -r scripts/batch packaging/monitoring "$root/usr/share/orthrus/"
  cp -r README.md CHANGELOG.md docs "$root/usr/share/doc/orthrus/"
  rm -r "$root/usr/share/doc/orthrus/docs/results"
  install -m 644 LICENSE-* "$root/usr/share/doc/orthrus/"
  "$program" config example >"$root/etc/orthrus/orthrus.toml"
  # A checkout may have been made with another mask.
  chmod -R u=rwX,go=rX "$root/usr/share"
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
  # No conffile: every site edits its copy, and dpkg would ask about each change of the example.
  mv "$root/etc/orthrus/orthrus.toml" "$root/usr/share/orthrus/"
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

# A layer with the program, its libraries and the files that they need, and nothing else: no shell, no package manager.
pack_oci() {
  local library architecture layer config file
  architecture=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/')
  mkdir -p "$root"/{usr/bin,usr/lib,usr/lib64,etc/orthrus,srv/data,proc,sys,dev,run} "$work/image/blobs/sha256"
  rm -r "$root"/usr/lib/systemd "$root"/usr/lib/sysusers.d "$root"/usr/share/{man,bash-completion,zsh,fish} "$root"/etc/default
  install -d -m 700 "$root/var/lib/orthrus"
  install -d -m 1777 "$root/tmp"
  ln -s usr/bin "$root/bin"; ln -s usr/lib "$root/lib"; ln -s usr/lib64 "$root/lib64"
  # ldd prints `NAME => PATH (ADDRESS)`, and for the loader `PATH (ADDRESS)`.
  for library in $(ldd "$root/usr/bin/orthrus" | sed -n 's/.* => \(.*\) (0x.*/\1/p; s/^\t\(\/.*\) (0x.*/\1/p'); do
    install -D -m 755 "$(realpath "$library")" "$root/usr/${library#/}"
  done
  printf 'root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n' >"$root/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
  printf 'passwd: files\ngroup: files\nhosts: files dns\nnetgroup: files\n' >"$root/etc/nsswitch.conf"
  layer=$work/layer.tar
  tar --create --file "$layer" --directory "$root" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner .
  blob() { # FILE: adds it to the image; prints its digest and size.
    local digest
    digest=$(sha256sum "$1" | cut -d' ' -f1)
    cp "$1" "$work/image/blobs/sha256/$digest"
    printf '"digest": "sha256:%s", "size": %s' "$digest" "$(stat -c %s "$1")"
  }
  gzip -9nc "$layer" >"$layer.gz"
  config=$work/config.json
  cat >"$config" <<J
{"architecture": "$architecture", "os": "linux", "created": "1970-01-01T00:00:00Z",
 "config": {"Entrypoint": ["/usr/bin/orthrus"], "Cmd": ["serve", "--config", "/etc/orthrus/orthrus.toml"],
  "Env": ["PATH=/usr/bin"], "WorkingDir": "/", "StopSignal": "SIGTERM", "ExposedPorts": {"2049/tcp": {}},
  "Volumes": {"/var/lib/orthrus": {}},
  "Labels": {"org.opencontainers.image.title": "Orthrus", "org.opencontainers.image.version": "$version",
   "org.opencontainers.image.description": "NFSv4.1 and NFSv4.2 server with fast Kerberos encryption",
   "org.opencontainers.image.licenses": "MIT OR Apache-2.0"}},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$(sha256sum "$layer" | cut -d' ' -f1)"]}}
J
  cat >"$work/manifest.json" <<J
{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
 "config": {"mediaType": "application/vnd.oci.image.config.v1+json", $(blob "$config")},
 "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", $(blob "$layer.gz")}]}
J
  cat >"$work/image/index.json" <<J
{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
 "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", $(blob "$work/manifest.json"),
  "annotations": {"org.opencontainers.image.ref.name": "orthrus:$version"}}]}
J
  echo '{"imageLayoutVersion": "1.0.0"}' >"$work/image/oci-layout"
  file=$target/package/orthrus_${version}_$architecture.oci.tar
  tar --create --file "$file" --directory "$work/image" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner .
  echo "$file"
}

stage
"pack_$kind"
