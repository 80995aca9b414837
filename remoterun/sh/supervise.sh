# shellcheck shell=sh disable=SC3043
# The agent of one job on its host. It stands in the job's own folder after the other parts that it needs, and runs
# in a session of its own: no tmux server, terminal or SSH connection is above it. It records the start, lets the
# job write straight into `log` (no process of ours stands between), begins it again where that was asked for, and
# records the end. If it is killed the job goes on; `judge` on the other side sees that from pids and start times.

# FOLDER [PART …]: what this process is to be.
rr_supervise() {
  cd "$1" || exit 1
  case ${2-} in
    stop) rr_stop_job "$3" "$4" "${5-}" ;;
    watch) rr_watch ;;
    tell) rr_tell "$3" ;;
    terminal) rr_in_terminal ;;
    leased)
      # 76 too: somebody who does not use leases was quicker, or a stop was.
      if { [ -e wait ] && [ -e stop ]; } || ! rr_unused; then exit 76; fi
      [ -z "${RR_TICKET-}" ] || rm -f "$RR_TICKET"
      unset RR_TICKET
      rr_lease_notes "${PWD##*/}" "$(rr_line gpus)"
      rr_run "$PWD"
      ;;
    *) rr_begin_job ;;
  esac
}

# Start the watcher, take the leases, run, tell. `flock -F` keeps the lock's descriptor open across exec, in the
# supervisor and in the job's own first process, so a lease lives exactly as long as one of them: none can go stale.
rr_begin_job() {
  local dir watcher code
  trap : HUP INT QUIT TERM
  # Started here, outside of the locks: it must not hold them.
  sh ./supervise.sh watch >/dev/null 2>&1 </dev/null &
  watcher=$!
  if [ ! -s gpus ] && [ ! -e wait ]; then
    rr_run "$PWD"
  elif ! command -v flock >/dev/null 2>&1 || ! dir=$(rr_lease_place); then
    rr_event . starting 'no place for leases on this host: these GPUs are not held for the job'
    rr_run "$PWD"
  elif [ -e wait ]; then
    rr_queue "$dir"
  else
    rr_with_leases "$dir"
    code=$?
    # 76 without a start: somebody else was quicker. Nothing ran.
    if [ "$code" = 76 ] && [ ! -e start ]; then
      printf 'code=\nstate=failed\nrefused=gpus\nended=%s\n' "$(rr_now)" | rr_put exit
    fi
  fi
  kill "$watcher" 2>/dev/null
  # Whoever follows the job must not wait for a web server.
  [ ! -s notify ] || rr_detached sh ./supervise.sh tell end >/dev/null 2>&1 </dev/null
}

# PLACE: this job's GPUs locked, then the rest of it in a process that holds the locks. 76: they could not be had.
rr_with_leases() {
  local dir="$1" uuid
  set --
  for uuid in $(tr , ' ' <gpus); do
    rr_lease_mark "$dir" "$uuid" && set -- "$@" flock -n -F -E 76 "$dir/$uuid"
  done
  "$@" sh ./supervise.sh leased
}

