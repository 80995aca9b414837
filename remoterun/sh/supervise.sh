# shellcheck shell=sh disable=SC3043
# The agent of one job on its host. It stands in the job's own folder after lib.sh and signals.sh, and runs
# in a session of its own: no tmux server, terminal or SSH connection is above it. It records the start,
# lets the job write straight into `log` (no process of ours stands between), samples the GPUs, and records
# the end. If it is killed the job goes on; `judge` on the other side sees that from pids and start times.

# Take the leases, then run. `flock -F` keeps the lock's descriptor open across exec, in the supervisor and
# in the job's own first process, so a lease lives exactly as long as one of them: none can go stale.
rr_supervise() {
  local dir uuid sampler code
  cd "$1" || exit 1
  if [ "${2-}" = stop ]; then
    rr_stop_job "$3" "$4"
    return
  fi
  if [ "${2-}" = leased ] || [ ! -s gpus ]; then
    rr_run "$PWD"
    return
  fi
  if ! command -v flock >/dev/null 2>&1 || ! dir=$(rr_lease_place); then
    rr_event . starting 'no place for leases on this host: these GPUs are not held for the job'
    rr_run "$PWD"
    return
  fi
  trap : HUP INT QUIT TERM
  # Started here, outside of the locks: it must not hold them.
  rr_sample_gpus >/dev/null 2>&1 &
  sampler=$!
  set --
  for uuid in $(tr , ' ' <gpus); do
    rr_lease_mark "$dir" "$uuid" && set -- "$@" flock -n -F -E 76 "$dir/$uuid"
  done
  "$@" sh ./supervise.sh leased
  code=$?
  kill "$sampler" 2>/dev/null
  # 76 without a start: somebody else was quicker. Nothing ran.
  if [ "$code" = 76 ] && [ ! -e start ]; then
    printf 'code=\nstate=failed\nrefused=gpus\nended=%s\n' "$(rr_now)" | rr_put exit
  fi
}

# Start, wait, end.
rr_run() {
  local job="$1" id code
  id=${job##*/}
  # A handler, not "ignore": ignored signals would stay ignored in the job, and Ctrl-C could not reach it.
  trap : HUP INT QUIT TERM
  {
    printf 'supervisor=%s\nsupervisor_ticks=%s\n' "$$" "$(rr_ticks $$)"
    printf 'group=%s\nboot=%s\nhost=%s\nstarted=%s\n' "$(rr_group $$)" "$(rr_boot)" "$(rr_host)" "$(rr_now)"
  } | rr_put start
  rr_event "$job" running ''
  # The job is a foreground command, so that it inherits default signals; it writes its own pid first. It opens
  # the log itself: with a redirection here, this shell's own remarks on its end ("Killed") would land in it too.
  # shellcheck disable=SC2016
  REMOTERUN_JOB="$id" sh -c 'exec >>log 2>&1 </dev/null
    IFS= read -r stat </proc/$$/stat; set -- ${stat##*) }; shift 19
    printf "main=%s\nmain_ticks=%s\n" "$$" "$1" >main.tmp && mv -f main.tmp main
    exec sh ./run.sh'
  code=$?
  rr_end_leftovers "$id"
  rr_record_exit "$job" "$code"
}

# Utilisation over the whole run, for this job's GPUs only: one line for each GPU every 15 s.
rr_sample_gpus() {
  local uuids pause=0
  trap - HUP INT QUIT
  trap 'kill "$pause" 2>/dev/null; exit 0' TERM
  uuids=$(rr_line gpus)
  [ -n "$uuids" ] && command -v nvidia-smi || return 0
  while [ ! -e exit ]; do
    timeout -k 2 20 nvidia-smi -i "$uuids" --format=csv,noheader,nounits \
      --query-gpu=timestamp,index,uuid,utilization.gpu,memory.used,temperature.gpu,power.draw >>gpu.csv </dev/null
    sleep 15 &
    pause=$!
    wait "$pause"
    # Whoever started this may have been killed: it ends with the job.
    rr_alive "$(rr_get start supervisor)" "$(rr_get start supervisor_ticks)" ||
      rr_alive "$(rr_get main main)" "$(rr_get main main_ticks)" || return 0
  done
}

# What the job left running after its main process: told, then ended.
rr_end_leftovers() {
  local left
  left=$(rr_pids "$1")
  [ -n "$left" ] || return 0
  rr_event . running "ending $(rr_count "$left") that outlived the main one"
  rr_end "$1" TERM 5 >/dev/null
}

# The end, once. `stopped` is the state when somebody asked for it, whatever the code; CODE is empty when
# nobody was there to see it.
rr_record_exit() {
  local state=failed
  [ ! -e "$1/exit" ] || return 0
  [ "$2" != 0 ] || state=succeeded
  [ ! -e "$1/stop" ] || state=stopped
  printf 'code=%s\nstate=%s\nended=%s\n' "$2" "$state" "$(rr_now)" | rr_put "$1/exit"
  rr_event "$1" "$state" "exit status $2"
}

# SIGNAL GRACE: end the job; detached from whoever asked, who reads stop.log. Of several at once one acts.
rr_stop_job() {
  local id="${PWD##*/}" began waited=0 signal="$1" grace="$2" code=0
  exec >>stop.log 2>&1
  began=$(date +%s)
  printf 'stopper=%s\nstopper_ticks=%s\nsignal=%s\ngrace=%s\nasked=%s\n' \
    "$$" "$(rr_ticks $$)" "$signal" "$grace" "$(rr_now)" | rr_put stop
  rr_end "$id" "$signal" "$grace" || code=1
  # The supervisor sees the end of its child and writes it down; if it is dead we do.
  while [ ! -e exit ] && [ "$waited" -lt 100 ] && rr_alive "$(rr_get start supervisor)" "$(rr_get start supervisor_ticks)"; do
    rr_nap 0.1
    waited=$((waited + 1))
  done
  [ "$code" = 0 ] && rr_record_exit . ''
  {
    cat stop
    printf 'seconds=%s\nkilled=%s\nleft=%s\n' "$(($(date +%s) - began))" "$(sed -n 's/^killed=//p' stop.log | tail -n 1)" \
      "$(rr_pids "$id" | tr '\n' ' ')"
  } | rr_put stop
}
