# NFS-Ganesha as Debian packages it, to compare with: the one that is installed, or with
# GANESHA_ROOT one of a newer Debian, with the loader and the libraries of that. Sets COMMAND.
program=ganesha.nfsd elsewhere=
if [ -n "$GANESHA_ROOT" ]; then
  lib=$GANESHA_ROOT/usr/lib/x86_64-linux-gnu
  program="$lib/ld-linux-x86-64.so.2 --library-path $lib:$GANESHA_ROOT/usr/lib/ganesha $GANESHA_ROOT/usr/bin/ganesha.nfsd"
  elsewhere="Plugins_Dir = \"$lib/ganesha\"; allow_set_io_flusher_fail = true;"
fi
echo "# server: $($program -v | head -n 1)"
mkdir -p /run/ganesha /var/lib/nfs/ganesha
cat >"$RUN/ganesha.conf" <<C
NFS_CORE_PARAM { Protocols = 4; NFS_Port = 2049; Bind_addr = $SERVER_ADDRESS; Enable_NLM = false; Enable_RQUOTA = false; $elsewhere }
NFSv4 { Minor_Versions = 1, 2; Lease_Lifetime = 10; Grace_Period = 10; RecoveryRoot = "/var/lib/nfs/ganesha"; DomainName = "orthrus.test"; }
NFS_KRB5 { PrincipalName = nfs; KeytabPath = "$LAB_KEYTAB"; CCacheDir = "/run/ganesha"; Active_krb5 = true; }
DIRECTORY_SERVICES { DomainName = "orthrus.test"; }
EXPORT_DEFAULTS { Access_Type = RW; Squash = Root_Squash; Protocols = 4; Transports = TCP; }
EXPORT { Export_Id = 1; Path = "$LAB_EXPORT"; Pseudo = "/export"; SecType = sys, krb5, krb5i, krb5p; FSAL { Name = VFS; } }
EXPORT { Export_Id = 2; Path = "$LAB_PRIVATE"; Pseudo = "/private"; SecType = krb5p; FSAL { Name = VFS; } }
LOG { Default_Log_Level = EVENT; }
C
COMMAND="$program -F -L '$RUN/ganesha.log' -f '$RUN/ganesha.conf' -p /run/ganesha/pid"
