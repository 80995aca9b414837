# shellcheck shell=sh disable=SC3043
# Reading jobs: what their folders and processes say, in the raw. Nothing here decides a state.

# rr_scan WORKDIR SINCE_MINUTES [ID…]: all jobs that are not ended or ended within SINCE_MINUTES (-1: all), or
# those whose ids match one of the patterns. For each: a line of live signs, then its files.
rr_scan() {
  local work since="$2" job id recent=
  work=$(rr_home "$1")
  shift 2
  printf 'boot=%s\nhost=%s\nnow=%s\n' "$(rr_boot)" "$(rr_host)" "$(date +%s)"
  [ -d "$work/jobs" ] || return 0
  cd "$work/jobs" || return 1
  [ "$since" -le 0 ] || recent=" $(find . -maxdepth 2 -name exit -mmin "-$since" | tr '\n' ' ')"
  for job in *; do
    id=$job
    [ -f "$job/job.json" ] || continue
    if [ "$#" -gt 0 ]; then
      rr_matches "$id" "$@" || continue
    elif [ -e "$job/exit" ] && [ "$since" -ge 0 ]; then
      case $recent in *" ./$id/exit "*) ;; *) continue ;; esac
    fi
    rr_show "$job"
  done
}

rr_matches() {
  local id="$1" pattern
  shift
  for pattern in "$@"; do
    # shellcheck disable=SC2254
    case $id in $pattern) return 0 ;; esac
  done
  return 1
}

# One job: `job=ID`, signs of life, then each file behind a line `file=NAME SIZE`.
rr_show() {
  local job="$1" name supervisor=dead main=dead LC_ALL=C
  printf '\njob=%s\n' "${job##*/}"
  if [ -e "$job/exit" ]; then
    :
  elif [ -e "$job/start" ]; then
    if rr_alive "$(rr_get "$job/start" supervisor)" "$(rr_get "$job/start" supervisor_ticks)"; then supervisor=alive; fi
    if rr_alive "$(rr_get "$job/main" main)" "$(rr_get "$job/main" main_ticks)"; then main=alive; fi
    printf 'supervisor_is=%s\nmain_is=%s\n' "$supervisor" "$main"
    [ "$supervisor$main" != deaddead ] || printf 'oom_kills_now=%s\n' "$(rr_oom_kills)"
  else
    printf 'made=%s\n' "$(stat -c %Y "$job/job.json")"
    if rr_alive "$(rr_get "$job/queued" pid)" "$(rr_get "$job/queued" ticks)"; then echo waiter_is=alive; fi
  fi
  [ ! -e "$job/log" ] || stat -c 'log_size=%s
log_time=%Y' "$job/log"
  # The exit record may have come while we looked at the processes: it is read after them, and it wins.
  for name in queued gpus start main pause stall stop exit job.json; do
    [ ! -f "$job/$name" ] || rr_give "$name" "$(cat "$job/$name")"
  done
  [ ! -e "$job/log" ] || rr_give tail "$(tail -c 400 "$job/log" | tr -d '\000')"
}

# NAME, size in bytes, TEXT.
rr_give() { printf 'file=%s %s\n%s\n' "$1" "${#2}" "$2"; }

# rr_follow WORKDIR ID OFFSET: the log's bytes from OFFSET until the job has ended, then `tail` gives up. 6: the log is
# shorter than OFFSET now: somebody has cut it.
rr_follow() {
  local job pid
  job=$(rr_home "$1")/jobs/$2
  [ -f "$job/job.json" ] || return 3
  cd "$job" || return 3
  [ "$3" = 0 ] || [ "$(stat -c %s log)" -ge "$3" ] || return 6
  if [ -e exit ] || ! pid=$(rr_living .); then
    tail -c "+$(($3 + 1))" log
    return
  fi
  if tail --version 2>/dev/null | grep -q GNU; then
    tail -c "+$(($3 + 1))" -s 0.1 -f --pid="$pid" log
  else
    tail -c "+$(($3 + 1))" -f log &
    while kill -0 "$pid" 2>/dev/null; do rr_nap 0.2; done
    rr_nap 1
    kill $!
  fi
}

# The process whose end is the job's end; waits a little for one that is just starting.
rr_living() {
  local waited=0
  while [ "$waited" -lt 100 ]; do
    if [ -e "$1/start" ]; then
      if rr_alive "$(rr_get "$1/start" supervisor)" "$(rr_get "$1/start" supervisor_ticks)"; then
        rr_get "$1/start" supervisor
        return
      fi
      if rr_alive "$(rr_get "$1/main" main)" "$(rr_get "$1/main" main_ticks)"; then
        rr_get "$1/main" main
        return
      fi
      return 1
    fi
    rr_nap 0.1
    waited=$((waited + 1))
  done
  return 1
}

