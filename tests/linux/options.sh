# options.sh: the command line, and what the machine must have. Sourced by run.sh.

CANNOT_RUN=77          # the exit status that test drivers know as "skipped"

usage() {
  cat <<'U'
usage: tests/linux/run.sh [OPTION]... JOB...

Boots a user-mode Linux kernel as NFS client, beside a throw-away Kerberos realm and a server, in namespaces that
vanish with it, and runs each JOB (a name in tests/linux/jobs, or a script) in the guest as root.

  --server WHAT      orthrus (default), ganesha (NFS-Ganesha as it is installed, to compare with), ganesha-6.5 or
                     ganesha-15 (of newer Debians, see scripts/debian.sh), or a command that serves
                     $LAB_EXPORT as /export and $LAB_PRIVATE as /private on 10.77.0.1:2049 with $LAB_KEYTAB
  --orthrus FILE     the program (default: target/release/orthrus, then target/debug/orthrus)
  --enctypes E       sha1 (default; every kernel), sha2 (kernels from 6.3), or 17 to 20
  --set NAME=VALUE   a variable for the jobs, such as FLAVORS="sys krb5p", CONNECTIONS=8, FILES=1000,
                     CONNECTIONS=alternate (1 and 8, in turn over the flavors), or FILES_IN_REPOSITORY=600 (default 2400)
  --stable-names     commit names to the disk before each reply, as the server does by default; the lab kills processes
                     and cuts no power, so that its own server leaves it out otherwise
  --export-on WHERE  disk (default), tmpfs, xfs, btrfs or ext4 (each in a file), or ceph (a throw-away one-node cluster;
                     "cargo build --release -p orthrus-miniceph" first): what the exported folders lie on
  --kernel WHICH     6.12 or 7 (of newer Debians, see scripts/debian.sh), or the file of another user-mode kernel, with
                     --modules FOLDER for its modules
  --memory SIZE      the guest's memory (default 1024M)
  --time-limit S     seconds until the guest is ended (default 900)
  --keep             keep the run's folder: logs of guest, server, gssd and KDC

Jobs print `ok NAME` or `FAIL NAME reason`. Exit status: 0 all ok, 1 something failed, 77 this machine cannot
run it (with the reason), 98 the server did not start, 99 the guest ended early.
U
}

