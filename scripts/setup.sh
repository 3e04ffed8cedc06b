#!/bin/bash
# setup.sh PURPOSE — installs what is missing on Debian 12 for: run (build and try), ceph (try with a one-node Ceph
# cluster) or test (build, run and pass every test).
# Does nothing, and needs no root, where all of it is there already.
set -eu
purpose=${1:?run, ceph or test}
rust_min=1.95

have() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/usr/bin/$1" ]; }
need=()
want() { have "$1" || need+=("${2:-$1}"); }

# MIT Kerberos: the KDC for the throw-away realm, and its library to accept contexts with.
want krb5kdc krb5-kdc
want kadmin.local krb5-admin-server
want kinit krb5-user
[ -e /usr/include/gssapi/gssapi_krb5.h ] || need+=(libkrb5-dev)
want cc build-essential
want git
[ -e /etc/ssl/certs/ca-certificates.crt ] || need+=(ca-certificates)   # crates come by HTTPS
if [ "$purpose" != run ]; then
  want ceph-mon                              # CephFS: a cluster of one node, and its client
  want ceph-osd
  want ceph-mds
  want ceph ceph-common
  for lib in libcephfs2 librados2; do
    ls /usr/lib/*-linux-gnu/${lib%2}.so.2 >/dev/null 2>&1 || need+=($lib)
  done
fi
if [ "$purpose" = test ]; then
  want g++ build-essential
  want valgrind                              # a memory checker for the hand-made kernels
  want linux.uml user-mode-linux             # the Linux kernel client
  want patchelf                              # newer kernels, unpacked beside the system (scripts/debian.sh)
  want mount.nfs4 nfs-common
  want ip iproute2
  want fio                                   # many requests in flight, from the Linux client
  want scp openssh-client                    # bench lanl compares with it
  want sshd openssh-server
  want modprobe kmod
  want nft nftables                          # the head node of the lab's cluster
  want dnsmasq dnsmasq-base                  # its name service
  want mkfs.ext4 e2fsprogs                   # file systems to break, to fill and to share blocks on
  want mkfs.xfs xfsprogs
  want mkfs.btrfs btrfs-progs
  want setquota quota
  want setfacl acl                           # what users do, from the Linux client
  want setfattr attr
  want slapd                                 # a directory of users
  want openssl                               # its certificates
  want samba samba-ad-dc                     # an Active Directory domain
  [ -e /usr/share/samba/setup/provision.ldif ] || need+=(samba-ad-provision)
  want slurmctld                             # batch jobs
  want slurmd
  want sbatch slurm-client
  [ -e /lib/systemd/systemd ] || need+=(systemd)         # machines that start as a site's do
  [ -e /lib/systemd/systemd-udevd ] || need+=(udev)
  want munged munge
  want ldapmodify ldap-utils                 # the realm with delegation
  [ -e /usr/lib/x86_64-linux-gnu/krb5/plugins/kdb/kldap.so ] || need+=(krb5-kdc-ldap)
  want nfs4_setfacl nfs4-acl-tools
  want ganesha.nfsd nfs-ganesha              # the peer of the benchmarks
  [ -e /usr/lib/x86_64-linux-gnu/ganesha/libfsalvfs.so ] || need+=(nfs-ganesha-vfs)
  want ganesha-rados-grace nfs-ganesha-rados-grace   # it inspects and edits our grace database
  want chromium                              # the report is looked at in a real browser
  want prometheus                            # the alert rules and the dashboard
  want promtool prometheus
  want tsc node-typescript                    # it holds the dashboard against the types of Grafana
  want curl                                  # they come from the registry of npm (scripts/grafana-schema.sh)
fi

# A Rust toolchain that is new enough: the one that is there, else Debian's own rebuild for its browsers.
rust_ok() { have cargo && have rustc && printf '%s\n%s\n' "$rust_min" "$(rustc --version | cut -d' ' -f2)" | sort -VC; }
rust_ok || need+=(rustc-web cargo-web rustfmt-web)
# Clippy is a step of CI; a toolchain by rustup may lack it, and then Debian's cannot help.
if [ "$purpose" = test ] && ! have cargo-clippy; then
  ! rust_ok || [ -e /usr/bin/rustc ] || { echo "setup: clippy is missing: rustup component add clippy" >&2; exit 3; }
  need+=(rust-web-clippy)
fi

if [ ${#need[@]} -gt 0 ]; then
  # Several wants can name one package.
  mapfile -t need < <(printf '%s\n' "${need[@]}" | sort -u)
  if [ "$(id -u)" != 0 ]; then
    echo "setup: missing packages, and only root can install them. Run this once, then the same command again:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y ${need[*]}" >&2
    exit 3
  fi
  echo "setup: installing ${need[*]}" >&2
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q >&2
  # No package may start its service: the realm and the servers of the project are processes of its own.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy
  fi
  # apt shows its progress.
  apt-get install -y -q --no-install-recommends "${need[@]}" >&2
fi
rust_ok || { echo "setup: Rust $rust_min or newer is needed; found: $(rustc --version 2>&1)" >&2; exit 3; }
