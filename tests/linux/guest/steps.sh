# steps.sh MACHINE: runs the steps of site.sh that are for this machine, each when all before it are done. A step is a file
# NUMBER.MACHINE.USER; its exit status goes to NUMBER.done. The first that fails ends the run.
machine=$1
export HOME=/root

as_user() {
  case $1 in
    root) cd /root && bash -eu "$2" ;;
    *) runuser --login "$1" --command "bash -eu $2" ;;
  esac
}

for step in /lab/steps/*.*.*; do
  IFS=. read -r number on user <<<"${step##*/}"
  if [ "$on" != "$machine" ]; then
    until [ -e "/lab/steps/$number.done" ]; do sleep 0.1; done
  else
    start=$(date +%s)
    # The answer to each question is the same password.
    as_user "$user" "$step" < <(yes 'Word for word 1') >"/lab/steps/$number.out" 2>&1
    code=$?
    echo "$(($(date +%s) - start)) s" >"/lab/steps/$number.time"
    [ $code = 0 ] || { journalctl --no-pager -n 60; systemctl --failed --no-pager; } >"/lab/steps/$number.journal" 2>&1
    echo $code >"/lab/steps/$number.new" && mv "/lab/steps/$number.new" "/lab/steps/$number.done"
  fi
  [ "$(cat "/lab/steps/$number.done")" = 0 ] || exit 1
done