# Start, wait, perhaps again, end.
rr_run() {
  local job="$1" id code attempt=1
  id=${job##*/}
  # A handler, not "ignore": ignored signals would stay ignored in the job, and Ctrl-C could not reach it.
  trap : HUP INT QUIT TERM
  {
    printf 'supervisor=%s\nsupervisor_ticks=%s\n' "$$" "$(rr_ticks $$)"
    printf 'group=%s\nboot=%s\nhost=%s\n' "$(rr_group $$)" "$(rr_boot)" "$(rr_host)"
    printf 'uptime=%s\noom_kills=%s\nstarted=%s\n' "$(rr_uptime)" "$(rr_oom_kills)" "$(rr_now)"
  } | rr_put start
  rr_event "$job" running ''
  while :; do
    rr_attempt "$id" "$attempt"
    code=$?
    rr_end_leftovers "$id"
    rr_again "$attempt" "$code" || break
    attempt=$((attempt + 1))
  done
  rr_record_exit "$job" "$code"
}

# ID N: run the job's command once; its exit status.
rr_attempt() {
  local checkpoint
  checkpoint=$(rr_newest_checkpoint)
  [ -n "$checkpoint" ] || checkpoint=$(rr_line resume)
  [ -z "$checkpoint" ] || export REMOTERUN_CHECKPOINT="$checkpoint"
  if [ -e tty ] && [ ! -p tty.in ]; then mkfifo -m 600 tty.in; fi
  RR_FROM=$(stat -c %s log)
  RR_BEGAN=$(rr_uptime)
  # The job is a foreground command, so that it inherits default signals; it writes its own pid first. It opens
  # the log itself: with a redirection here, this shell's own remarks on its end ("Killed") would land in it too.
  # shellcheck disable=SC2016
  RR_FROM="$RR_FROM" REMOTERUN_JOB="$1" REMOTERUN_ATTEMPT="$2" sh -c 'exec >>log 2>&1 </dev/null
    IFS= read -r stat </proc/$$/stat; set -- ${stat##*) }; shift 19
    printf "main=%s\nmain_ticks=%s\nattempt=%s\nlog_from=%s\n" "$$" "$1" "$REMOTERUN_ATTEMPT" "$RR_FROM" >main.tmp &&
      mv -f main.tmp main
    unset RR_FROM
    if [ -e tty ]; then
      # Never at its end, whoever opens and closes the other side. `script` gives the job a terminal that no tmux
      # server and no connection can take away.
      exec <>tty.in
      exec script -qefc "sh ./supervise.sh terminal" /dev/null
    fi
    exec sh ./run.sh'
}

# What `script` starts in the job's own terminal: its name for the view, a size to begin with, then the job.
rr_in_terminal() {
  tty | rr_put tty.name
  stty rows 50 cols 200 2>/dev/null
  exec sh ./run.sh
}

# ATTEMPT CODE: whether another attempt follows; comes back when its time has come. The leases stay held.
rr_again() {
  local most codes pause told until
  [ -s restart ] && [ "$2" != 0 ] && [ ! -e stop ] || return 1
  most=$(rr_get restart most)
  [ -z "$most" ] || [ "$1" -le "$most" ] || return 1
  told=$(rr_rank_code "$2")
  codes=$(rr_get restart codes)
  case " $codes " in
    # What could not be started will not start the next time either.
    '  ') case $2 in 125 | 126 | 127) return 1 ;; esac ;;
    *" $told "* | *" $2 "*) ;;
    *) return 1 ;;
  esac
  pause=$(rr_pause "$1")
  printf '%s %s %s %s %s %s\n' "$1" "$2" "$told" "$RR_FROM" "$(stat -c %s log)" "$(rr_now)" >>attempts
  rr_event . starting "attempt $1 ended with exit status $told; attempt $(($1 + 1)) in $pause s"
  rr_mark_log "attempt $1 ended with exit status $told; attempt $(($1 + 1)) begins in $pause s"
  printf 'attempt=%s\ncode=%s\npause=%s\n' "$(($1 + 1))" "$told" "$pause" | rr_put pause
  [ ! -s notify ] || rr_detached sh ./supervise.sh tell restart >/dev/null 2>&1 </dev/null
  until=$(($(rr_uptime) + pause))
  while [ ! -e stop ] && [ "$(rr_uptime)" -lt "$until" ]; do sleep 1; done
  rm -f pause
  [ ! -e stop ] || return 1
  rr_event . running "attempt $(($1 + 1))"
}

# ATTEMPT: seconds before the next one: twice as long each time, five minutes at most; from the beginning again
# after an attempt that ran for ten minutes.
rr_pause() {
  local pause short="$1"
  pause=$(rr_get restart delay)
  if [ $(($(rr_uptime) - RR_BEGAN)) -ge 600 ]; then RR_QUICK=$1; fi
  short=$((short - ${RR_QUICK:-0}))
  while [ "$short" -gt 1 ] && [ "$pause" -lt 300 ]; do
    pause=$((pause * 2))
    short=$((short - 1))
  done
  if [ "$pause" -gt 300 ] && [ "$(rr_get restart delay)" -le 300 ]; then pause=300; fi
  printf %s "$pause"
}

