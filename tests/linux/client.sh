# client.sh: the guest, a user-mode Linux kernel. Sourced by inside.sh.

# Puts what the guest needs into the one folder that it shares with us, and boots it.
guest() {
  cp "$LAB"/guest/{setup,locks,second}.sh "$LAB"/guest/*.{pl,py} "$GUEST"/{kerberos,lib}.sh "$RUN/realm"/{client,users}.keytab "$RUN/share/"
  mkdir "$RUN/share/jobs"
  # The guest does not see our /tmp, and the program may lie there.
  case $JOBS in *bench*.sh*|*grants*.sh*) ln "$ORTHRUS" "$RUN/share/orthrus" 2>/dev/null || cp "$ORTHRUS" "$RUN/share/orthrus" ;; esac
  case $JOBS in *grants*.sh*) cp -r "$LAB/../../scripts/batch/slurm" "$RUN/share/slurm" ;; esac
  case $JOBS in *xfstests.sh*) cp "$LAB/../../specs/interop/xfstests.txt" "$RUN/share/" ;; esac
  local file order=0
  while read -r file; do
    [ -z "$file" ] || { order=$((order + 1)); cp "$file" "$RUN/share/jobs/$(printf %02d $order)-$(basename "$file")"; }
  done <<<"$JOBS"
  case $SERVER in orthrus|ganesha) local kind=$SERVER ;; *) local kind=other ;; esac
  printf 'SERVER_KIND=%s\nexport EXPORT_ON=%s\nENCTYPES=%s\n%s' "$kind" "$EXPORT_ON" "$ENCTYPES" "$SETTINGS" >"$RUN/share/settings"
  eval "$SETTINGS"
  . "$LAB/repository.sh"
  repository "$RUN/share/repository.git"

  : >"$RUN/share/out"
  tail -n +1 -f "$RUN/share/out" & local tail=$!
  # No consoles but the first, which only writes (a closed input makes the kernel spin); the control socket and the
  # pid file go into the run's folder; the guest's first process is our own script.
  timeout -k 5 "$TIME_LIMIT" "$KERNEL" mem="$MEMORY" rootfstype=hostfs rootflags=/ rw init="$GUEST/init.sh" \
    SHARE="$RUN/share" MODULES="$MODULES" vec0:transport=tap,ifname=tap0,depth=128,gro=1 \
    umid=client uml_dir="$RUN/uml" con=null con0=null,fd:1 </dev/null >"$RUN/console.log" 2>&1 || true
  sleep 0.3
  kill "$tail" 2>/dev/null || true
  [ -f "$RUN/share/code" ] || { say "the guest ended before its jobs did"; return 99; }
  return "$(cat "$RUN/share/code")"
}

guest_log() { tail -n 40 "$RUN/console.log" >&2; tail -n 20 "$RUN/share/gssd.log" 2>/dev/null >&2 || true; }
