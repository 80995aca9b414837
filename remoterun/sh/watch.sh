# shellcheck shell=sh disable=SC3043
# What watches a job on its host while no laptop is on: a process beside the supervisor that looks every few
# seconds. It notes how long the log is (for `logs --since`), samples the job's GPUs, ends a job whose time is
# over or whose GPUs are idle, and tells of a stall. It holds no lease, and the job does not depend on it.

rr_watch() {
  local pause=0
  trap - HUP INT QUIT
  trap 'kill "$pause" 2>/dev/null; exit 0' TERM
  RR_SIZE=-1 RR_UUIDS=$(rr_line gpus) RR_QUIET=$(rr_uptime) RR_BUSY=$RR_QUIET RR_MOST=
  command -v nvidia-smi >/dev/null 2>&1 || RR_UUIDS=
  while [ ! -e exit ]; do
    if [ -z "$RR_UUIDS" ] && [ -e wait ] && [ -e start ] && command -v nvidia-smi >/dev/null 2>&1; then
      # A job that waited has its GPUs only now.
      RR_UUIDS=$(rr_line gpus) RR_QUIET=$(rr_uptime) RR_BUSY=$(rr_uptime)
    fi
    if [ ! -e start ] && [ -e queued ] && ! rr_alive "$(rr_get queued pid)" "$(rr_get queued ticks)"; then return 0; fi
    rr_watch_log
    [ -z "$RR_UUIDS" ] || rr_watch_gpus
    # Between two attempts nothing is idle or stalled.
    [ ! -e pause ] || RR_BUSY=$(rr_uptime) RR_QUIET=$RR_BUSY
    [ -e stop ] || rr_watch_limits
    [ -z "$RR_UUIDS" ] || rr_watch_stall
    sleep "$(rr_tick)" &
    pause=$!
    wait "$pause"
    # Whoever started this may have been killed: it ends with the job.
    if [ -e start ] && [ ! -e exit ] && [ ! -e pause ] &&
      ! rr_alive "$(rr_get start supervisor)" "$(rr_get start supervisor_ticks)" &&
      ! rr_alive "$(rr_get main main)" "$(rr_get main main_ticks)"; then
      [ -e exit ] || rr_tell lost
      return 0
    fi
  done
  # Once only, whoever is first; the supervisor may have been killed before it could.
  rr_tell end
}

# Seconds until the next look: no longer than the time that is left to the job.
rr_tick() {
  local tick limit left
  tick=$(rr_get guards tick || echo 15)
  if limit=$(rr_get guards timeout); then
    left=$((limit - $(rr_runs_for)))
    if [ "$left" -lt "$tick" ]; then tick=$((left > 1 ? left : 1)); fi
  fi
  printf %s "$tick"
}

# Seconds since the job's start.
rr_runs_for() {
  local began
  began=$(rr_get start uptime) || began=$(rr_uptime)
  printf %s "$(($(rr_uptime) - began))"
}

# A line of `log.times` whenever the log has grown: the time, and its size then.
rr_watch_log() {
  local size
  size=$(stat -c %s log)
  if [ "$size" != "$RR_SIZE" ]; then
    RR_SIZE=$size RR_QUIET=$(rr_uptime)
    printf '%s %s\n' "$(date +%s)" "$size" >>log.times
  fi
}

# Utilisation over the whole run, for this job's GPUs only: one line for each. RR_MOST is the busiest one's, empty
# when it is not known of each of them.
rr_watch_gpus() {
  local sample line below
  sample=$(timeout -k 2 20 nvidia-smi -i "$RR_UUIDS" --format=csv,noheader,nounits \
    --query-gpu=timestamp,index,uuid,utilization.gpu,memory.used,temperature.gpu,power.draw </dev/null) || sample=
  RR_MOST=
  if [ -n "$sample" ]; then
    printf '%s\n' "$sample" >>gpu.csv
    RR_MOST=$(printf '%s\n' "$sample" | rr_busiest)
  fi
  below=$(rr_get guards idle_below || echo 5)
  # What is not known counts as busy: nothing is ended for a driver that does not answer.
  if [ -z "$RR_MOST" ] || [ "$RR_MOST" -ge "$below" ]; then RR_BUSY=$(rr_uptime); fi
}

rr_busiest() {
  local most=0 line used
  while IFS= read -r line; do
    # timestamp, index, uuid, utilisation, …
    used=${line#*, *, *, }
    used=${used%%,*}
    case $used in '' | *[!0-9]*) return 0 ;; esac
    if [ "$used" -gt "$most" ]; then most=$used; fi
  done
  printf %s "$most"
}

# End a job whose time is over, or whose GPUs have been idle for too long.
rr_watch_limits() {
  local limit why=
  if limit=$(rr_get guards timeout) && [ "$(rr_runs_for)" -ge "$limit" ]; then
    why="its time limit of $(rr_get guards timeout_words) was over"
  elif [ -n "$RR_UUIDS" ] && limit=$(rr_get guards idle) && [ $(($(rr_uptime) - RR_BUSY)) -ge "$limit" ]; then
    why="its GPUs were idle for $(rr_get guards idle_words)"
  fi
  [ -n "$why" ] && [ ! -e exit ] || return 0
  rr_event . running "ending it: $why"
  rr_mark_log "ending the job: $why"
  rr_detached sh ./supervise.sh stop TERM "$(rr_get guards grace || echo 30)" "$why" >/dev/null 2>&1 </dev/null
  # The stop is on record before we look again.
  limit=0
  while [ ! -e stop ] && [ "$limit" -lt 50 ]; do
    rr_nap 0.1
    limit=$((limit + 1))
  done
}

# A silent log and idle GPUs: shown, told, and looked into while it lasts. Nothing is ended for it.
rr_watch_stall() {
  local limit since
  limit=$(rr_get guards stall) || return 0
  since=$RR_QUIET
  if [ "$RR_BUSY" -gt "$since" ]; then since=$RR_BUSY; fi
  if [ $(($(rr_uptime) - since)) -lt "$limit" ]; then
    if [ -e stall ]; then
      rm -f stall
      rr_event . running 'no longer stalled'
    fi
    return 0
  fi
  [ ! -e stall ] || return 0
  printf 'since=%s\n' "$(($(date +%s) - $(rr_uptime) + since))" | rr_put stall
  rr_event . running "stalled: log silent and GPUs idle for $(rr_get guards stall_words)"
  rr_stacks "${PWD##*/}" 2>&1 | rr_put stacks
  rr_tell stall
}