# CODE: the exit status of the rank that failed first. torchrun ends with 1 whatever it was, and names it at the
# end of its report.
rr_rank_code() {
  local code=
  if [ -e torchrun ] && [ "$1" = 1 ]; then
    code=$(tail -c 8192 log | sed -n 's/^ *exitcode *: *\(-\{0,1\}[0-9][0-9]*\) .*/\1/p' | tail -n 1)
    case $code in -*) code=$((128 - code)) ;; esac
  fi
  printf %s "${code:-$1}"
}

# A line of ours in the log, at the beginning of a line.
rr_mark_log() {
  [ -z "$(tail -c 1 log | tr -d '\n')" ] || echo >>log
  printf -- '-- remoterun: %s\n' "$1" >>log
}

# What the job left running after its main process: told, then ended.
rr_end_leftovers() {
  local left
  left=$(rr_pids "$1")
  [ -n "$left" ] || return 0
  rr_event . running "ending $(rr_count "$left") that outlived the main one"
  rr_end "$1" TERM 5 >/dev/null
}

# JOB CODE: the end, once. `stopped` is the state when somebody asked for it, whatever the code; CODE is empty
# when nobody was there to see it.
rr_record_exit() {
  local state=failed room record
  [ ! -e "$1/exit" ] || return 0
  [ "$2" != 0 ] || state=succeeded
  [ ! -e "$1/stop" ] || state=stopped
  record=$(
    printf 'code=%s\nstate=%s\nended=%s\n' "$2" "$state" "$(rr_now)"
    if [ "$state" = failed ]; then
      printf 'rank_code=%s\noom_kills=%s\n' "$(rr_rank_code "$2")" "$(rr_oom_kills)"
      room=$(df -Pk "$1" | sed -n '2s/^.*  *[0-9][0-9]*  *[0-9][0-9]*  *\([0-9][0-9]*\)  *[0-9]*% .*$/\1/p')
      printf 'free_kib=%s\n' "$room"
    fi
  )
  if ! { printf '%s\n' "$record" | rr_put "$1/exit"; } 2>/dev/null; then
    # A full disk must not swallow the end: these blocks were set aside when the job was made.
    rm -f "$1"/exit.tmp.*
    printf '%s\n' "$record" | dd of="$1/reserve" conv=notrunc 2>/dev/null && mv -f "$1/reserve" "$1/exit"
  fi
  rr_event "$1" "$state" "exit status $2"
}

# SIGNAL GRACE WHY: end the job; detached from whoever asked, who reads stop.log. Of several at once one acts.
# WHY is empty when a person asked.
rr_stop_job() {
  local id="${PWD##*/}" began waited=0 signal="$1" grace="$2" code=0
  exec >>stop.log 2>&1
  began=$(rr_uptime)
  printf 'stopper=%s\nstopper_ticks=%s\nsignal=%s\ngrace=%s\nwhy=%s\nasked=%s\n' \
    "$$" "$(rr_ticks $$)" "$signal" "$grace" "$3" "$(rr_now)" | rr_put stop
  # A job that waits for GPUs sees the record and goes; one that has just got them is ended like any other.
  while [ ! -e start ] && [ -e wait ] && [ "$waited" -lt 300 ] && rr_alive "$(rr_get queued pid)" "$(rr_get queued ticks)"; do
    rr_nap 0.1
    waited=$((waited + 1))
  done
  waited=0
  rr_end "$id" "$signal" "$grace" || code=1
  # The supervisor sees the end of its child and writes it down; if it is dead we do.
  while [ ! -e exit ] && [ "$waited" -lt 100 ] && rr_alive "$(rr_get start supervisor)" "$(rr_get start supervisor_ticks)"; do
    rr_nap 0.1
    waited=$((waited + 1))
    # An attempt that began in the moment in which we looked.
    if [ -n "$(rr_main)" ]; then rr_end "$id" "$signal" "$grace" || code=1; fi
  done
  [ "$code" = 0 ] && rr_record_exit . ''
  {
    cat stop
    printf 'seconds=%s\nkilled=%s\nleft=%s\n' "$(($(rr_uptime) - began))" "$(sed -n 's/^killed=//p' stop.log | rr_sum)" \
      "$(rr_pids "$id" | tr '\n' ' ')"
  } | rr_put stop
}

rr_sum() {
  local n total=0
  while IFS= read -r n; do total=$((total + n)); done
  printf %s "$total"
}