# rr_log WORKDIR ID LINES FILE UNTIL [SINCE [ATTEMPT [PATTERN]]]: the last LINES lines (-1: all) of one of the job's
# logs, of which only the first UNTIL bytes are looked at when that is given; of the log itself also from SINCE (seconds
# since 1970) on, of one ATTEMPT, and only lines that match PATTERN (an extended regular expression).
rr_log() {
  local from to
  cd "$(rr_home "$1")/jobs/$2" || return 3
  if [ -n "${6-}${7-}${8-}" ]; then
    [ "$4" = log ] || return 7
    : | grep -aE -e "${8-}" || [ $? = 1 ] || return 2
    from=0
    to=${5:-$(stat -c %s log)}
    if [ -n "${7-}" ]; then
      rr_attempt_range "$7" || return 8
    fi
    [ -z "${6-}" ] || rr_since "$6"
    rr_range "$from" "$to" | rr_grep "${8-}" | rr_last "$3"
    return
  fi
  case $4 in
    # Rank 0 writes into the log itself; the lines of other ranks have theirs in front.
    ranks/0.log) grep -av '^\[rank [1-9]' log | rr_last "$3" ;;
    ranks/*.log)
      set -- "$1" "$2" "$3" "${4#ranks/}"
      set -- "$1" "$2" "$3" "${4%.log}"
      # torchrun's own layout: RUN/attempt_N/RANK/{stdout,stderr}.log
      rr_exists ranks/*/attempt_*/"$4"/std*.log || return 4
      cat ranks/*/attempt_*/"$4"/std*.log | rr_last "$3"
      ;;
    *)
      [ -f "$4" ] || return 4
      if [ -n "$5" ]; then head -c "$5" "$4" | rr_last "$3"; elif [ "$3" -lt 0 ]; then cat "$4"; else tail -n "$3" "$4"; fi
      ;;
  esac
}

rr_exists() { [ -e "$1" ]; }

# Bytes FROM to TO of the log.
rr_range() { tail -c "+$(($1 + 1))" log | if [ "$2" -gt "$1" ]; then head -c "$(($2 - $1))"; fi; }

rr_grep() { if [ -n "$1" ]; then grep -aE -e "$1" || [ $? = 1 ]; else cat; fi; }

# N: `from` and `to` of one attempt, where its lines in the log begin and end.
rr_attempt_range() {
  local n code told begin end ended last=0
  if [ -f attempts ]; then
    # shellcheck disable=SC2034
    while read -r n code told begin end ended; do
      last=$n
      if [ "$n" = "$1" ]; then
        from=$begin to=$end
        return 0
      fi
    done <attempts
  fi
  # The newest one is not in the list: it begins where the last mark of ours ends.
  [ "$1" = $((last + 1)) ] && [ "$(rr_get main attempt)" = "$1" ] || return 1
  [ "$last" = 0 ] || from=$(rr_get main log_from)
}

# SECONDS: raise `from` to where the log was at that time, as the watcher noted it every few seconds: a little more
# than asked for, never less.
rr_since() {
  local time size at=0
  [ -f log.times ] || return 0
  case $1 in -*) set -- "$(($(date +%s) + $1))" ;; esac
  while read -r time size; do
    [ "$time" -lt "$1" ] || break
    at=$size
  done <log.times
  if [ "$at" -gt "$from" ]; then from=$at; fi
}

rr_last() { if [ "$1" -lt 0 ]; then cat; else tail -n "$1"; fi; }

# rr_history WORKDIR ID: how it has gone so far: samples of its GPUs, and the newest file of metrics in out/ (JSON lines).
rr_history() {
  local newest='' file
  cd "$(rr_home "$1")/jobs/$2" || return 3
  printf 'job=%s\n' "$2"
  [ ! -s gpu.csv ] || rr_give gpu.csv "$(tail -n 5000 gpu.csv)"
  for file in out/*.jsonl out/*/*.jsonl; do
    [ -s "$file" ] || continue
    # shellcheck disable=SC3013 # -nt: dash, bash and busybox all have it.
    if [ -z "$newest" ] || [ "$file" -nt "$newest" ]; then newest=$file; fi
  done
  [ -z "$newest" ] || rr_give metrics "$(tail -n 5000 "$newest" | head -c 2000000 | tr -d '\000')"
}

# rr_stop WORKDIR ID SIGNAL GRACE: start the stop on the host itself, then show how it goes. A cut link or a
# Ctrl-C here does not cancel it. One that is under way already is joined. Ends with the job's signs.
rr_stop() {
  local job stopper
  job=$(rr_home "$1")/jobs/$2
  [ -f "$job/job.json" ] || return 3
  # A handler, not "ignore": the job must not inherit it.
  trap : PIPE HUP
  cd "$job" || return 3
  if [ -e exit ] && [ -z "$(rr_pids "$2")" ]; then
    echo "note=it had ended already"
  else
    stopper=$(rr_get stop stopper)
    if ! rr_alive "$stopper" "$(rr_get stop stopper_ticks)"; then
      rm -f stop
      : >stop.log
      rr_detached sh "$job/supervise.sh" stop "$3" "$4" >/dev/null 2>&1 </dev/null 3>&-
      while stopper=$(rr_get stop stopper); [ -z "$stopper" ]; do rr_nap 0.05; done
    fi
    echo "note=stopping"
    while rr_alive "$stopper" "$(rr_get stop stopper_ticks)"; do rr_nap 0.1; done
    sed -n 's/^SIG/note=SIG/p' stop.log
    printf 'left=%s\n' "$(rr_get stop left)"
  fi
  rr_show "$job"
}

# rr_remove WORKDIR ID: an ended job's folder; renamed first, so that it is gone at once or not at all.
# 5: it has not ended. 6: a process of it is alive.
rr_remove() {
  local work
  work=$(rr_home "$1")
  cd "$work/jobs" 2>/dev/null && [ -f "$2/job.json" ] || return 3
  if [ ! -e "$2/exit" ] && [ "$3" != lost ]; then return 5; fi
  [ -z "$(rr_pids "$2")" ] || return 6
  mv -T "$2" ".aside.$2.$$" && rm -rf ".aside.$2.$$"
}

# rr_attach WORKDIR ID TMUX: make sure that the job's session is there; prints the socket.
rr_attach() {
  local job
  job=$(rr_home "$1")/jobs/$2
  [ -f "$job/job.json" ] || return 3
  [ ! -e "$job/exit" ] || return 5
  rr_session "$3" "$job"
}