options() {
  SERVER=orthrus ENCTYPES=sha1 EXPORT_ON=disk KERNEL=linux.uml MODULES= MEMORY=1024M TIME_LIMIT=900
  GANESHA_ROOT= KEEP= STABLE_NAMES=false JOBS= SETTINGS= ORTHRUS=${ORTHRUS:-} REALM_UP=${REALM_UP:-}
  while [ $# -gt 0 ]; do
    case $1 in
      --help|-h) usage; exit 0 ;;
      --keep) KEEP=1; shift; continue ;;
      --stable-names) STABLE_NAMES=true; shift; continue ;;
      --server|--orthrus|--enctypes|--set|--export-on|--kernel|--modules|--memory|--time-limit)
        [ $# -ge 2 ] || { echo "lab: $1 wants a value" >&2; exit 2; } ;;
      -*) echo "lab: no option $1; --help lists them" >&2; exit 2 ;;
      *) JOBS="$JOBS$(job_file "$1")"$'\n'; shift; continue ;;
    esac
    case $1 in
      --server) SERVER=$2 ;;
      --orthrus) ORTHRUS=$2 ;;
      --enctypes) ENCTYPES=$2 ;;
      --set) SETTINGS="$SETTINGS${2%%=*}=$(printf %q "${2#*=}")"$'\n' ;;
      --export-on)
        case $2 in disk|tmpfs|xfs|btrfs|ext4|ceph) EXPORT_ON=$2 ;; *) echo "lab: --export-on takes disk, tmpfs, xfs, btrfs, ext4 or ceph" >&2; exit 2 ;; esac ;;
      --kernel) KERNEL=$2 ;;
      --modules) MODULES=$2 ;;
      --memory) MEMORY=$2 ;;
      --time-limit) TIME_LIMIT=$2 ;;
    esac
    shift 2
  done
  [ -n "$JOBS" ] || { usage >&2; exit 2; }
  [ -n "$ORTHRUS" ] || for built in release debug; do
    [ -x "$LAB/../../target/$built/orthrus" ] && { ORTHRUS=$(readlink -f "$LAB/../../target/$built/orthrus"); break; }
  done
  newer_debian
  [ -n "$MODULES" ] || MODULES=$(ls -d /usr/lib/uml/modules/* 2>/dev/null | tail -1)
  [ -n "$REALM_UP" ] || REALM_UP="$ORTHRUS realm up"
}

# Turns the names of kernels and servers that newer Debians have into their folders.
newer_debian() {
  case $KERNEL in 6.12|7)
    unpack "linux-$KERNEL"
    KERNEL=$UNPACKED/linux MODULES=$(echo "$UNPACKED"/usr/lib/uml/modules/*) ;;
  esac
  case $SERVER in ganesha-*)
    unpack "$SERVER"
    SERVER=ganesha GANESHA_ROOT=$UNPACKED ;;
  esac
}

# unpack NAME: sets UNPACKED, or ends as on a machine that cannot run the lab.
unpack() {
  local said code=0
  said=$("$LAB/../../scripts/debian.sh" "$1" 2>&1) || code=$?
  UNPACKED=${said##*$'\n'}
  [ $code = 0 ] || { echo "lab: cannot run here: ${UNPACKED#debian: }" >&2; exit "$CANNOT_RUN"; }
  [ "$said" = "$UNPACKED" ] || echo "${said%$'\n'*}" >&2
}

job_file() {
  for file in "$1" "$LAB/jobs/$1" "$LAB/jobs/$1.sh"; do
    [ -f "$file" ] && { readlink -f "$file"; return; }
  done
  echo "lab: no job $1; there are: $(ls "$LAB/jobs" | sed 's/\.sh$//' | tr '\n' ' ')" >&2
  exit 2
}

# Prints what is missing in one line, and nothing on a machine that has it all.
requirements() {
  [ "$(id -u)" = 0 ] || { echo "it needs root, for namespaces and a tap device"; return; }
  local packages=
  need() { command -v "$1" >/dev/null || packages="$packages $2"; }
  need "$KERNEL" user-mode-linux
  need ip iproute2
  need rpc.gssd nfs-common
  need mount.nfs4 nfs-common
  need kinit krb5-user
  need krb5kdc krb5-kdc
  need kadmin.local krb5-admin-server
  need git git
  case $JOBS in *nconnect.sh*|*cost.sh*|*bench*.sh*) need fio fio ;; esac
  case $JOBS in *minor2.sh*) need xfs_io xfsprogs; need setfattr attr; need nfs4_setfacl nfs4-acl-tools ;; esac
  case $JOBS in *xfstests.sh*) need xfs_io xfsprogs; need setfattr attr; need setfacl acl; need nfs4_setfacl nfs4-acl-tools; need bc bc; need killall psmisc; need fio fio; need gawk gawk ;; esac
  case $JOBS in *databases.sh*)
    ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || packages="$packages postgresql"
    need sqlite3 sqlite3; need python3 python3 ;; esac
  case $JOBS in *acls.sh*) need nfs4_setfacl nfs4-acl-tools ;; esac
  case $JOBS in *grants*.sh*) need kdb5_ldap_util krb5-kdc-ldap; need slapd slapd; need ldapmodify ldap-utils ;; esac
  case $JOBS in *grants-slurm.sh*) need slurmctld slurmctld; need slurmd slurmd; need sbatch slurm-client; need munged munge ;; esac
  case $EXPORT_ON in xfs) need mkfs.xfs xfsprogs ;; btrfs) need mkfs.btrfs btrfs-progs ;; ext4) need mkfs.ext4 e2fsprogs ;; esac
  if [ "$EXPORT_ON" = ceph ]; then
    case $JOBS in *local-locks.sh*|*many.sh*|*upgrade.sh*) need ceph-fuse ceph-fuse ;; esac
    need ceph-mon ceph-mon; need ceph-osd ceph-osd; need ceph-mds ceph-mds; need ceph ceph-common
    [ -x "$(dirname "$ORTHRUS")/miniceph" ] || { echo "miniceph is not beside the program: cargo build --release -p orthrus-miniceph"; return; }
  fi
  need setpriv util-linux
  need insmod kmod
  [ "$SERVER" != ganesha ] || [ -n "$GANESHA_ROOT" ] || need ganesha.nfsd "nfs-ganesha nfs-ganesha-vfs"
  # The lab lays files of its own over these, in its namespace only; without them there is nothing to lay them over.
  [ -e /etc/idmapd.conf ] || packages="$packages nfs-common"
  [ -e /etc/krb5.conf ] || packages="$packages krb5-config"
  if [ -n "$packages" ]; then
    echo "missing packages: apt install$(printf '%s\n' $packages | sort -u | tr '\n' ' ' | sed 's/^/ /; s/ $//')"
  elif [ ! -c /dev/net/tun ]; then
    echo "/dev/net/tun is missing (modprobe tun; a container must be given it)"
  elif ! unshare --net --mount --pid --fork true 2>/dev/null; then
    echo "this machine does not allow new namespaces"
  elif [ ! -d "$MODULES/kernel" ]; then
    echo "no modules for the user-mode kernel in ${MODULES:-/usr/lib/uml/modules}"
  elif [ -z "$ORTHRUS" ] && { [ "$SERVER" = orthrus ] || [ "$REALM_UP" = " realm up" ]; }; then
    echo "the program is not built: cargo build --release -p orthrus"
  fi
}
