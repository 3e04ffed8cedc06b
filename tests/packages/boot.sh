#!/bin/sh
# boot.sh: what roots.sh runs as root in a booted root with systemd, with both packages in /. Prints `ok` or `FAIL` for
# each step, and ends the machine.
set -u
# NAME COMMAND: the command is a line for the shell. `denied COMMAND` succeeds if the command fails, and `logged LINE` if
# the log of the service has such a line.
step() {
  # The steps start the socket more often than systemd allows in ten seconds.
  systemctl reset-failed orthrus.service orthrus.socket 2>/dev/null
  if sh -ec "denied() { ! \"\$@\"; }; logged() { journalctl --sync; journalctl --unit orthrus | grep \"\$1\"; }; $2" >/tmp/step 2>&1; then echo "ok $1"; return; fi
  journalctl --no-pager --output=cat --unit orthrus --lines 5 >>/tmp/step 2>&1
  echo "FAIL $1: $(tail -n 12 /tmp/step | tr '\n' ' ')"
}
unit='systemctl show --value --property'
main="\$($unit MainPID orthrus)"

step "a configuration" 'install -d -m 777 /srv/data /srv/more; printf "[[export]]\npath = \"/srv/data\"\nsec = [\"sys\"]\n" >/etc/orthrus/orthrus.toml'
step "files for 100,000 connections" "[ \$($unit LimitNOFILE orthrus) = 1048576 ]"
if ! (ulimit -n 1048576) 2>/dev/null; then
  echo "skipped: the service has $(ulimit -Hn) files: this machine allows no more"
  mkdir -p /run/systemd/system/orthrus.service.d
  printf '[Service]\nLimitNOFILE=%s\n' "$(ulimit -Hn)" >/run/systemd/system/orthrus.service.d/files.conf
  systemctl daemon-reload
fi
step "enable and start" 'systemctl enable --now orthrus && systemctl is-active orthrus && orthrus exports | grep /data'
step "the watchdog" "[ \$($unit WatchdogUSec orthrus) = 1min ]"
step "journald discards no line" "[ \$($unit LogRateLimitIntervalUSec orthrus) = 0 ]"
step "the status" "$unit StatusText orthrus | grep '1 exports at'"
step "the state directory is private" "[ \$(stat -c %a:%U /var/lib/orthrus) = 700:root ]"
step "it acts as its callers, in its sandbox" 'logged "with the caller.s own identity" && logged "sandbox: .* system calls"'
step "its capabilities" "grep 'CapPrm:.*00000000100000ce' /proc/$main/status"
step "reload" 'printf "[[export]]\npath = \"/srv/more\"\nsec = [\"sys\"]\n" >>/etc/orthrus/orthrus.toml; systemctl reload orthrus; orthrus exports | grep /more'
step "a broken file changes nothing" 'cp /etc/orthrus/orthrus.toml /tmp/right; echo nonsense >>/etc/orthrus/orthrus.toml; denied systemctl reload orthrus; cp /tmp/right /etc/orthrus/orthrus.toml; orthrus exports | grep /more'
# A process with the mounts of the service: what a takeover could reach.
inside="nsenter --mount --target $main"
step "it can write to exports" "$inside touch /srv/data/file /srv/more/file && rm /srv/data/file /srv/more/file"
for folder in /etc /usr /boot; do
  step "it cannot write to $folder" "$inside true; denied $inside touch $folder/file; test ! -e $folder/file"
