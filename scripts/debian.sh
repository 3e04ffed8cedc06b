#!/bin/bash
# debian.sh NAME: unpacks packages of a newer Debian beside the system and prints their folder.
#
#   linux-6.12   the user-mode kernel of trixie        ganesha-6.5   NFS-Ganesha of trixie
#   linux-7      the user-mode kernel of sid           ganesha-15    NFS-Ganesha of sid
#   linux-cloud  trixie's kernel for virtual machines  qemu          QEMU of bookworm
#
# Nothing is installed, and apt's own state stays as it is. The packages come from the mirror that
# this machine uses, through apt. Kernels are pinned by version and SHA-256. A mirror keeps only the
# current version of a package: when a pinned one is gone, the newest of the same series is taken,
# with a note. The others come with all that they depend on, which moves too often to be pinned, but
# of the named series; apt checks them against the release's signature.
#
# The folder is target/debian/NAME, or below $ORTHRUS_DEBIAN. Exit status 77, with the reason, where
# packages cannot be had.
set -eu
name=${1:?linux-6.12, linux-7, linux-cloud, qemu, ganesha-6.5 or ganesha-15}
here=$(cd "$(dirname "$0")/.." && pwd)
folder=${ORTHRUS_DEBIAN:-$here/target/debian}
mkdir -p "$folder"
root=$(cd "$folder" && pwd)/$name

# pinned: SUITE PACKAGE SERIES VERSION POOL SHA256, a line each. whole: SUITE SERIES PACKAGE...
# Both kernels want a C library of 2.38 or later: trixie's changes least.
libc="trixie libc6 2. 2.41-12+deb13u4 pool/main/g/glibc 967aa62605721081c3eb2a17650611a792aa802d76a6511d1840242623d204c9"
uml=pool/main/u/user-mode-linux
pinned='' whole=''
case $name in
  linux-6.12) pinned="$libc
trixie user-mode-linux 6.12 6.12um1+b21 $uml 2e43edfce116cb48362b932c24128a8dfe2de9bba2aba735cdb3b1b4a114238c" ;;
  linux-7) pinned="$libc
sid user-mode-linux 7. 7.2um1 $uml f947c9244fd79d481299df2ad68961f6b3b7703bff38c4b0e726f861161da62c" ;;
  ganesha-6.5) whole="trixie 6.5 nfs-ganesha nfs-ganesha-vfs" ;;
  linux-cloud) whole="trixie 6.12 linux-image-cloud-amd64 busybox-static" ;;
  qemu) whole="bookworm 1:7. qemu-system-x86" ;;
  ganesha-15) whole="sid 15. nfs-ganesha nfs-ganesha-vfs nfs-ganesha-ceph" ;;
  *) echo "debian: no $name; there are linux-6.12, linux-7, linux-cloud, qemu, ganesha-6.5 and ganesha-15" >&2; exit 2 ;;
esac

note() { echo "debian: $*" | tee -a "$work/notes" >&2; }
cannot() { echo "debian: $name cannot be had: $*" >&2; exit 77; }

# A run that waited for another one finds its work done. A recipe that has changed, or a folder that
# was moved, is made anew.
exec 9>"$folder/.$name.lock"
flock 9
recipe="$root $pinned$whole"
if [ -f "$root/recipe" ] && [ "$(cat "$root/recipe")" = "$recipe" ]; then
  cat "$root/notes" >&2
  echo "$root"
  exit
fi
work=$folder/.$name.new
rm -rf "$work" "$root"
mkdir -p "$work/debs"
: >"$work/notes"

[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || cannot "this machine is no Debian of the architecture amd64"
command -v patchelf >/dev/null || cannot "patchelf is missing (apt-get install patchelf)"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e $keyring ] || cannot "$keyring is missing"
mirror=$(cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null | grep -Eo '^[^#]*' |
  grep -Eo '[a-z]+://[^ ]+/debian/?( |$)' | head -n 1 | tr -d ' ')
[ -n "$mirror" ] || cannot "apt knows no mirror of Debian"
quick=(-o APT::Sandbox::User=root -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30)

# suite SUITE: apt's lists of that release, in a folder of their own.
suite() {
  local apt=$folder/.apt-$1
  mkdir -p "$apt"/lists/partial "$apt"/cache/archives/partial
  echo "deb [signed-by=$keyring] $mirror $1 main" >"$apt/sources.list"
  : >"$apt/status"
  options=("${quick[@]}" -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::Etc::preferencesparts=/dev/null -o Dir::State="$apt" -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status"
    -o Dir::Cache="$apt/cache" -q=2)
  flock "$apt" apt-get "${options[@]}" update 2>"$work/errors" >&2 || return
  # Being out of reach is a warning to apt.
  apt-cache "${options[@]}" show libc6 >/dev/null 2>&1
}

version_of() { apt-cache "${options[@]}" show --no-all-versions "$1" 2>/dev/null | sed -n 's/^Version: //p'; }

newest() {
  local release=$1 package=$2 series=$3 version
  suite "$release" || cannot "$release is out of reach: $(tail -n 1 "$work/errors")"
  version=$(version_of "$package")
  case $version in "$series"*) ;; *) cannot "$release has $package ${version:-not at all}, and a $series is wanted" ;; esac
  (cd "$work/debs" && apt-get "${options[@]}" download "$package" 2>"$work/errors" >&2) ||
    cannot "$package: $(tail -n 1 "$work/errors")"
  note "$package $4 is gone from the mirror; $release has $version now"
}

while read -r release package series version pool hash; do
  [ -n "$release" ] || continue
  file=${package}_${version#*:}_amd64.deb
  /usr/lib/apt/apt-helper "${quick[@]}" download-file "$mirror/$pool/$file" "$work/debs/$file" "SHA256:$hash" \
    >"$work/errors" 2>&1 || { rm -f "$work/debs/$file"* ; newest "$release" "$package" "$series" "$version"; }
done <<<"$pinned"

if [ -n "$whole" ]; then
  read -r release series packages <<<"$whole"
  suite "$release" || cannot "$release is out of reach: $(tail -n 1 "$work/errors")"
  version=$(version_of "${packages%% *}")
  case $version in "$series"*) ;; *) cannot "$release has ${packages%% *} ${version:-not at all}, and a $series is wanted" ;; esac
  # Nothing counts as installed, so this is the whole of it; it is only downloaded.
  # shellcheck disable=SC2086 # words
  apt-get "${options[@]}" -o Dir::Cache::archives="$(cd "$work/debs" && pwd)" -y --no-install-recommends --download-only \
    install $packages 2>"$work/errors" >&2 || cannot "$packages: $(tail -n 1 "$work/errors")"
fi

for deb in "$work"/debs/*.deb; do dpkg -x "$deb" "$work"; done
rm -rf "$work/debs" "$work/errors"
mv "$work" "$root"
if [ -n "$pinned" ]; then
  # A program of its own loader: as the loader's argument, a user-mode kernel takes the loader's
  # memory for its own.
  lib=$root/usr/lib/x86_64-linux-gnu
  cp "$root/usr/bin/linux.uml" "$root/linux"
  patchelf --set-interpreter "$lib/ld-linux-x86-64.so.2" --set-rpath "$lib" "$root/linux"
fi
echo "$recipe" >"$root/recipe"
echo "$root"
