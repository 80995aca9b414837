# shellcheck shell=sh disable=SC3043
# Ending a job's processes: by recorded ids only, each looked at again just before the signal.

# rr_end ID SIGNAL GRACE: signal those who can save, wait up to GRACE seconds for them, then end what is left.
# Stands in the job's folder. Prints what it does; status 0 when no process of the job is left.
rr_end() {
  local id="$1" signal="$2" grace="$3" main agent='' targets left began now killed=0
  began=$(rr_uptime)
  main=$(rr_main)
  if [ -n "$main" ] && [ -e torchrun ]; then
    # torchrun would kill its workers 30 s after a SIGTERM, and at once when the first of them ends: it is
    # halted until they have ended by themselves. They hold their own store (see plan/torchrun.py).
    agent=$main
    kill -s STOP "$agent" 2>/dev/null
    targets=$(rr_spread "$(rr_children "$agent")")
  else
    targets=$(rr_spread "$main")
  fi
  if [ -n "$targets" ]; then
    echo "SIG$signal to $(rr_count "$targets"), up to $grace s to save and end"
    rr_signal "$signal" "$targets"
    while targets=$(rr_still "$targets") && [ -n "$targets" ]; do
      now=$(rr_uptime)
      [ $((now - began)) -lt "$grace" ] || break
      rr_nap 0.1
    done
  fi
  if [ -n "$agent" ]; then
    kill -s TERM "$agent" 2>/dev/null
    kill -s CONT "$agent" 2>/dev/null
  fi
  if [ -z "$targets" ]; then
    # Helpers of theirs (data loaders, monitors, daemons) get the same word, and five seconds.
    left=$(rr_pids "$id")
    rr_signal TERM "$left"
    rr_wait_for 50 "$id"
  fi
  left=$(rr_pids "$id")
  began=0
  while [ -n "$left" ] && [ "$began" -lt 50 ]; do
    killed=$((killed + $(rr_count_of "$left")))
    [ "$began" -gt 0 ] || echo "SIGKILL to $(rr_count "$left")"
    rr_signal KILL "$left"
    rr_nap 0.1
    began=$((began + 1))
    left=$(rr_pids "$id")
  done
  echo "killed=$killed"
  [ -z "$left" ]
}

# The job's first process, if it lives.
rr_main() {
  local pid
  pid=$(rr_get main main) && rr_alive "$pid" "$(rr_get main main_ticks)" && echo "$pid"
}

# Wait up to TENTHS of a second until the job has no process.
rr_wait_for() {
  local left="$1"
  while [ "$left" -gt 0 ] && [ -n "$(rr_pids "$2")" ]; do
    rr_nap 0.1
    left=$((left - 1))
  done
}

rr_count_of() { printf '%s' "$1" | wc -w | tr -d ' '; }

rr_count() {
  local n
  n=$(rr_count_of "$1")
  if [ "$n" = 1 ]; then printf '1 process'; else printf '%s processes' "$n"; fi
}

# Signal each pid of a list. A process that ended since is no error.
rr_signal() {
  local pid
  for pid in $2; do kill -s "$1" "$pid" 2>/dev/null; done
  return 0
}

# Those of a list that are alive.
rr_still() {
  local pid
  for pid in $1; do
    if rr_ticks "$pid" >/dev/null; then echo "$pid"; fi
  done
}

# The children of a process.
rr_children() {
  local parent="$1" file stat
  for file in /proc/[0-9]*/stat; do
    { IFS= read -r stat <"$file"; } 2>/dev/null || continue
    # shellcheck disable=SC2086
    set -- "${stat%% *}" ${stat##*) }
    [ "$3" != "$parent" ] || echo "$1"
  done
}

# Who of these processes should get the signal: themselves, and behind a shell (which waits for its child and
# would not pass a signal on) its children too. Helpers of other programs are spared: a data loader that dies
# of the signal breaks the very checkpoint that the grace is for.
rr_spread() {
  local pid
  for pid in $1; do
    echo "$pid"
    case $(rr_line "/proc/$pid/comm") in
      sh | bash | dash | ash | zsh | ksh | fish | busybox | tini | docker-init | env | timeout | nohup | stdbuf | script)
        rr_spread "$(rr_children "$pid")"
        ;;
    esac
  done
}