done
step "it does not see /home" "touch /home/secret; $inside true; denied $inside cat /home/secret; rm /home/secret"
step "a folder that the unit hides is named with the remedy" 'for folder in /home /root /tmp; do mkdir -p $folder/hidden; sed "s|/srv/more|$folder/hidden|" /tmp/right >/etc/orthrus/orthrus.toml; denied systemctl reload orthrus; logged "systemd hides the contents of $folder from"; rmdir $folder/hidden; done; cp /tmp/right /etc/orthrus/orthrus.toml; systemctl reload orthrus'
step "an export below /home is named with the remedy" 'sed -i "s|/srv/more|/home|" /etc/orthrus/orthrus.toml; systemctl reload orthrus; logged "export /home: .*systemctl edit orthrus"'
step "an export below /home with ProtectHome=no" "mkdir -p /run/systemd/system/orthrus.service.d; printf '[Service]\nProtectHome=no\n' >/run/systemd/system/orthrus.service.d/home.conf; systemctl daemon-reload; systemctl restart orthrus; $inside touch /home/file; rm /home/file /run/systemd/system/orthrus.service.d/home.conf; sed -i 's|/home|/srv/more|' /etc/orthrus/orthrus.toml; systemctl daemon-reload; systemctl restart orthrus"
step "it does not see /root" "touch /root/secret; $inside true; denied $inside cat /root/secret; rm /root/secret"
step "it executes no file of an export" "cp /bin/true /srv/data/program; /srv/data/program; $inside /bin/true; denied $inside /srv/data/program; rm /srv/data/program"
step "the port of the socket unit" 'systemctl stop orthrus && systemctl start orthrus.socket && systemctl start orthrus && logged "the service manager listens"'
# Connections wait while the server restarts, and none is refused.
step "connections while it restarts" 'systemctl restart orthrus & for i in $(seq 50); do bash -c "exec 3<>/dev/tcp/127.0.0.1/2049" || exit 1; sleep 0.02; done; wait; systemctl is-active orthrus'
step "a connection starts it" 'systemctl stop orthrus; bash -c "exec 3<>/dev/tcp/127.0.0.1/2049"; for i in $(seq 50); do systemctl is-active orthrus && break; sleep 0.1; done; orthrus exports'
step "without the socket unit" 'systemctl stop orthrus.socket orthrus; systemctl start orthrus; orthrus exports'
step "an upgrade with a broken file stops no server" "before=$main; echo nonsense >>/etc/orthrus/orthrus.toml; apt-get install -y -q=2 /orthrus_0.1.1_*.deb 2>&1 | grep 'the old program goes on'; [ \$before = $main ]; orthrus exports; cp /tmp/right /etc/orthrus/orthrus.toml"
step "upgrade of a running server" "before=$main; dpkg --install /orthrus_0.1.1_*.deb; systemctl is-active orthrus; [ \$before != $main ]; [ \$($unit NRestarts orthrus) = 0 ]; logged 'clients paused for'; orthrus exports"
step "an upgrade that cannot hand over restarts it" "printf '[[export]]\nmemory = 1048576\npseudo = \"/memory\"\nsec = [\"sys\"]\n' >>/etc/orthrus/orthrus.toml; systemctl restart orthrus; before=$main; dpkg --install /orthrus_0.1.1_*.deb 2>&1 | grep 'could not be handed over'; [ \$before != $main ]; orthrus exports | grep /memory"
step "an upgrade names the members of a cluster that run" 'printf "[Service]\nExecStart=/bin/sleep infinity\n" >/run/systemd/system/orthrus@.service; systemctl daemon-reload; systemctl start orthrus@gw1 orthrus@gw2; dpkg --install /orthrus_0.1.1_*.deb 2>&1 | grep "restart one after the other: orthrus@gw1.service orthrus@gw2.service"; systemctl stop orthrus@gw1 orthrus@gw2; rm /run/systemd/system/orthrus@.service; systemctl daemon-reload'
step "it tries again until its start succeeds" 'cp /etc/orthrus/orthrus.toml /tmp/right; echo nonsense >>/etc/orthrus/orthrus.toml; denied systemctl restart orthrus; for i in $(seq 100); do [ "$(systemctl show --value --property NRestarts orthrus)" -ge 7 ] && break; sleep 0.2; done; cp /tmp/right /etc/orthrus/orthrus.toml; for i in $(seq 50); do systemctl is-active orthrus && break; sleep 0.1; done; orthrus exports'
for status in 70 76; do
  step "it does not start again after status $status" "mkdir -p /run/systemd/system/orthrus.service.d; printf '[Service]\nType=exec\nExecStart=\nExecStart=/bin/sh -c \"exit $status\"\n' >/run/systemd/system/orthrus.service.d/ends.conf; systemctl daemon-reload; systemctl restart orthrus || true; sleep 2; [ \$($unit NRestarts orthrus) = 0 ]; rm /run/systemd/system/orthrus.service.d/ends.conf; systemctl daemon-reload; systemctl restart orthrus"
done
step "purge of a running server and a member of a cluster" 'printf "[Service]\nExecStart=/bin/sleep infinity\n" >/run/systemd/system/orthrus@.service; systemctl daemon-reload; systemctl start orthrus@gw1; apt-get purge -y -q=2 orthrus; denied systemctl is-active orthrus orthrus@gw1; denied systemctl cat orthrus; test ! -e /var/lib/orthrus; test ! -e /var/log/orthrus'
echo end
systemctl --no-block exit 0
