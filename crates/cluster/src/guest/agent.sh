# agent.sh: does what the lab asks of a node. It reads a serial line, so that it costs nothing while nobody asks:
#
#   run ID     runs /lab/run/ID/script as root; its output and at last its exit status are left beside it
#   stop ID    ends it
exec >>"/lab/nodes/$NODE/log" 2>&1

job() {
  local folder=/lab/run/$1 code=0
  cd /tmp || return
  setsid /bin/bash "$folder/script" </dev/null >"$folder/$NODE.out" 2>&1 &
  echo $! >"/run/job-$1"
  wait $! || code=$?
  rm -f "/run/job-$1"
  echo $code >"$folder/$NODE.new" && mv "$folder/$NODE.new" "$folder/$NODE.code"
}

stty -F /dev/ttyS0 raw -echo
exec 3</dev/ttyS0
# Under its name it is whole.
{ grep -a '^FAIL' "/lab/nodes/$NODE/log"; echo ready; } >"/lab/nodes/$NODE/new"
mv "/lab/nodes/$NODE/new" "/lab/nodes/$NODE/ready"
while read -r verb id <&3; do
  case $verb in
    run) job "$id" & ;;
    stop) [ ! -f "/run/job-$id" ] || kill -TERM -- "-$(cat "/run/job-$id")" ;;
    *) echo "unknown: $verb" ;;
  esac
done
